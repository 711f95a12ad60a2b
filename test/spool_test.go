package test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	api "attestd/sdk/attestd"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/sdk/attestd/spool"
	"attestd/store/storetest"
)

// A program that queues and flushes is killed at 100 random moments, while the server runs on. What
// the client reported as queued is in the chain at the end, and nothing is there twice: neither
// what was half written, nor what was sent and not yet removed.
func TestSpoolSurvivesKills(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	rounds := testenv.Rounds(20, 100)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	s := serve(t, storetest.New(t), "--rate-limits", "off")
	c := s.register(t, "acme")
	dir := filepath.Join(t.TempDir(), "spool")
	queued := map[string]bool{}
	for round := range rounds {
		for _, id := range killedSpooler(t, s.URL, c.key, dir, round, chance.IntN(60)) {
			queued[id] = true
		}
	}
	own, err := api.New(api.Config{URL: s.URL, Credential: api.Key(c.key)})
	must.OK(t, err)
	defer own.Close()
	left, err := spool.Open(dir, own)
	must.OK(t, err)
	waiting := left.Pending()
	must.OK(t, left.Flush(t.Context()))

	recorded := map[string]int{}
	for r, err := range own.Records(t.Context(), api.Range{}) {
		must.OK(t, err)
		recorded[string(r.Payload.Payload)]++
	}
	for id := range queued {
		if recorded[fmt.Sprintf("%q", id)] == 0 {
			t.Errorf("%s was queued, and is lost", id)
		}
	}
	for id, n := range recorded {
		if n > 1 {
			t.Errorf("%s is there %d times", id, n)
		}
	}
	if n := left.Pending(); n > 0 || len(queued) == 0 || waiting == len(queued) {
		t.Errorf("%d still wait; of %d that were queued %d were left to the end", n, len(queued), waiting)
	}
	if refused, err := left.Refused(); err != nil || len(refused) > 0 {
		t.Error(refused, err)
	}
	t.Logf("%d queued, %d recorded, %d of them at the end", len(queued), len(recorded), waiting)
}

// killedSpooler runs the program spooler until it has reported so many queued items, kills it, and
// returns its output.
func killedSpooler(t *testing.T, url, key, dir string, round, moment int) (queued []string) {
	t.Helper()
	cmd := exec.Command("spooler", url, dir, fmt.Sprint(round))
	cmd.Env = append(os.Environ(), "ATTESTD_KEY="+key)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if queued = append(queued, strings.TrimPrefix(lines.Text(), "queued ")); len(queued) > moment {
			_ = cmd.Process.Kill() // its earlier output is still read
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Exited() {
		t.Fatalf("the program was not killed: %v", err)
	}
	return queued
}

// spooler is a program that queues as fast as it can, from several goroutines, and flushes all the
// while. Its arguments are the server, a folder, and a name for what it queues.
func spooler() {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, "spooler:", err)
			os.Exit(1)
		}
	}
	ctx := context.Background()
	c, err := api.New(api.Config{URL: os.Args[1], Credential: api.Key(os.Getenv("ATTESTD_KEY"))})
	fail(err)
	s, err := spool.Open(os.Args[2], c)
	fail(err)
	for who := range 4 {
		go func() {
			for n := 0; ; n++ {
				id := fmt.Sprintf("%s-%d-%d", os.Args[3], who, n)
				fail(s.Add(ctx, api.Attestation{AgentID: "bot", ActionType: "count", Payload: id}))
				_, err := fmt.Fprintln(os.Stdout, "queued", id)
				fail(err)
			}
		}()
	}
	for {
		fail(s.Flush(ctx))
	}
}
