package server_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"attestd/chain"
	"attestd/chain/approval"
	"attestd/crypto/passkey"
	"attestd/internal/must"
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
	alice.asks(t, "POST /v1/approvals/"+id+"/decision", body(t, "verdict", "approve", "credential", signed)).status(401) // another object
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
