package store_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/storetest"
)

// moveUntilKilled runs in a child process: it moves a database and stops at a stage until it is
// killed. Its argument is the source, the target and the stage, separated by tabs.
func moveUntilKilled(argument string) error {
	text, err := os.ReadFile("../schema.sql")
	if err != nil {
		return err
	}
	what := strings.Split(argument, "\t")
	_, err = admin.Move(ctx, what[0], what[1], string(text), admin.MoveOptions{Progress: func(stage string, _, _ int64) {
		if stage == what[2] {
			fmt.Println(stage)
			select {}
		}
	}})
	return err
}

// A process that is killed during a move, while it copies or while it verifies the copy, leaves
// nothing in PostgreSQL, no database at the target path, and an unchanged source. The next move
// finds an empty target and removes the unfinished file.
func TestKilledMoveLeavesNothing(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	storetest.NotOnPostgres(t, "moves between both engines in any case")
	bothEngines(t)
	t.Parallel()
	f := everything(t, nil)
	url, out := storetest.Shared(t), target(t)
	for _, at := range []string{"copy records", "verify the copy"} {
		for _, to := range []string{url, out} {
			child := exec.Command(os.Args[0])
			child.Env = append(os.Environ(), part+"=move:"+f.path+"\t"+to+"\t"+at)
			child.Stderr = os.Stderr
			said := bufio.NewReader(got(child.StdoutPipe())(t))
			must.OK(t, child.Start())
			if line, err := said.ReadString('\n'); err != nil || line != at+"\n" {
				t.Errorf("%q: %q, %v", at, line, err)
			}
			must.OK(t, child.Process.Signal(syscall.SIGKILL))
			_ = child.Wait()
		}
		if n := relations(t, url); n > 0 {
			t.Errorf("%s: %d relations are left", at, n)
		}
		if _, err := store.OpenReadOnly(ctx, out); err == nil {
			t.Errorf("%s: a file is left", at)
		}
	}
	there := got(move(t, f.path, url))(t)
	if home := got(move(t, f.path, out))(t); home.Digest != there.Digest {
		t.Errorf("digests %s, %s", home.Digest, there.Digest)
	}
	if files := list(t, filepath.Dir(out)); files != "out.db out.db.lock" {
		t.Errorf("left: %s", files)
	}
}
