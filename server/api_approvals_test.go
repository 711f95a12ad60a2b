package server_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"attestd/chain"
	"attestd/chain/approval"
	"attestd/crypto/cred"
	"attestd/crypto/passkey"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/server/internal/pipes"
	"attestd/store/storetest"
)

const askPolicy = `permit (principal, action, resource) unless { resource == Tool::"bank/transfer" };
permit (principal, action, resource == Tool::"bank/transfer") when { context.approved };`

// asksFor is a company whose policy has a person approve transfers, with an agent.
func asksFor(t *testing.T, s *service, id string) caller {
	t.Helper()
	acme := s.company(t, id)
	acme.agent(t, "bot")
	acme.do(t, "PUT /v1/policies/transfers", policyBody(t, askPolicy)).status(200)
	return acme
}

// approver makes a person who approves, in some groups.
func (c caller) approver(t testing.TB, id string, groups ...string) *browser {
	t.Helper()
	c.do(t, "POST /v1/people", body(t, "personId", id, "name", id, "roles", []string{"approver"}, "groups", append([]string{}, groups...))).status(201)
	b := c.browser(t, passkey.ES256)
	b.accepts(t, c.do(t, "POST /v1/people/"+id+"/invitations", "").status(201).str("url")).status(201)
	return b
}

// attempts records a call of a tool by an agent.
func (c caller) attempts(t testing.TB, agent, tool, arguments string, more ...string) *reply {
	t.Helper()
	payload := `{"source":"x","tool":"` + tool + `","input":` + arguments + strings.Join(more, "") + `}`
	return c.do(t, "POST /v1/attest", `{"agentId":"`+agent+`","actionType":"tool.requested","payload":`+payload+`,"decide":true}`)
}

// wants compares the decision of a record, and returns the approval that it names.
func (r *reply) wants(verdict string) (approvalID string) {
	r.t.Helper()
	decision := r.status(201).at("payload", "decision").(map[string]any)
	if decision["verdict"] != verdict {
		r.t.Fatalf("the decision is %s, want %s", toJSON(r.t, decision), verdict)
	}
	id, _ := decision["approval"].(string)
	return id
}

// decides decides an approval as the console does. more are members of the choice.
func (b *browser) decides(t testing.TB, id, verdict string, more ...any) *reply {
	t.Helper()
	choice := append([]any{"verdict", verdict}, more...)
	options := b.asks(t, "POST /v1/approvals/"+id+"/options", body(t, choice...))
	if options.code != 200 {
		return options
	}
	return b.asks(t, "POST /v1/approvals/"+id+"/decision", body(t, append(choice, "credential", b.signs(t, options))...))
}

func (c caller) approvalState(t testing.TB, id string) string {
	t.Helper()
	return c.do(t, "GET /v1/approvals/"+id, "").status(200).str("state")
}

const transfer = `{"to":"alice","amount":500}`

// A call that needs an approval is refused until a person has approved exactly it, and is then
// allowed once. The control log holds what the person signed, and what used it.
func TestApproval(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := asksFor(t, s, "acme")
	alice := acme.approver(t, "alice")
	first := acme.attempts(t, "bot", "bank/transfer", transfer)
	id := first.wants("ask")
	if !approval.IsID(id) {
		t.Fatalf("%q is no approval's ID", id)
	}
	a := acme.do(t, "GET /v1/approvals/"+id, "").status(200)
	a.has(`{"approvalId":"` + id + `","state":"pending","index":0,"agentId":"bot","tool":"bank/transfer","quorum":1,"approvers":[],"by":[],"controlIndex":null,"requestReason":null}`)
	equal(t, "hash", a.str("hash"), first.str("hash"))
	// the same call again, with its members in another order: the same approval, and another record
	if again := acme.attempts(t, "bot", "bank/transfer", `{"amount":5e2, "to":"alice"}`).wants("ask"); again != id {
		t.Fatalf("the same call has the approval %s, want %s", again, id)
	}
	options := alice.asks(t, "POST /v1/approvals/"+id+"/options", body(t, "verdict", "approve", "reason", "invoice 7"))
	object, err := json.Marshal(options.status(200).at("object"))
	must.OK(t, err)
	o, err := approval.Parse(object)
	must.OK(t, err)
	equal(t, "challenge", string(o.Challenge()), string(challengeOf(t, options)))
	signed := alice.signs(t, options)
	decision := body(t, "verdict", "approve", "reason", "invoice 7", "credential", signed)
	// another object
	alice.asks(t, "POST /v1/approvals/"+id+"/decision", body(t, "verdict", "approve", "credential", signed)).status(401)
	alice.asks(t, "POST /v1/approvals/"+id+"/decision", decision).status(200).
		has(`{"state":"approved","by":["person:alice"],"reason":"invoice 7","uses":1,"remaining":1}`)
	alice.asks(t, "POST /v1/approvals/"+id+"/decision", decision).gets(409, `{"error":"…","code":"APPROVAL_DECIDED"}`)

	for name, other := range map[string]*reply{
		"other arguments": acme.attempts(t, "bot", "bank/transfer", `{"to":"alice","amount":501}`),
		"another agent":   acme.attempts(t, "eve", "bank/transfer", transfer),
	} {
		if got := other.wants("ask"); got == id {
			t.Errorf("%s: uses the approval", name)
		}
	}
	used := acme.attempts(t, "bot", "bank/transfer", transfer)
	if got := used.wants("allow"); got != id {
		t.Fatalf("it is allowed by %q, want %s", got, id)
	}
	equal(t, "state", acme.approvalState(t, id), "used")
	if again := acme.attempts(t, "bot", "bank/transfer", transfer).wants("ask"); again == id {
		t.Error("an approval is used twice")
	}
	var granted, use map[string]any
	for _, r := range acme.do(t, "GET /v1/records?log=control&action=approval.*&order=oldest", "").status(200).at("records").([]any) {
		payload := r.(map[string]any)["payload"].(map[string]any)
		switch payload["actionType"] {
		case "approval.granted":
			granted = payload["payload"].(map[string]any)
		case "approval.used":
			use = payload["payload"].(map[string]any)
		}
	}
	equal(t, "by", granted["by"].(string), "person:alice")
	equal(t, "object", string(toJSON(t, granted["object"])), string(o.Append(nil)))
	equal(t, "used", fmt.Sprint(use["index"], use["hash"], use["approvalId"], use["remaining"]), fmt.Sprint(used.at("index"), used.at("hash"), id, 0))
	acme.do(t, "GET /v1/verify", "").has(`{"valid":true}`)
	acme.do(t, "GET /v1/verify?log=control", "").has(`{"valid":true}`)
}

// Of many attempts at once, as many are allowed as were approved.
func TestApprovalIsUsedOnce(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := asksFor(t, s, "acme")
	alice := acme.approver(t, "alice")
	for _, uses := range []int{1, 3} {
		arguments := `{"uses":` + strconv.Itoa(uses) + `}`
		id := acme.attempts(t, "bot", "bank/transfer", arguments).wants("ask")
		alice.decides(t, id, "approve", "uses", uses, "until", chain.FormatTime(time.Now().Add(time.Hour))).status(200)
		var allowed atomic.Int64
		var all sync.WaitGroup
		for range 32 {
			all.Go(func() {
				d := acme.attempts(t, "bot", "bank/transfer", arguments).status(201).at("payload", "decision").(map[string]any)
				if d["verdict"] == "allow" && d["approval"] == id {
					allowed.Add(1)
				}
			})
		}
		all.Wait()
		if int(allowed.Load()) != uses {
			t.Errorf("%d attempts are allowed, want %d", allowed.Load(), uses)
		}
	}
	acme.do(t, "GET /v1/verify?log=control", "").has(`{"valid":true}`)
}

// One denial ends an approval, and the same call asks anew. So it does after a withdrawal, and
// once a person who has approved it is disabled, or the passkey is revoked.
func TestApprovalEnds(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := asksFor(t, s, "acme")
	n := 0
	pending := func() (id string, again func() string) {
		n++
		arguments := `{"n":` + strconv.Itoa(n) + `}`
		return acme.attempts(t, "bot", "bank/transfer", arguments).wants("ask"), func() string { return acme.attempts(t, "bot", "bank/transfer", arguments).wants("ask") }
	}
	carol := acme.approver(t, "carol")
	ends := func(state string, end func(id string)) {
		t.Helper()
		id, again := pending()
		end(id)
		equal(t, "state", acme.approvalState(t, id), state)
		if again() == id {
			t.Errorf("the same call has the approval that is %s", state)
		}
	}
	ends("denied", func(id string) {
		carol.decides(t, id, "deny", "reason", "no").status(200).has(`{"state":"denied","by":["person:carol"],"reason":"no"}`)
		carol.decides(t, id, "approve").gets(409, `{"error":"…","code":"APPROVAL_DECIDED"}`)
	})
	ends("withdrawn", func(id string) {
		acme.signer(t, "eve", "EdDSA").signsIn(t).do(t, "DELETE /v1/approvals/"+id, "").status(404)
		for range 2 {
			acme.do(t, "DELETE /v1/approvals/"+id, "").gets(200, `{"deleted":true}`)
		}
		carol.decides(t, id, "approve").gets(409, `{"error":"…","code":"APPROVAL_WITHDRAWN"}`)
	})
	for name, end := range map[string]string{"dave": `PATCH /v1/people/dave {"disabled":true}`, "erin": "DELETE /v1/people/erin "} {
		person := acme.approver(t, name)
		ends("withdrawn", func(id string) {
			person.decides(t, id, "approve").status(200)
			i := strings.LastIndexByte(end, ' ')
			acme.do(t, end[:i], end[i+1:]).status(200)
			acme.do(t, "GET /v1/records?log=control&action=approval.withdrawn&limit=1", "").has(`{"records":[{"payload":{"payload":{"approvalId":"` + id + `","reason":"person"}}}]}`)
		})
	}
	frank := acme.approver(t, "frank")
	ends("approved", func(id string) {
		frank.decides(t, id, "approve").status(200)
		acme.do(t, "DELETE /v1/people/frank/passkeys/"+frank.ID(), "").status(200)
	})
	gina := acme.approver(t, "gina")
	ends("approved", func(id string) { // whose role went
		gina.decides(t, id, "approve").status(200)
		acme.do(t, "PATCH /v1/people/gina", `{"roles":["reader"]}`).status(200)
	})
	// the policies deny it by now even with an approval
	id, _ := pending()
	carol.decides(t, id, "approve").status(200)
	acme.do(t, "PUT /v1/policies/none", policyBody(t, `forbid (principal, action, resource == Tool::"bank/transfer");`)).status(200)
	acme.attempts(t, "bot", "bank/transfer", `{"n":`+strconv.Itoa(n)+`}`).wants("deny")
	equal(t, "state", acme.approvalState(t, id), "approved")
	acme.do(t, "GET /v1/verify?log=control", "").has(`{"valid":true}`)
	acme.do(t, "GET /readyz", "").has(`{"status":"ready"}`)
}

// Only people with the role and a group approve, each once, and as many as the policy wants. The
// person for whom the agent asks is none of several.
func TestApprovers(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.agent(t, "bot")
	acme.do(t, "PUT /v1/policies/p", policyBody(t, `@approvers("finance") @quorum("2") permit (principal, action, resource) when { context.approved };
@approvers("legal") @within("1h") permit (principal, action, resource) when { context.approved && context.arguments has secret };`)).status(200)
	alice, bob, carol := acme.approver(t, "alice", "finance"), acme.approver(t, "bob", "finance", "legal"), acme.approver(t, "carol")
	admin := acme.person(t, "root", "admin")
	id := acme.attempts(t, "bot", "x", `{"secret":1}`).wants("ask")
	acme.do(t, "GET /v1/approvals/"+id, "").has(`{"quorum":2,"approvers":["finance","legal"],"state":"pending"}`)
	for _, b := range []*browser{carol, admin} {
		b.decides(t, id, "approve").gets(403, `{"error":"…","code":"APPROVER_REQUIRED"}`)
	}
	alice.decides(t, id, "approve", "uses", 5).status(200).has(`{"state":"pending","by":["person:alice"]}`)
	alice.decides(t, id, "approve").gets(409, `{"error":"…","code":"APPROVAL_COUNTED"}`)
	if got := acme.attempts(t, "bot", "x", `{"secret":1}`).wants("ask"); got != id {
		t.Errorf("one of two allows it")
	}
	bob.decides(t, id, "approve", "uses", 2).status(200).has(`{"state":"approved","uses":2,"remaining":2,"by":["person:alice","person:bob"]}`)
	acme.attempts(t, "bot", "x", `{"secret":1}`).wants("allow")
	acme.do(t, "GET /v1/approvals/"+id, "").has(`{"state":"approved","remaining":1}`)
	// with a higher quorum by now, two are not enough any more
	acme.do(t, "PUT /v1/policies/p", policyBody(t, `@quorum("3") permit (principal, action, resource) when { context.approved };`)).status(200)
	if got := acme.attempts(t, "bot", "x", `{"secret":1}`).wants("ask"); got == id {
		t.Error("an approval of two people counts where three must approve")
	}
	// what an admin who has signed in asks for
	acme.do(t, "PATCH /v1/people/root", `{"roles":["admin","approver"]}`).status(200)
	own := admin.asks(t, "POST /v1/approvals", `{"agentId":"bot","tool":"x","arguments":{"own":1}}`).status(201).str("approvalId")
	admin.decides(t, own, "approve").gets(403, `{"error":"…","code":"APPROVAL_OWN"}`)
	// people, passkeys and approvals of another company
	globex := s.company(t, "globex")
	other := globex.approver(t, "alice", "finance")
	other.decides(t, own, "approve").status(404)
	for _, wrong := range [][]any{
		{"verdict", "maybe"}, {"verdict", ""}, {"verdict", []any{}}, {"verdict", "approve", "uses", 0}, {"verdict", "approve", "uses", 1001}, {"verdict", "approve", "uses", ""},
		{"verdict", "approve", "until", ""}, {"verdict", "approve", "until", "2020-01-01T00:00:00.000Z"}, {"verdict", "approve", "until", chain.FormatTime(time.Now().AddDate(0, 0, 31))},
		{"verdict", "approve", "reason", strings.Repeat("x", 1025)}, {"verdict", "approve", "reason", ""},
	} {
		if r := alice.asks(t, "POST /v1/approvals/"+own+"/options", body(t, wrong...)); r.code != 400 {
			t.Errorf("%v: %d", wrong, r.code)
		}
	}
	options := alice.asks(t, "POST /v1/approvals/"+own+"/options", body(t, "verdict", "approve")).status(200)
	alice.asks(t, "POST /v1/approvals/"+own+"/decision", body(t, "verdict", "approve", "credential", other.signs(t, options))).status(401)
	alice.asks(t, "POST /v1/approvals/"+own+"/decision", body(t, "verdict", "approve", "credential", bob.signs(t, options))).status(401)
	globex.do(t, "GET /v1/approvals/"+own, "").status(404)
	globex.do(t, "DELETE /v1/approvals/"+own, "").status(404)
	globex.do(t, "GET /v1/approvals", "").gets(200, `{"approvals":[]}`)
}

// An agent asks by itself, once for a call, and its next call uses the approval: also where the
// company has no policies.
func TestApprovalIsRequested(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.agent(t, "bot")
	alice := acme.approver(t, "alice")
	const request = `{"agentId":"bot","tool":"deploy","arguments":{"a":1,"b":[1.0]},"reason":"release","callId":"c"}`
	first := acme.do(t, "POST /v1/approvals", request).status(201)
	id := first.str("approvalId")
	acme.do(t, "POST /v1/approvals", request).status(201).has(`{"approvalId":"` + id + `","index":0}`)
	if n := acme.length(t); n != 1 {
		t.Fatalf("%d records of one request", n)
	}
	acme.do(t, "GET /v1/chain", "").has(`{"records":[{"payload":{"agentId":"bot","actionType":"approval.requested","payload":{"tool":"deploy","input":{"a":1,"b":[1.0]},"reason":"release","callId":"c","approvalId":"` + id + `"}}}]}`)
	if got := acme.attempts(t, "bot", "deploy", `{"b":[1],"a":1.0}`).wants("allow"); got != "" {
		t.Errorf("it is allowed by %s, which nobody has approved", got)
	}
	alice.decides(t, id, "approve").status(200)
	if got := acme.attempts(t, "bot", "deploy", `{"b":[1],"a":1.0}`).wants("allow"); got != id {
		t.Errorf("it is allowed by %q, want %s", got, id)
	}
	equal(t, "state", acme.approvalState(t, id), "used")
	for name, wrong := range map[string]string{
		"no tool": `{"agentId":"bot","arguments":{}}`, "arguments": `{"agentId":"bot","tool":"x","arguments":1}`, "late": `{"agentId":"bot","tool":"x","arguments":{},"expiresIn":86401}`,
		"masked": `{"agentId":"bot","tool":"x","arguments":{"a":"[masked 7]"}}`, "reason": `{"agentId":"bot","tool":"x","arguments":{},"reason":"` + strings.Repeat("x", 1025) + `"}`,
	} {
		if got := acme.do(t, "POST /v1/approvals", wrong).code; got != 400 {
			t.Errorf("%s: %d", name, got)
		}
	}
}

// Other servers of the database hear of a decision at once, and of many attempts at both one is
// allowed.
func TestApprovalAcrossServers(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick)
	testenv.Concurrent(t)
	t.Parallel()
	a, b := startTwo(t)
	acme := asksFor(t, a, "acme")
	alice := acme.approver(t, "alice")
	id := acme.attempts(t, "bot", "bank/transfer", transfer).wants("ask")
	decided := make(chan string)
	go func() {
		r := acme.on(b).do(t, "GET /v1/approvals/"+id+"?wait=55", "")
		decided <- r.str("state")
	}()
	alice.decides(t, id, "approve").status(200)
	equal(t, "state", <-decided, "approved")
	var allowed atomic.Int64
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			d := acme.on([]*service{a, b}[i%2]).attempts(t, "bot", "bank/transfer", transfer).status(201).at("payload", "decision").(map[string]any)
			if d["verdict"] == "allow" {
				allowed.Add(1)
			}
		})
	}
	all.Wait()
	if allowed.Load() != 1 {
		t.Errorf("%d attempts are allowed", allowed.Load())
	}
	acme.do(t, "GET /v1/verify?log=control", "").has(`{"valid":true}`)
}

// A webhook hears of a request and of its decision, with the agent that has asked.
func TestWebhookApprovals(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t, private)
	acme := asksFor(t, s, "acme")
	alice := acme.approver(t, "alice")
	e := newEndpoint(t)
	acme.webhook(t, e.URL, `,"actions":["approval.*"]`)
	for verdict, action := range map[string]string{"approve": "approval.granted", "deny": "approval.denied"} {
		id := acme.attempts(t, "bot", "bank/transfer", `{"verdict":"`+verdict+`"}`).wants("ask")
		if d := e.next(t); d.Type != "approval.requested" || d.Data.ActionType != "tool.requested" || d.Data.AgentID != "bot" || d.Data.Log != "" || !strings.Contains(string(d.body), `"approvalId":"`+id+`"`) {
			t.Errorf("%s arrives", d.body)
		}
		alice.decides(t, id, verdict).status(200)
		if d := e.next(t); d.Type != "approval.decided" || d.Data.ActionType != action || d.Data.AgentID != "bot" || d.Data.Log != "control" {
			t.Errorf("%s arrives", d.body)
		}
	}
	id := acme.do(t, "POST /v1/approvals", `{"agentId":"bot","tool":"deploy","arguments":{}}`).status(201).str("approvalId")
	if d := e.next(t); d.Type != "approval.requested" || d.Data.ActionType != "approval.requested" || !strings.Contains(string(d.body), `"approvalId":"`+id+`"`) {
		t.Errorf("%s arrives", d.body)
	}
}

// The hook of a coding agent reports the same call again. Once it is approved, the repeat is
// allowed, under the same call ID, and so are its own retries. The call's outcome is no finding.
func TestHookIsRepeatedWithApproval(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.agent(t, "claude-code")
	acme.do(t, "PUT /v1/policies/p", policyBody(t, `permit (principal, action, resource) when { context.approved };`)).status(200)
	alice := acme.approver(t, "alice")
	const event = `{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Bash","tool_use_id":"c-1","tool_input":{"command":"ls"},"cwd":"/srv"}`
	hook := func() string { return string(acme.do(t, "POST /v1/hooks/claude-code", event).status(200).raw) }
	for range 2 {
		if answer := hook(); !strings.Contains(answer, "deny") {
			t.Fatalf("a call that nobody approved: %s", answer)
		}
	}
	list := acme.do(t, "GET /v1/approvals?state=pending", "").status(200)
	if len(list.at("approvals").([]any)) != 1 {
		t.Fatalf("the approvals are %s", list.raw)
	}
	id := list.str("approvals", 0, "approvalId")
	alice.decides(t, id, "approve").status(200)
	for range 2 {
		if answer := hook(); strings.Contains(answer, "deny") {
			t.Fatalf("the repeat of an approved call: %s", answer)
		}
	}
	equal(t, "state", acme.approvalState(t, id), "used")
	var verdicts []string
	for _, r := range acme.do(t, "GET /v1/records?action=tool.requested&order=oldest", "").status(200).at("records").([]any) {
		payload := r.(map[string]any)["payload"].(map[string]any)
		equal(t, "call", payload["payload"].(map[string]any)["callId"].(string), "c-1")
		verdicts = append(verdicts, payload["decision"].(map[string]any)["verdict"].(string))
	}
	equal(t, "verdicts", strings.Join(verdicts, " "), "ask allow")
}

// A request that waits is answered at the end of the request for the approval, which is not used
// after it.
func TestApprovalExpires(t *testing.T) {
	t.Parallel()
	_, err := document() // outside of the bubble, because other tests share it
	must.OK(t, err)
	path := storetest.New(t)
	synctest.Test(t, func(t *testing.T) {
		network := pipes.New()
		s := startBehind(t, network, network.Dial, path, cred.Domain{}, func(c *server.Config) { c.BaseURL = "http://localhost:8080" })
		acme := asksFor(t, s, "acme")
		ask := func() string { return acme.attempts(t, "bot", "bank/transfer", transfer).wants("ask") }
		id := ask()
		time.Sleep(9*time.Minute + 30*time.Second)
		if again := ask(); again != id {
			t.Error("the approval has ended before its time")
		}
		began := time.Now()
		acme.do(t, "GET /v1/approvals/"+id+"?wait=55", "").has(`{"state":"expired"}`)
		if took := time.Since(began); took < 29*time.Second || took > 31*time.Second {
			t.Errorf("it has waited for %s", took)
		}
		if ask() == id {
			t.Error("the same call has the approval that is expired")
		}
		began = time.Now()
		acme.do(t, "GET /v1/approvals/"+ask()+"?wait=3", "").has(`{"state":"pending"}`)
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("it has waited for %s", took)
		}
		acme.do(t, "GET /v1/approvals?state=expired", "").has(`{"approvals":[{"approvalId":"` + id + `"}]}`)
		network.Close()
		s.stop()
	})
}

// An agent has a hundred pending approvals at most; its next call is denied.
func TestApprovalLimit(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := asksFor(t, s, "acme")
	items := make([]string, 100)
	for i := range items {
		items[i] = fmt.Sprintf(`{"agentId":"bot","actionType":"tool.requested","payload":{"tool":"bank/transfer","input":{"n":%d}},"decide":true}`, i)
	}
	acme.do(t, "POST /v1/attest/batch", `{"records":[`+strings.Join(items, ",")+`]}`).status(201)
	same(t, "decision", acme.attempts(t, "bot", "bank/transfer", transfer).at("payload", "decision"),
		`{"by":[],"code":"APPROVAL_LIMIT","context":{"door":"attest","time":"<time>"},"policies":"<anything>","revision":1,"verdict":"deny"}`)
	acme.attempts(t, "bot", "bank/transfer", `{"n":7}`).wants("ask") // which is there
	acme.attempts(t, "other", "bank/transfer", transfer).wants("ask")
	acme.do(t, "POST /v1/approvals", `{"agentId":"bot","tool":"x","arguments":{}}`).gets(409, `{"error":"…","code":"APPROVAL_LIMIT"}`)
}
