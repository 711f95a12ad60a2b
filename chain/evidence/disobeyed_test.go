package evidence_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"attestd/chain/evidence"
	"attestd/chain/tlog"
	"attestd/crypto/jose"
	"attestd/crypto/statement"
)

// disobedient is the file of a sealed session with calls of these kinds, as call=actions: the
// agent's key has signed each record.
func disobedient(t testing.TB, calls ...[2]string) []byte {
	c := newCompany(t)
	key := agentKey(t, jose.EdDSA, 1)
	kid := c.enrol(agentID, key.Key(), nil)
	c.add(0, "other", "deploy", `{"version":1}`, "")
	previous := ""
	var indexes []int64
	for i, call := range calls {
		s := c.stated(key, agentID, call[1], fmt.Sprintf(`{"source":"claude-code","tool":"Bash","callId":%q,"sessionId":"run-1"}`, call[0]),
			func(claims *statement.Claims) {
				claims.Session, claims.Seq, claims.Previous, claims.End = "run-1", int64(i), previous, i == len(calls)-1
			})
		previous = s.Hash()
		indexes = append(indexes, int64(i+1))
	}
	return c.session(kid, "run-1", []string{kid}, indexes...)
}

// A session in which a refusal was not obeyed holds, and says so before everything else: each of
// its records is genuine.
func TestSessionThatDisobeyed(t *testing.T) {
	t.Parallel()
	trust := evidence.Trust{Fingerprint: fingerprint(0)}
	obeyed := [][2]string{{"a", "tool.requested"}, {"a", "tool.denied"}, {"b", "tool.requested"}, {"b", "tool.completed"}}
	if v := checkSession(disobedient(t, obeyed...), trust); v.Outcome != evidence.Holds || v.Session.State != evidence.Complete || v.Session.Completeness != "" {
		t.Errorf("%+v", v)
	}
	text := disobedient(t, append(obeyed, [2]string{"c", "tool.requested"}, [2]string{"c", "tool.denied"}, [2]string{"a", "tool.failed"}, [2]string{"c", "tool.completed"})...)
	v := checkSession(text, trust)
	got, err := json.Marshal(v.Session)
	must(t, err)
	want := `"state":"disobeyed","missing":[],"refused":0,"completeness":"complete","disobeyed":[{"refused":2,"done":7,"tool":"Bash"},{"refused":6,"done":8,"tool":"Bash"}]}`
	if v.Outcome != evidence.Holds || !strings.HasSuffix(string(got), want) {
		t.Errorf("%s: %s, want %s", v.Outcome, got, want)
	}
	const said = "8 records, disobeyed: refused at record 2, done at record 7; refused at record 6, done at record 8; complete: 0 to 7, sealed"
	if !slices.ContainsFunc(v.Checked, func(s string) bool { return strings.HasSuffix(s, said) }) {
		t.Errorf("said: %q", v.Checked)
	}
	if v := checkSession(text[:len(text)-1], trust); v.Outcome != evidence.Fails || v.Session != nil {
		t.Errorf("a file that fails: %+v", v)
	}
}

// A report says which calls disobeyed, those without a session too, and at most a hundred.
func TestReportOfCallsThatDisobeyed(t *testing.T) {
	t.Parallel()
	report := func(calls int) evidence.Verdict {
		c := newCompany(t)
		c.change("company.registered", "company:acme", nil)
		call := func(n int, action string) {
			c.add(0, agentID, action, fmt.Sprintf(`{"source":"mcp","callId":"%d"}`, n), "")
		}
		for n := range calls {
			call(n, "tool.requested")
			call(n, "tool.denied")
			call(n, "tool.ended")
		}
		call(-1, "tool.denied")
		r := evidence.Report{From: "2026-01-01T00:00:00.000Z", To: "2027-01-01T00:00:00.000Z", File: c.file(0, 0, c.checkpoint(0))}
		for i := range r.Periods {
			signed, err := tlog.Checkpoint{Origin: c.logs[i].Origin, Tree: tlog.Tree{Root: tlog.EmptyRoot()}}.Sign(c.key())
			must(t, err)
			r.Periods[i] = evidence.Period{Start: string(signed), End: string(c.checkpoint(i))}
		}
		text := string(r.Header()) + "\n"
		for _, i := range []int{1, 0} {
			for j := range c.logs[i].records {
				text += string(evidence.AppendLine(nil, c.logs[i].Name, &c.logs[i].records[j])) + "\n"
			}
		}
		v, _ := checkReport([]byte(text), evidence.Trust{Fingerprint: fingerprint(0)})
		if v.Outcome != evidence.Holds {
			t.Fatalf("%+v", v)
		}
		return v
	}
	last := func(v evidence.Verdict) string { return v.Checked[len(v.Checked)-1] }
	if v := report(0); v.Disobeyed != nil || strings.Contains(last(v), "refused") {
		t.Errorf("%+v", v)
	}
	if v := report(1); len(v.Disobeyed) != 1 || last(v) != "a call that was refused ran all the same: refused at record 1, done at record 2" {
		t.Errorf("%+v", v)
	}
	v := report(101)
	if len(v.Disobeyed) != 100 || !strings.HasPrefix(last(v), "101 calls that were refused ran all the same: refused at record 1, done at record 2; ") ||
		!strings.HasSuffix(last(v), "; and 91 more") {
		t.Errorf("%d: %s", len(v.Disobeyed), last(v))
	}
}
