package test

import (
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// signingKey is a key of GET /v1/ca/public-keys.
type signingKey struct {
	KID       string
	FromIndex int64
	EndedAt   string
}

func signingKeys(t *testing.T, c *client) []signingKey {
	t.Helper()
	var list struct{ Keys []signingKey }
	c.call(t, 200, "GET", "/v1/ca/public-keys?companyId=acme", "", &list)
	return list.Keys
}

// A rotation at the command line that is killed at any moment is complete or absent, and complete
// once it has reported success.
func TestKilledRotationIsAtomic(t *testing.T) {
	t.Parallel()
	rounds := testenv.Rounds(2, 50)
	chance := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	db := storetest.New(t)
	s := serve(t, db)
	c := s.register(t, "acme")
	attest := func() {
		c.call(t, 201, "POST", "/v1/attest", `{"agentId":"bot","actionType":"count","payload":1}`, nil)
	}
	attest()
	must.OK(t, s.interrupt())
	start := time.Now()
	_, err := attestd(t, "rotate-key", "--db", db, "--company", "acme")
	must.OK(t, err)
	whole := time.Since(start)
	known, outcomes := 2, map[string]int{}
	for range rounds {
		var out strings.Builder
		cmd := exec.Command("attestd", "rotate-key", "--db", db, "--company", "acme")
		cmd.Stdout = &out
		must.OK(t, cmd.Start())
		killer := time.AfterFunc(time.Duration(chance.Int64N(int64(whole))), func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		killer.Stop()
		verifyAcme(t, db)
		s = serve(t, db)
		c = c.at(s)
		list := signingKeys(t, c)
		current := list[len(list)-1]
		if n := len(list) - known; n < 0 || n > 1 || n == 0 && out.Len() > 0 || current.EndedAt != "" {
			t.Fatalf("%d keys after %d, the last %+v; it said %q", len(list), known, current, out.String())
		}
		outcomes[map[bool]string{true: "absent", false: "whole"}[len(list) == known]]++
		known = len(list)
		attest()
		must.OK(t, s.interrupt())
	}
	verifyAcme(t, db)
	t.Logf("%v", outcomes)
}
