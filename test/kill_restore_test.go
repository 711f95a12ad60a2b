package test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/storetest"
)

// A restore that is killed at any moment is there with its control record, after the next start, or
// neither is: also where that start is killed.
func TestKilledRestoreIsAtomic(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	storetest.AboutFile(t)
	t.Parallel()
	rounds := testenv.Rounds(2, 50)
	chance := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	dir := t.TempDir()
	db, backup := filepath.Join(dir, "attestd.db"), filepath.Join(dir, "backup.db")
	s := serve(t, db)
	c := s.register(t, "acme")
	attest := func() {
		c.call(t, 201, "POST", "/v1/attest", `{"agentId":"bot","actionType":"count","payload":1}`, nil)
	}
	attest()
	must.OK(t, s.interrupt())
	_, err := attestd(t, "backup", backup, "--db", db)
	must.OK(t, err)
	s = serve(t, db)
	c = c.at(s)
	attest()
	must.OK(t, s.interrupt())
	path, err := binary(t)
	must.OK(t, err)
	restore := []string{"restore", backup, "--db", db, "--force", "--accept-rollback"}
	var whole time.Duration
	length, restored, outcomes := 2, 0, map[string]int{}
	for round := range rounds + 1 {
		start := time.Now()
		cmd := exec.Command(path, restore...)
		must.OK(t, cmd.Start())
		after := patience
		if round > 0 { // the first comes to its end
			after = time.Duration(chance.Int64N(int64(whole) * 5 / 4))
		}
		killer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		done := cmd.Wait() == nil
		killer.Stop()
		whole = max(whole, time.Since(start))
		_ = os.Remove(store.HeadsBeside(db)) // it would have the restore accepted first
		startAndKill(t, db, "open", time.Duration(chance.Int64N(int64(60*time.Millisecond))))
		s = serve(t, db)
		c = c.at(s)
		var actions struct{ Records []json.RawMessage }
		var control struct{ Records []controlRecord }
		c.call(t, 200, "GET", "/v1/chain", "", &actions)
		c.call(t, 200, "GET", "/v1/chain?log=control", "", &control)
		records := 0
		for _, r := range control.Records {
			if r.Payload.ActionType == "database.restored" {
				records++
			}
		}
		switch n := len(actions.Records); {
		case n == 1 && records == 1:
			outcomes["both"]++
			restored = 1
		case n == length && records == restored && !done:
			outcomes["neither"]++
		default:
			t.Fatalf("round %d: %d records after %d, %d records of a restore after %d; done: %v", round, n, length, records, restored, done)
		}
		attest()
		length = len(actions.Records) + 1
		must.OK(t, s.interrupt())
		verifyAcme(t, db)
	}
	t.Log(outcomes)
	if slices.Min([]int{outcomes["both"], outcomes["neither"]}) == 0 && testenv.Long() {
		t.Errorf("outcomes: %v", outcomes)
	}
}
