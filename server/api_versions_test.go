package server_test

import (
	"testing"

	"attestd/internal/testenv"
)

// Two servers of one database have each a version and settings of their own, as during a rolling
// upgrade. Companies register at both, whichever started last, can be changed at both, and their
// control logs verify.
func TestCompaniesRegisterBesideAnotherVersion(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick)
	testenv.Concurrent(t)
	t.Parallel()
	a, b := startTwo(t)
	for i, id := range []string{"first", "second", "third"} {
		c := []*service{a, b}[i%2].company(t, id)
		for _, s := range []*service{a, b} {
			there := c.on(s)
			there.attestMany(t, 1)
			for _, log := range []string{"", "?log=control"} {
				there.do(t, "GET /v1/verify"+log, "").has(`{"valid":true}`)
			}
		}
		c.agent(t, "bot")
		c.on(b).do(t, "POST /v1/keys", "").status(201)
	}
}
