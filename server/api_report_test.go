package server_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"attestd/chain/evidence"
	"attestd/internal/testenv"
)

// report returns the content of a report of a period, which must verify with the company's key.
func (c caller) report(t testing.TB, query string) (header evidence.Report, events []string) {
	t.Helper()
	r := c.do(t, "GET /v1/report"+query, "").status(200).sets("Content-Type: application/x-ndjson", "Cache-Control: no-store")
	v := evidence.CheckReport(bytes.NewReader(r.raw), evidence.Trust{Fingerprint: c.fingerprint(t)},
		func(r *evidence.Report) { header = *r }, func(e *evidence.Event) { events = append(events, e.Action) })
	if v.Outcome != evidence.Holds {
		t.Errorf("%s: %+v\n%s", query, v, r.raw)
	}
	return header, events
}

// A report verifies and has every record of its period; the next report begins where one ends, and
// a passport that was never issued is in none.
func TestReport(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.attestMany(t, 300)
	acme.agent(t, "bot")
	tick()
	acme.do(t, "POST /v1/companies/rotate-keys", "").status(200)
	acme.passport(t, "bot", "")
	acme.attestMany(t, 2)
	acme.do(t, "POST /v1/agents/bot/disable", "").status(200)
	tick()

	all, events := acme.report(t, "")
	control := acme.controlRecords(t)
	if want := len(control) + 302; len(events) != want || strings.Join(events[:len(control)], " ") != strings.Join(control, " ") {
		t.Errorf("%d events, want %d: %q", len(events), want, events)
	}
	// This is the record of the rotation.
	cut := acme.do(t, "GET /v1/chain?log=control", "").status(200).at("records", 3, "timestamp").(string)
	before, events1 := acme.report(t, "?to="+cut)
	after, events2 := acme.report(t, "?from="+cut+"&to="+all.To)
	if len(events1)+len(events2) != len(events) || events2[0] != "signing-key.rotated" {
		t.Errorf("%d and %d events, %q", len(events1), len(events2), events2)
	}
	for i := range before.Periods {
		end, _, _ := strings.Cut(before.Periods[i].End, "\n\n")
		if start, _, _ := strings.Cut(after.Periods[i].Start, "\n\n"); start != end {
			t.Errorf("log %d ends at %q and begins at %q", i, end, start)
		}
	}
	if _, none := acme.report(t, fmt.Sprintf("?from=%s&to=%s", cut, cut)); len(none) != 0 {
		t.Errorf("a period of no time has %q", none)
	}
	for _, query := range []string{"?from=x", "?to=2999-01-01T00:00:00.000Z", "?from=" + all.To + "&to=" + cut} {
		acme.do(t, "GET /v1/report"+query, "").status(400)
	}
	s.anyone().do(t, "GET /v1/report", "").status(401)
	reader := acme.with(acme.do(t, "POST /v1/keys", `{"role":"reader"}`).status(201).str("key"))
	reader.do(t, "GET /v1/report", "").status(200)
	if other, events := s.company(t, "globex").report(t, ""); other.File.CompanyID != "globex" || len(events) != 2 {
		t.Errorf("of another company: %q", events)
	}
}
