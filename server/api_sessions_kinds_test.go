package server_test

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"attestd/chain/evidence"
	"attestd/crypto/jose"
	"attestd/internal/must"
	"attestd/sdk/attestd"
	"attestd/store"
)

// called is a body of POST /v1/attest: an action of an agent whose payload has a source and names a
// session in a member.
func called(agent, action, source, member, sid string) string {
	return fmt.Sprintf(`{"agentId":%q,"actionType":%q,"payload":{"source":%q,%q:%q,"callId":"c"}}`, agent, action, source, member, sid)
}

// sids are the IDs of the sessions of an answer, each with its kind, source, records, state and
// whether it has ended.
func (r *reply) sids(t testing.TB) (list []string) {
	t.Helper()
	for _, s := range r.status(200).at("sessions").([]any) {
		m := s.(map[string]any)
		list = append(list, fmt.Sprint(m["sid"], " ", m["kind"], " ", m["source"], " ", m["records"], " ", m["state"], " ", m["ended"]))
	}
	return list
}

func wantSids(t *testing.T, r *reply, want ...string) {
	t.Helper()
	if got := r.sids(t); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Sessions of hooks, MCP, runs and telemetry are listed with those of statements, each with its
// kind. The list never claims that they are complete.
func TestSessionsOfAllKinds(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	acme.do(t, hook, event("PreToolUse", "t1", `,"tool_input":{"command":"ls"}`)).status(200)
	acme.do(t, hook, event("PostToolUse", "t1", `,"tool_response":"a"`)).status(200)
	for _, body := range []string{
		called("bot", "tool.requested", "mcp", "sessionId", "m-1"),
		called("bot", "run.started", "run", "runId", "r-1"),
		called("bot", "git.commit", "run", "runId", "r-1"),
		called("bot", "run.ended", "run", "runId", "r-1"),
		called("bot", "otel.tool", "otel", "sessionId", "m-1"),
		called("bot", "note", "hand", "sessionId", "no-session"), // an action of no such kind
		called("bot", "tool.requested", "mcp", "sessionId", ""),
		`{"agentId":"bot","actionType":"tool.requested","payload":[{"sessionId":"x"}]}`,
		`{"agentId":"bot","actionType":"tool.requested","payload":{"sessionId":7}}`,
		called("bot", "tool.requested", "x", "sessionId", strings.Repeat("s", 257)),
		called("bot", "tool.requested", "x", "sessionId", "a/../b"),
		called("bot", "tool.requested", "x", "sessionId", ".."),
	} {
		acme.do(t, "POST /v1/attest", body).status(201)
	}
	acme.do(t, "POST /v1/attest/batch", `{"records":[`+called("a/b", "tool.completed", "langchain", "sessionId", "ü %/ 1")+`,`+
		called("a/b", "session.ended", "langchain", "sessionId", "ü %/ 1")+`]}`).status(201)
	a := acme.signer(t, "signing", jose.EdDSA)
	for i, step := range a.run(t, "s-1", 2, true) {
		a.attests(t, fmt.Sprint(i), step.Compact).status(201)
	}
	all := []string{
		"s-1 statement  2 sealed true", "ü %/ 1 hook langchain 2 unproven true", "m-1 telemetry otel 1 unproven false", "r-1 run run 3 unproven true",
		"m-1 mcp mcp 1 unproven false", "s-1 hook claude-code 2 unproven false",
	}
	list := "GET /v1/sessions"
	wantSids(t, acme.do(t, list, ""), all...)
	wantSids(t, globex.do(t, list, ""))
	for i, kind := range []string{"statement", "telemetry", "run", "mcp"} {
		wantSids(t, acme.do(t, list+"?kind="+kind, ""), all[[]int{0, 2, 3, 4}[i]])
	}
	wantSids(t, acme.do(t, list+"?kind=hook", ""), all[1], all[5])
	wantSids(t, acme.do(t, list+"?agentId=bot&sid=m-1", ""), all[2], all[4])
	wantSids(t, acme.do(t, list+"?agentId=claude-code", ""), all[5])
	wantSids(t, acme.do(t, list+"?agentId=nobody", ""))
	acme.do(t, list+"?kind=x", "").gets(400, `{"error":"Invalid query parameter: kind must be statement, hook, mcp, run or telemetry"}`)
	acme.do(t, list+"?from=x", "").gets(400, `{"error":"Invalid query parameter: from must be a time…"}`)

	var paged []string
	for cursor := ""; ; {
		page := acme.do(t, list+"?limit=2"+cursor, "")
		paged = append(paged, page.sids(t)...)
		next, more := page.at().(map[string]any)["next"].(string)
		if !more {
			break
		}
		cursor = "&cursor=" + next
	}
	if fmt.Sprint(paged) != fmt.Sprint(all) {
		t.Errorf("page by page: %q", paged)
	}

	of := func(agent, sid string) string {
		return "GET /v1/sessions/" + url.PathEscape(agent) + "/" + url.PathEscape(sid)
	}
	records := acme.do(t, of("bot", "r-1")+"/records?limit=2", "").status(200)
	records.has(`{"records":[{"payload":{"actionType":"run.started"}},{"payload":{"actionType":"git.commit"}}]}`)
	acme.do(t, of("bot", "r-1")+"/records?from="+fmt.Sprint(records.at("next")), "").has(`{"records":[{"payload":{"actionType":"run.ended"}}]}`)
	if n := len(acme.do(t, of("a/b", "ü %/ 1")+"/records", "").status(200).at("records").([]any)); n != 2 {
		t.Errorf("%d records", n)
	}
	acme.do(t, of("bot", "m-1")+"/records", "").gets(409, `{"error":"…","code":"SESSION_AMBIGUOUS"}`)
	acme.do(t, of("bot", "m-1"), "").gets(409, `{"error":"…","code":"SESSION_AMBIGUOUS"}`)
	acme.do(t, of("bot", "m-1")+"/records?kind=mcp", "").has(`{"records":[{"payload":{"actionType":"tool.requested"}}]}`)
	acme.do(t, of("bot", "m-1")+"/records?kind=x", "").status(400)
	acme.do(t, of("bot", "m-1")+"?kind=run", "").status(404)
	acme.do(t, of("other", "r-1")+"/records", "").status(404)
	globex.do(t, of("bot", "r-1")+"/records", "").status(404)
	globex.do(t, of("bot", "r-1"), "").status(404)
}

// Sessions of a period are those with a first record before its end and a last one in it or later.
func TestSessionsOfAPeriod(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	var times []string
	for _, sid := range []string{"a", "b", "a", "c"} {
		times = append(times, acme.do(t, "POST /v1/attest", called("bot", "tool.requested", "x", "sessionId", sid)).status(201).str("timestamp"))
		acme.nextMillisecond(t)
	}
	list := func(query string) *reply { return acme.do(t, "GET /v1/sessions?"+query, "") }
	const a, b, c = "a hook x 2 unproven false", "b hook x 1 unproven false", "c hook x 1 unproven false"
	wantSids(t, list("from="+times[3]), c)
	wantSids(t, list("from="+times[2]), c, a)
	wantSids(t, list("from="+times[1]), c, b, a)
	wantSids(t, list("to="+times[1]), a)
	wantSids(t, list("to="+times[3]), b, a)
	wantSids(t, list("from="+times[2]+"&to="+times[3]), a)
	wantSids(t, list("from="+times[1]+"&to="+times[1]), a) // it goes on over that moment
	wantSids(t, list("to="+times[0]))
}

// nextMillisecond returns when a record has another time than the one before.
func (c caller) nextMillisecond(t testing.TB) {
	t.Helper()
	first := ""
	for range 10_000 {
		at := c.do(t, "POST /v1/attest", `{"agentId":"clock","actionType":"tick","payload":0}`).status(201).str("timestamp")
		if first == "" {
			first = at
		}
		if at != first {
			return
		}
	}
	t.Fatal("the clock stands still")
}

// The evidence of a session without statements is a report of its time, which a checker finds
// complete, and finds incomplete where a record was taken out.
func TestEvidenceOfASessionWithoutStatements(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	acme.do(t, "POST /v1/attest", `{"agentId":"x","actionType":"before","payload":1}`).status(201)
	acme.nextMillisecond(t)
	for i := range 3 {
		acme.do(t, hook, event("PreToolUse", fmt.Sprint("t", i), "")).status(200)
		acme.do(t, "POST /v1/attest", `{"agentId":"x","actionType":"between","payload":1}`).status(201)
	}
	acme.nextMillisecond(t)
	acme.do(t, "POST /v1/attest", `{"agentId":"x","actionType":"after","payload":1}`).status(201)
	file := acme.do(t, "GET /v1/sessions/claude-code/s-1", "").status(200).raw
	check := func(file []byte) (evidence.Verdict, string) {
		var seen []string
		if !evidence.IsReport(evidence.Reader(bytes.NewReader(file))) {
			t.Error("it is no report")
		}
		v := evidence.CheckReport(bytes.NewReader(file), evidence.Trust{Fingerprint: acme.fingerprint(t)}, func(*evidence.Report) {}, func(e *evidence.Event) {
			if e.Log == evidence.Actions {
				seen = append(seen, e.Action)
			}
		})
		return v, strings.Join(seen, " ")
	}
	if v, seen := check(file); v.Outcome != evidence.Holds || !strings.HasPrefix(seen, "tool.requested between tool.requested between tool.requested") || strings.Contains(seen, "before") || strings.Contains(seen, "after") {
		t.Errorf("%+v: %s", v, seen)
	}
	lines := bytes.SplitAfter(file, []byte("\n"))
	for i, line := range lines {
		if bytes.Contains(line, []byte(`"callId":"t1"`)) {
			lines[i] = nil
		}
	}
	if v, _ := check(bytes.Join(lines, nil)); v.Outcome != evidence.Fails {
		t.Errorf("without one of its records: %+v", v)
	}
}

// What is refused leaves no session behind, and a session costs a row and no record more than one
// key: so nothing is stored but for records.
func TestRefusedRecordsMakeNoSessions(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	first := called("bot", "tool.requested", "x", "sessionId", "kept")
	for range 2 { // the second is a retry
		acme.do(t, "POST /v1/attest", first, "Idempotency-Key: k").status(201)
	}
	for i := range 3 {
		other := called("bot", "tool.requested", "x", "sessionId", fmt.Sprint("refused-", i))
		acme.do(t, "POST /v1/attest", other, "Idempotency-Key: k").status(422)
		acme.do(t, "POST /v1/attest/batch", `{"records":[`+other+`,{"agentId":"bot","actionType":"a","payload":1,"idempotencyKey":"k"}]}`).status(422)
		acme.do(t, "POST /v1/attest/batch", `{"records":[`+other+`,{"agentId":"bot","actionType":"a","payload":1e400}]}`).status(400)
	}
	wantSids(t, acme.do(t, "GET /v1/sessions", ""), "kept hook x 1 unproven false")
	var listed []string
	company, err := s.store.Companies.Get(t.Context(), "acme")
	must.OK(t, err)
	for of, err := range s.store.Sessions.List(t.Context(), store.Caller{Company: company}, store.SessionQuery{Before: 1 << 62}) {
		must.OK(t, err)
		listed = append(listed, of.ID)
	}
	if fmt.Sprint(listed) != "[kept]" {
		t.Errorf("rows of sessions: %q", listed)
	}
}

// The Go client reads a session of any kind, page after page.
func TestClientReadsSessions(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	const records = 1003 // more than a page
	for from := 0; from < records; from += 501 {
		var items []string
		for i := from; i < min(records, from+501); i++ {
			items = append(items, called("bot", "tool.requested", "mcp", "sessionId", "a b"))
		}
		acme.do(t, "POST /v1/attest/batch", `{"records":[`+strings.Join(items, ",")+`]}`).status(201)
	}
	c, err := attestd.New(attestd.Config{URL: s.url, Credential: attestd.Key(acme.credential)})
	must.OK(t, err)
	found := 0
	for session, err := range c.Sessions(t.Context(), "") {
		must.OK(t, err)
		if session.Kind != "mcp" || session.State != "unproven" || session.Records != records {
			t.Errorf("%+v", session)
		}
		for record, err := range c.SessionRecords(t.Context(), session) {
			must.OK(t, err)
			if record.Index != int64(found) {
				t.Fatalf("record %d comes as number %d", record.Index, found)
			}
			found++
		}
	}
	if found != records {
		t.Errorf("%d records of %d", found, records)
	}
}
