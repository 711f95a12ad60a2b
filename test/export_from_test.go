package test

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"attestd/chain/lines"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// A server begins its export at a time, and goes on from there after a restart with the same flags.
func TestServerExportsFromTime(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	db, file := storetest.New(t), filepath.Join(t.TempDir(), "lines.ndjson")
	s := serve(t, db)
	c := s.register(t, "acme")
	attest := func(n int) {
		for range n {
			c.call(t, 201, "POST", "/v1/attest", `{"agentId":"bot","actionType":"a.b","payload":{}}`, nil)
		}
	}
	var published struct{ Fingerprint string }
	c.call(t, 200, "GET", "/v1/ca/public-key?companyId=acme", "", &published)
	attest(5)
	must.OK(t, s.interrupt())
	from := time.Now().UTC().Format(time.RFC3339Nano) // after the last record by the time of a stop
	for round, next := range []int64{8, 11} {
		s = serve(t, db, "--export-to", "file", "--export-file", file, "--export-from", from)
		c = c.at(s)
		attest(3)
		must.OK(t, s.interrupt())
		r := command(t, "check", "--lines", "--json", "--key", published.Fingerprint, file)
		var verdict struct{ Logs []lines.Part }
		must.OK(t, json.Unmarshal([]byte(r.stdout), &verdict))
		if l := verdict.Logs[0]; r.status != 0 || l.First != 5 || l.Next != next || l.To != next {
			t.Errorf("start %d: %s", round+1, r.all)
		}
	}
}
