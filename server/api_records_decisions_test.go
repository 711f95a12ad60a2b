package server_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"attestd/chain/decision"
	"attestd/internal/must"
)

// decidedCalls puts policies in force and appends requests of tool calls that they decide: of each
// ten, one has none, as before there were policies.
func (c caller) decidedCalls(t testing.TB, n int) (decisions []*decision.Decision) {
	t.Helper()
	c.do(t, "PUT /v1/policies/all", policyBody(t, `permit (principal, action, resource) unless { resource == Tool::"pay" };
permit (principal, action, resource == Tool::"pay") when { context.approved };`)).status(200)
	c.do(t, "PUT /v1/policies/no-force", policyBody(t, `forbid (principal, action == Action::"call", resource == Tool::"Bash")
when { context.words.contains("git push --force") };`)).status(200)
	c.do(t, "PUT /v1/policies/no-force.net", policyBody(t, `forbid (principal, action, resource == Tool::"Fetch");`)).status(200)
	var items []string
	for i := range n {
		call := []string{
			`"Bash","input":{"command":"git push --force"}`, `"Read","input":{"path":"/a"}`, `"pay","input":{"amount":1}`,
			`"Fetch","input":{}`, `"Bash","input":{"command":"ls"}`,
		}[i*7%5]
		action := "tool.requested"
		if i%10 == 9 {
			action = "tool.completed"
		}
		items = append(items, fmt.Sprintf(`{"agentId":"bot-%d","actionType":"%s","payload":{"source":"x","callId":"%d","tool":%s}}`, i%3, action, i, call))
		if len(items) == 200 || i == n-1 {
			c.do(t, "POST /v1/attest/batch", `{"records":[`+strings.Join(items, ",")+`]}`).status(201)
			items = nil
		}
	}
	for _, raw := range c.lines(t, "GET /v1/chain") {
		d, err := decision.Of(recordOf(t, &reply{raw: raw}).Payload)
		must.OK(t, err)
		decisions = append(decisions, d)
	}
	return decisions
}

// Decisions are found by their verdict and by a policy that made them, alone and with the other
// filters, in all forms of the answer; what has no decision is not found.
func TestRecordsWithDecisions(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	decisions := acme.decidedCalls(t, 700)
	for query, matches := range map[string]func(i int, d *decision.Decision) bool{
		"decision=deny":                       func(_ int, d *decision.Decision) bool { return d.Verdict == "deny" },
		"decision=allow&order=oldest":         func(_ int, d *decision.Decision) bool { return d.Verdict == "allow" },
		"decision=ask":                        func(_ int, d *decision.Decision) bool { return d.Verdict == "ask" },
		"policy=no-force":                     func(_ int, d *decision.Decision) bool { return slices.Contains(d.By, "no-force") },
		"policy=no-force.net":                 func(_ int, d *decision.Decision) bool { return slices.Contains(d.By, "no-force.net") },
		"policy=all":                          func(_ int, d *decision.Decision) bool { return d.Verdict != "deny" },
		"policy=all&decision=ask":             func(_ int, d *decision.Decision) bool { return slices.Contains(d.By, "all#1") },
		"policy=no":                           func(int, *decision.Decision) bool { return false },
		"decision=deny&agent=bot-1":           func(i int, d *decision.Decision) bool { return d.Verdict == "deny" && i%3 == 1 },
		"decision=deny&payload=callId=\"77\"": func(i int, d *decision.Decision) bool { return d.Verdict == "deny" && i == 77 },
		"decision=deny&action=other":          func(int, *decision.Decision) bool { return false },
		"decision=deny&log=control":           func(int, *decision.Decision) bool { return false },
		"decision=deny&limit=50":              func(_ int, d *decision.Decision) bool { return d.Verdict == "deny" },
	} {
		var want []int
		for i, d := range decisions {
			if d != nil && matches(i, d) {
				want = append(want, i)
			}
		}
		q, err := url.ParseQuery(query)
		must.OK(t, err)
		if !q.Has("order") {
			slices.Reverse(want)
		}
		if got := acme.pages(t, q); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
		q.Del("limit")
		if lines := acme.lines(t, "GET /v1/records?"+q.Encode()); len(lines) != len(want) {
			t.Errorf("%s: %d lines, want %d", query, len(lines), len(want))
		}
		if q.Del("order"); q.Has("payload") {
			continue
		}
		acme.do(t, "GET /v1/records/histogram?"+q.Encode(), "").status(200).has(fmt.Sprintf(`{"total":%d}`, len(want)))
	}
	globex := s.company(t, "globex")
	globex.do(t, "GET /v1/records?decision=deny", "").status(200).has(`{"records":[]}`)
}

// The counts of each verdict are those of a search for it, with any other filter.
func TestHistogramByDecision(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	acme.decidedCalls(t, 600)
	type histogram struct {
		Total    int64
		Buckets  []struct{ Count int64 }
		Verdicts []struct {
			Verdict string
			Total   int64
			Counts  []int64
		}
	}
	for _, with := range []string{"", "&agent=bot-2", "&policy=all", "&policy=no-force&action=tool.*", "&until=2020-01-01T00:00:00.000Z"} {
		var all histogram
		acme.do(t, "GET /v1/records/histogram?buckets=7&by=decision"+with, "").status(200).into(&all)
		for i, verdict := range []string{"allow", "deny", "ask"} {
			var alone histogram
			acme.do(t, "GET /v1/records/histogram?buckets=7&decision="+verdict+with, "").status(200).into(&alone)
			var counts []int64
			for _, b := range alone.Buckets {
				counts = append(counts, b.Count)
			}
			if got := all.Verdicts[i]; got.Verdict != verdict || got.Total != alone.Total || !slices.Equal(got.Counts, counts) {
				t.Errorf("%s: %+v, want %d in %v", with, got, alone.Total, counts)
			}
		}
	}
}

// A filter on decisions that nothing can match is refused, and none is ignored.
func TestWrongDecisionFilters(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	for query, says := range map[string]string{
		"?decision=denied":                     "decision must be allow, deny or ask",
		"?decision=Deny":                       "decision must be allow, deny or ask",
		"?decision=":                           "decision must be allow, deny or ask",
		"?decisions=deny":                      "Unknown query parameter",
		"?policy=all%230":                      "policy must be the ID of a policy",
		"?policy=":                             "policy is empty",
		"?policies=all":                        "Unknown query parameter",
		"/histogram?decision=no":               "decision must be allow, deny or ask",
		"/histogram?policy=a/b":                "policy must be the ID of a policy",
		"/histogram?by=verdict":                "by must be agent, action or decision",
		"/histogram?by=decision&decision=deny": "by=decision counts each verdict",
		"/histogram?by=agent&policy=all":       "by=agent counts all records",
		"?decision=deny&decision=allow":        "given more than once",
	} {
		if r := acme.do(t, "GET /v1/records"+query, "").status(400); !strings.Contains(string(r.raw), says) {
			t.Errorf("%s: %s, want %q", query, r.raw, says)
		}
	}
}

// The table has the payload as it was sent, without the statement and the decision behind it.
func TestTableHasThePayloadAlone(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	acme.decidedCalls(t, 1)
	table, err := csv.NewReader(strings.NewReader(string(acme.do(t, "GET /v1/records", "", "Accept: text/csv").status(200).raw))).ReadAll()
	must.OK(t, err)
	const sent = `{"source":"x","callId":"0","tool":"Bash","input":{"command":"git push --force"}}`
	if cell := table[1][8]; cell != sent || !json.Valid([]byte(cell)) {
		t.Errorf("%s, want %s", cell, sent)
	}
	// and a text is looked for in it alone
	acme.do(t, "GET /v1/records?q=no-force", "").status(200).has(`{"records":[]}`)
}
