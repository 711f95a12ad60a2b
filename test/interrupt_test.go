package test

import (
	"bufio"
	"database/sql"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// Ctrl-C in the midst of a backup or a restore leaves no part of a copy behind: it would hold
// private keys that no operator protects.
func TestInterruptedCopyLeavesNoFile(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	program, err := binary(t)
	must.OK(t, err)
	source := filepath.Join(t.TempDir(), "acme.db")
	must.OK(t, serve(t, source).interrupt())
	grow(t, source, 64) // so that the copy is still under way when the signal comes

	for _, command := range []string{"backup", "restore"} {
		t.Run(command, func(t *testing.T) {
			folder := t.TempDir()
			target := filepath.Join(folder, "copy.db")
			args := map[string][]string{"backup": {"backup", target, "--db", source}, "restore": {"restore", source, "--db", target}}
			cmd := exec.Command(program, args[command]...)
			var answer strings.Builder
			cmd.Stderr = &answer
			must.OK(t, cmd.Start())
			for late := time.Now().Add(patience); !hasFile(t, folder, "copy.db.tmp-") && time.Now().Before(late); {
				// It is a matter of milliseconds.
			}
			must.OK(t, cmd.Process.Signal(os.Interrupt))
			var exited *exec.ExitError
			if err := cmd.Wait(); !errors.As(err, &exited) || exited.ExitCode() != 1 || answer.String() != "attestd: interrupted\n" {
				t.Errorf("%v: %q", err, answer.String())
			}
			if hasFile(t, folder, "copy.db.tmp-") {
				t.Error("a part of the copy is left")
			}
		})
	}
}

// A backup that is killed cannot clean up; the next one into the same folder, under another name,
// does it.
func TestBackupRemovesFilesOfKilledBackup(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere it takes a day")
	}
	program, err := binary(t)
	must.OK(t, err)
	source := filepath.Join(t.TempDir(), "acme.db")
	must.OK(t, serve(t, source).interrupt())
	grow(t, source, 64)

	folder := t.TempDir()
	killed := exec.Command(program, "backup", filepath.Join(folder, "monday.db"), "--db", source)
	must.OK(t, killed.Start())
	begun := func() bool { // a copy with something in it
		found, err := filepath.Glob(filepath.Join(folder, "monday.db.tmp-*"))
		must.OK(t, err)
		for _, name := range found {
			if info, err := os.Stat(name); err == nil && info.Size() > 0 {
				return true
			}
		}
		return false
	}
	for late := time.Now().Add(patience); !begun() && time.Now().Before(late); {
	}
	must.OK(t, killed.Process.Kill())
	_ = killed.Wait()
	if !begun() {
		t.Fatal("the killed backup left nothing")
	}
	if out, err := exec.Command(program, "backup", filepath.Join(folder, "tuesday.db"), "--db", source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if hasFile(t, folder, "monday") || !hasFile(t, folder, "tuesday.db") {
		t.Error("what the killed backup left is still there")
	}
}

// A stop waits a while for a request in progress; a second signal ends the wait.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := serve(t, storetest.New(t))
	address := strings.TrimPrefix(s.URL, "http://")
	conn, err := net.Dial("tcp", address)
	must.OK(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "POST /v1/companies HTTP/1.1\r\nHost: "+address+"\r\nContent-Length: 20\r\nExpect: 100-continue\r\n\r\n")
	must.OK(t, err)
	answer, err := bufio.NewReader(conn).ReadString('\n')
	// it comes when the server begins to read the body, for which it now waits
	if err != nil || answer != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("%q, %v", answer, err)
	}

	began := time.Now()
	must.OK(t, s.cmd.Process.Signal(syscall.SIGTERM))
	for listening := true; listening; { // until the stop has begun
		knock, err := net.Dial("tcp", address)
		if listening = err == nil; listening {
			knock.Close()
		}
	}
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for ended := false; !ended; {
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err = <-s.end:
			s.end <- err
			ended = true
		case <-again.C:
		}
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	if exited := (*exec.ExitError)(nil); !errors.As(err, &exited) || exited.Exited() {
		t.Errorf("it ended with %v, not by the signal", err)
	}
}

// grow adds ballast to a database.
func grow(t *testing.T, path string, mebibytes int) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	must.OK(t, err)
	_, err = db.Exec(`CREATE TABLE ballast (x);
		WITH n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO ballast SELECT zeroblob(1 << 20) FROM n`, mebibytes)
	must.OK(t, errors.Join(err, db.Close()))
}

// hasFile reports whether folder has a file whose name has the given prefix.
func hasFile(t *testing.T, folder, prefix string) bool {
	t.Helper()
	entries, err := os.ReadDir(folder)
	must.OK(t, err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			return true
		}
	}
	return false
}
