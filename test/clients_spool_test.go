package test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// kills returns how often a spool's process is killed.
func kills() int { return testenv.Rounds(8, 130) }

// A process that fills a spool and sends it is killed at random moments, by SIGKILL: what the
// client called safe on disk is in the chain at the end, and nothing is there twice.
func TestClientSpoolsSurviveKills(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	othersRun(t)
	s := serve(t, storetest.New(t), "--rate-limits", "off")
	for i, script := range []string{"spool.mjs", "spool.py"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			c := s.register(t, fmt.Sprint("spool-", i))
			folder := t.TempDir()
			var safe []int
			for range kills() {
				first := 0
				if len(safe) > 0 {
					// what was not acknowledged may still be there
					first = safe[len(safe)-1] + 1000
				}
				safe = append(safe, addUntilKilled(t, script, s.URL, c.key, folder, first)...)
			}
			if out, err := clientScript(t, script, s.URL, c.key, folder, "flush").CombinedOutput(); err != nil {
				t.Fatalf("the last flush: %v\n%s", err, out)
			}
			var chain struct {
				Records []struct{ Payload struct{ Payload int } }
			}
			c.call(t, 200, "GET", "/v1/chain", "", &chain)
			times := map[int]int{}
			for _, r := range chain.Records {
				times[r.Payload.Payload]++
			}
			for n, count := range times {
				if count > 1 {
					t.Errorf("%d is in the chain %d times", n, count)
				}
			}
			for _, n := range safe {
				if times[n] == 0 {
					t.Errorf("%d was acknowledged and is lost", n)
				}
			}
			t.Logf("%d acknowledged, %d in the chain", len(safe), len(chain.Records))
		})
	}
}

// addUntilKilled runs a process that fills a spool until it has acknowledged a random number of
// attestations, and returns them.
func addUntilKilled(t *testing.T, script, url, key, folder string, first int) (safe []int) {
	t.Helper()
	cmd := clientScript(t, script, url, key, folder, strconv.Itoa(first))
	out, err := cmd.StdoutPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	killAt := 1 + rand.IntN(15)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		n, err := strconv.Atoi(lines.Text())
		must.OK(t, err)
		if safe = append(safe, n); len(safe) == killAt {
			must.OK(t, cmd.Process.Kill())
		}
	}
	_ = cmd.Wait() // it was killed
	return safe
}
