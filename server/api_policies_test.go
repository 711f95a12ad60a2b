package server_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"attestd/chain"
	"attestd/chain/decision"
	"attestd/chain/evidence"
	"attestd/crypto/jose"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/service/decide"
	"attestd/store"
)

// policyBody is the body of a request that puts a policy.
func policyBody(t testing.TB, cedar string) string {
	t.Helper()
	text, err := json.Marshal(map[string]string{"cedar": cedar})
	must.OK(t, err)
	return string(text)
}

// verdictOf is the decision of a record: its verdict and the policies that made it.
func verdictOf(t testing.TB, r *reply) string {
	t.Helper()
	d, err := decision.Of(recordOf(t, r).Payload)
	must.OK(t, err)
	if d == nil {
		return "none"
	}
	return strings.TrimSpace(d.Verdict + " " + strings.Join(d.By, ","))
}

func recordOf(t testing.TB, r *reply) (record struct {
	Index   int64
	Payload json.RawMessage
}) {
	t.Helper()
	must.OK(t, json.Unmarshal(r.raw, &record))
	return record
}

// A company without policies decides nothing unless it is asked; with them each request of a tool
// call is decided, by the arguments of the call, and its record says by which policy.
func TestRequestsAreDecided(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	call := func(command string) string {
		return `{"agentId":"bot","actionType":"tool.requested","payload":{"source":"claude-code","tool":"Bash","callId":"c","input":{"command":"` + command + `"}}}`
	}
	if is := verdictOf(t, acme.do(t, "POST /v1/attest", call("git push --force")).status(201)); is != "none" {
		t.Errorf("without policies: %s", is)
	}
	asked := strings.Replace(call("ls"), "{", `{"decide":true,`, 1)
	if is := verdictOf(t, acme.do(t, "POST /v1/attest", asked).status(201)); is != "allow" {
		t.Errorf("without policies, asked: %s", is)
	}
	acme.do(t, "PUT /v1/policies/all", policyBody(t, `permit (principal, action, resource);`)).status(200)
	acme.do(t, "PUT /v1/policies/git", policyBody(t, `forbid (principal, action == Action::"call", resource == Tool::"Bash") when { context.words.containsAll(["git push", "git --force"]) };
forbid (principal, action, resource == Tool::"Bash") when { context.words.contains("git --force") } unless { context.approved };`)).status(200)
	for command, want := range map[string]string{
		"git push --force": "deny git#0,git#1", "ls": "allow all", "git fetch --force": "ask all",
		"cd x; g\\\\it p\\\\ush --force origin": "deny git#0,git#1",
	} {
		if is := verdictOf(t, acme.do(t, "POST /v1/attest", call(command)).status(201)); is != want {
			t.Errorf("%s: %s, want %s", command, is, want)
		}
	}
	// what is no request is decided only where it is asked for
	if is := verdictOf(t, acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"deploy","payload":1}`).status(201)); is != "none" {
		t.Errorf("a deploy: %s", is)
	}
	if is := verdictOf(t, acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"deploy","payload":1,"decide":true}`).status(201)); is != "allow all" {
		t.Errorf("a deploy, asked: %s", is)
	}
	// items of a batch are decided each
	batch := acme.do(t, "POST /v1/attest/batch", `{"records":[`+call("ls")+`,`+call("git push --force")+`]}`).status(201)
	var records struct{ Records []json.RawMessage }
	must.OK(t, json.Unmarshal(batch.raw, &records))
	for i, want := range []string{"allow all", "deny git#0,git#1"} {
		if is := verdictOf(t, &reply{raw: records.Records[i]}); is != want {
			t.Errorf("item %d: %s, want %s", i, is, want)
		}
	}
	// a retry is answered with the record of then, whatever is decided now
	first := acme.do(t, "POST /v1/attest", call("make"), "Idempotency-Key: k").status(201)
	acme.do(t, "DELETE /v1/policies/all", "").gets(200, `{"deleted":true}`)
	retry := acme.do(t, "POST /v1/attest", call("make"), "Idempotency-Key: k").status(201)
	if string(first.raw) != string(retry.raw) || retry.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("a retry: %s", retry.raw)
	}
	if is := verdictOf(t, acme.do(t, "POST /v1/attest", call("make")).status(201)); is != "deny" {
		t.Errorf("what no policy permits: %s", is)
	}
	acme.do(t, "GET /v1/verify", "").has(`{"valid":true}`)
	// the keys of such records are those of their requests, also where the tables are compared
	company, err := s.store.Companies.Get(t.Context(), "acme")
	must.OK(t, err)
	must.OK(t, s.store.Tables.Check(t.Context(), company.Chain))
}

// An engineer finds the mistake in a policy by its line and column, and nothing is changed.
func TestWrongPolicies(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	const fine = `permit (principal, action, resource);`
	acme.do(t, "PUT /v1/policies/all", policyBody(t, fine)).status(200)
	before := string(acme.do(t, "GET /v1/policies", "").status(200).raw)
	acme.do(t, "PUT /v1/policies/x", policyBody(t, "permit (principal,\n action resource);")).gets(400, `{"error":"…","code":"POLICY_INVALID","line":2,"column":9}`)
	acme.do(t, "PUT /v1/policies/x", policyBody(t, `permit (principal, action, resource) when { context.porgrams.contains("rm") };`)).gets(400, `{"error":"…","code":"POLICY_UNKNOWN_NAME","line":1,"column":53}`)
	acme.do(t, "PUT /v1/policies/x", policyBody(t, strings.Repeat("[", 400_000))).status(400).is(t, "POLICY_INVALID")
	acme.do(t, "PUT /v1/policies/x", policyBody(t, "permit (principal, action, resource) when { "+strings.Repeat("(", 65)+"true"+strings.Repeat(")", 65)+" };")).status(400).is(t, "POLICY_INVALID")
	acme.do(t, "PUT /v1/policies/"+strings.Repeat("x", 65), policyBody(t, fine)).
		gets(400, `{"error":"Invalid field: policyId: a policy ID has 1 to 64 letters, digits, dots, dashes and underscores","code":"POLICY_INVALID"}`)
	acme.do(t, "POST /v1/policies/test", `{"draft":{"policyId":"a b","cedar":"`+fine+`"}}`).
		gets(400, `{"error":"Invalid field: policyId: a policy ID has 1 to 64 letters, digits, dots, dashes and underscores","code":"POLICY_INVALID"}`)
	acme.do(t, "PUT /v1/policies/x?force=yes", policyBody(t, fine)).status(400)
	acme.do(t, "PUT /v1/policies/x?forse=true", policyBody(t, fine)).status(400)
	acme.do(t, "PUT /v1/policies/x", `{"cedar":"`+fine+`","descripton":"x"}`).status(400)
	acme.do(t, "PUT /v1/policies/x", `{}`).status(400)
	acme.do(t, "DELETE /v1/policies/x", "").gets(404, `{"error":"Policy not found: x"}`)
	acme.do(t, "GET /v1/policies/x", "").gets(404, `{"error":"Policy not found: x"}`)
	acme.do(t, "POST /v1/policies/test", `{"draft":{"policyId":"x","cedar":"permit"}}`).status(400)
	acme.do(t, "POST /v1/policies/test", `{"draft":{"policyId":"x","ceder":"permit"}}`).status(400)
	acme.do(t, "POST /v1/policies/test", `{"remove":["x"]}`).status(404)
	acme.do(t, "POST /v1/attest", `{"agentId":"a","actionType":"b","payload":1,"decde":true}`).status(400)
	if after := string(acme.do(t, "GET /v1/policies", "").raw); after != before {
		t.Errorf("a refused policy has changed something: %s", after)
	}
	reader := acme.create(t, "reader", "")
	reader.do(t, "GET /v1/policies", "").status(200)
	reader.do(t, "PUT /v1/policies/x", policyBody(t, fine)).status(403)
	reader.do(t, "DELETE /v1/policies/all", "").status(403)
	acme.do(t, "PUT /v1/policies/x?force=true", policyBody(t, `permit (principal, action, resource) when { context.later };`)).status(200)
	for n := range 15 {
		acme.do(t, fmt.Sprintf("PUT /v1/policies/many-%d", n), policyBody(t, strings.Repeat(fine+"\n", 70))).limitReached(t, n)
	}
}

func (r *reply) is(t *testing.T, code string) {
	t.Helper()
	if is := r.str("code"); is != code {
		t.Errorf("%s: code %s, want %s", r.call, is, code)
	}
}

func (r *reply) limitReached(t *testing.T, n int) {
	t.Helper()
	if n < 14 { // 14 × 70 and two more are not yet 1,000
		r.status(200)
		return
	}
	r.status(409).is(t, "POLICY_LIMIT")
}

// A draft is tried on what is on record before it counts.
func TestPoliciesAreTried(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	call := func(agent, tool string) {
		acme.do(t, "POST /v1/attest", `{"agentId":"`+agent+`","actionType":"tool.requested","payload":{"source":"mcp","tool":"`+tool+`","callId":"c","input":{}}}`).status(201)
	}
	call("bot", "read")  // 0, before there was a policy
	call("bot", "write") // 1
	acme.do(t, "PUT /v1/policies/all", policyBody(t, `permit (principal, action, resource);`)).status(200)
	call("bot", "write") // 2
	call("cat", "write") // 3
	draft := `{"draft":{"policyId":"no","cedar":"forbid (principal, action, resource == Tool::\"write\");"}`
	acme.do(t, "POST /v1/policies/test", draft+`}`).gets(200, `{"decided":4,"different":[
		{"index":1,"was":null,"becomes":"deny","by":["no"]},{"index":2,"was":"allow","becomes":"deny","by":["no"]},{"index":3,"was":"allow","becomes":"deny","by":["no"]}],"next":null}`)
	acme.do(t, "POST /v1/policies/test", draft+`,"agentId":"cat"}`).gets(200, `{"decided":1,"different":[{"index":3,"was":"allow","becomes":"deny","by":["no"]}],"next":null}`)
	acme.do(t, "POST /v1/policies/test", draft+`,"from":1,"limit":1}`).gets(200, `{"decided":1,"different":[{"index":1,"was":null,"becomes":"deny","by":["no"]}],"next":2}`)
	acme.do(t, "POST /v1/policies/test", `{"policies":[{"policyId":"none","cedar":"permit (principal == Agent::\"cat\", action, resource);"}],"from":2}`).
		gets(200, `{"decided":2,"different":[{"index":2,"was":"allow","becomes":"deny","by":[]}],"next":null}`)
	acme.do(t, "GET /v1/policies", "").has(`{"revision":1}`)
}

// Groups of an agent are in force at once, and a decision names those that it was made with.
func TestGroupsDecide(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	acme.do(t, "POST /v1/agents/register", `{"agentId":"bot"}`).status(201)
	acme.do(t, "PUT /v1/policies/finance", policyBody(t, `permit (principal in Group::"finance", action, resource);`)).status(200)
	pay := func() string {
		return verdictOf(t, acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"pay","payload":{"amount":1},"decide":true}`).status(201))
	}
	if is := pay(); is != "deny" {
		t.Errorf("outside the group: %s", is)
	}
	acme.do(t, "PUT /v1/agents/bot/policy", `{"groups":["staff","finance","staff"]}`).gets(200, `{"agentId":"bot","groups":["finance","staff"]}`)
	if is := pay(); is != "allow finance" {
		t.Errorf("in the group: %s", is)
	}
	acme.do(t, "PUT /v1/agents/bot/policy", `{"groups":[]}`).status(200)
	if is := pay(); is != "deny" {
		t.Errorf("out of the group again: %s", is)
	}
	acme.do(t, "PUT /v1/agents/bot/policy", `{"groups":["a b"]}`).status(400)
	acme.do(t, "PUT /v1/agents/bot/policy", `{"groups":["a b"],"attest":"key"}`).status(400)
	acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"x","payload":1}`).status(201)
	acme.do(t, "PUT /v1/agents/bot/policy", `{"groups":["staff"],"attest":"key"}`).gets(200, `{"agentId":"bot","attest":"key","groups":["staff"]}`)
	acme.do(t, "PUT /v1/agents/bot/policy", `{"groups":["staff"],"attest":"any"}`).gets(200, `{"agentId":"bot","attest":"any","groups":["staff"]}`)
	acme.do(t, "PUT /v1/agents/nobody/policy", `{"groups":["a"]}`).status(404)
	acme.do(t, "PUT /v1/agents/bot/policy", `{}`).status(400)
	acme.do(t, "PUT /v1/company/policy", `{"decisions":"all"}`).has(`{"attest":"any","decisions":"all"}`)
	acme.do(t, "PUT /v1/company/policy", `{"decisions":"some"}`).status(400)
}

// Under load, while the policies change, each record names the set that was in force at its place:
// revisions never fall, and each decision is the one that its set makes.
func TestDecisionsFollowTheSetInForce(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	const changes, clients = 50, 16
	each := 25
	if testenv.Long() {
		each = 625 // 10,000 in all
	}
	texts := map[int64]string{0: ""}
	for n := range changes {
		texts[int64(n+1)] = fmt.Sprintf(`permit (principal, action, resource) when { context.arguments.n %% 7 == 0 || context.arguments.n > %d };`, n)
		texts[int64(n+1)] = strings.Replace(texts[int64(n+1)], "context.arguments.n % 7 == 0 || ", "", 1)
	}
	var changing atomic.Bool
	changing.Store(true)
	var all sync.WaitGroup
	all.Go(func() {
		defer changing.Store(false)
		for n := range changes {
			acme.do(t, "PUT /v1/policies/p", policyBody(t, texts[int64(n+1)])).status(200)
		}
	})
	for client := range clients {
		all.Go(func() {
			for n := 0; n < each || changing.Load(); n++ {
				acme.do(t, "POST /v1/attest", fmt.Sprintf(`{"agentId":"bot-%d","actionType":"a","payload":{"n":%d},"decide":true}`, client, n%changes)).status(201)
			}
		})
	}
	all.Wait()
	revision, decided := int64(0), 0
	company, err := s.store.Companies.Get(t.Context(), "acme")
	must.OK(t, err)
	must.OK(t, s.store.Records(t.Context(), company.Actions.Chain, 0, 1<<30, func(r *chain.Record) error {
		d, err := decision.Of(r.Payload)
		must.OK(t, err)
		if d.Revision < revision {
			t.Errorf("record %d: revision %d after %d", r.Index, d.Revision, revision)
		}
		revision = d.Revision
		set := new(decide.Set)
		if text := texts[d.Revision]; text != "" {
			set, err = decide.Compile([]decide.Policy{{ID: "p", Text: text}})
			must.OK(t, err)
			if set.Hash() != d.Policies {
				t.Errorf("record %d: revision %d is not the set %s", r.Index, d.Revision, d.Policies)
			}
		}
		var body struct {
			AgentID, ActionType string
			Payload             json.RawMessage
		}
		must.OK(t, json.Unmarshal(r.Payload, &body))
		if again := set.Decide(decide.Recorded("acme", body.AgentID, body.ActionType, body.Payload, d.Context)); again.Verdict != d.Verdict {
			t.Errorf("record %d: %s, and again %s", r.Index, d.Verdict, again.Verdict)
		}
		decided++
		return nil
	}))
	if revision != changes || decided < clients*each {
		t.Errorf("%d records, up to revision %d", decided, revision)
	}
	if err := s.store.VerifyAll(t.Context(), "", 1, nil, nil); err != nil && !errors.Is(err, store.ErrUnavailable) {
		t.Error(err)
	}
	acme.decidesAgain(t, "GET /v1/report", int64(decided))
}

// decidesAgain checks a file, whose decisions are all made again with the policies that it holds.
func (c caller) decidesAgain(t testing.TB, file string, decisions int64) {
	t.Helper()
	raw := c.do(t, file, "").status(200).raw
	trust := evidence.Trust{Fingerprint: c.fingerprint(t), Decider: new(decide.Decider)}
	var v evidence.Verdict
	switch src := evidence.Reader(bytes.NewReader(raw)); {
	case evidence.IsSession(src):
		v = evidence.CheckSession(src, trust)
	case evidence.IsReport(src):
		v = evidence.CheckReport(src, trust, func(*evidence.Report) {}, func(*evidence.Event) {})
	default:
		v = evidence.Check(raw, trust)
	}
	if v.Outcome != evidence.Holds || v.Decisions == nil || *v.Decisions != (evidence.Decisions{Recorded: decisions, Again: decisions}) {
		t.Errorf("%s: %+v %+v", file, v, v.Decisions)
	}
}

// Files hold the policies by which their records were decided, as they were then.
func TestFilesHoldThePoliciesInForce(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	bot := acme.signer(t, "bot", jose.EdDSA)
	run := bot.run(t, "run-1", 4, true)
	say := func(n int) { // with what an agent has signed
		body := strings.TrimSuffix(attestBody("bot", fmt.Sprint(n), run[n].Compact), "}") + `,"decide":true}`
		bot.do(t, "POST /v1/attest", body).status(201)
	}
	hook := func(n int, command string) {
		acme.do(t, "POST /v1/hooks/claude-code?agent=bot", fmt.Sprintf(`{"hook_event_name":"PreToolUse","session_id":"s","cwd":"/srv/app","tool_name":"Bash","tool_use_id":"c%d","tool_input":{"command":%q}}`, n, command)).status(200)
	}
	say(0) // before there was a policy
	acme.decidesAgain(t, "GET /v1/evidence/0", 1)
	acme.do(t, "PUT /v1/policies/all", policyBody(t, `permit (principal, action, resource);`)).status(200)
	acme.do(t, "PUT /v1/policies/rm", policyBody(t, `forbid (principal, action, resource == Tool::"Bash") when { context.words.contains("rm -r") && context has outside && context.outside };`)).status(200)
	say(1)
	hook(1, "rm -r build")
	hook(2, "cd .. && rm -r app2")
	acme.do(t, "DELETE /v1/policies/rm", "").status(200)
	hook(3, "cd .. && rm -r app2")
	say(2)
	acme.do(t, "PUT /v1/policies/all", policyBody(t, `permit (principal, action == Action::"call", resource) when { context.approved };`)).status(200)
	hook(4, "ls")
	acme.do(t, "DELETE /v1/policies/all", "").status(200)
	say(3)

	decided := int64(0)
	var page struct {
		Records []struct {
			Index   int64
			Payload json.RawMessage
		}
	}
	acme.do(t, "GET /v1/records", "").status(200).into(&page)
	for _, r := range page.Records {
		d, err := decision.Of(r.Payload)
		must.OK(t, err)
		if d != nil {
			decided++
			acme.decidesAgain(t, fmt.Sprintf("GET /v1/evidence/%d", r.Index), 1)
		}
	}
	acme.decidesAgain(t, "GET /v1/sessions/bot/run-1", 4)
	acme.decidesAgain(t, "GET /v1/sessions/bot/s", 5)
	acme.decidesAgain(t, "GET /v1/report", decided)
	if decided != 8 {
		t.Errorf("%d decisions", decided)
	}
}

// A hook obeys the decision about a call: the agent is told which policy forbids it, and the
// refusal is on record behind the request. With require=policy it refuses what nothing decides.
func TestHookObeysDecisions(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	event := func(id, command string) string {
		return `{"hook_event_name":"PreToolUse","session_id":"s","cwd":"/srv/app","tool_name":"Bash","tool_use_id":"` + id + `","tool_input":{"command":"` + command + `"}}`
	}
	refused := func(r *reply) string {
		var answer struct {
			HookSpecificOutput struct{ PermissionDecision, PermissionDecisionReason string }
		}
		must.OK(t, json.Unmarshal(r.status(200).raw, &answer))
		if answer.HookSpecificOutput.PermissionDecision != "deny" {
			return ""
		}
		return answer.HookSpecificOutput.PermissionDecisionReason
	}
	const hook = "POST /v1/hooks/claude-code?agent=bot"
	if why := refused(acme.do(t, hook, event("c1", "rm -rf /"))); why != "" {
		t.Errorf("without policies: %s", why)
	}
	if why := refused(acme.do(t, hook+"&require=policy", event("c2", "ls"))); why != "" {
		t.Errorf("without policies, required: %s", why) // the empty set allows
	}
	acme.do(t, "PUT /v1/policies/all", policyBody(t, `permit (principal, action, resource);`)).status(200)
	acme.do(t, "PUT /v1/policies/rm", policyBody(t, `forbid (principal, action, resource == Tool::"Bash") when { context.words.contains("rm -r") && context has outside && context.outside };`)).status(200)
	if why := refused(acme.do(t, hook, event("c3", "rm -r build"))); why != "" {
		t.Errorf("inside: %s", why)
	}
	for n, how := range []string{"", "&require=policy", "&fail=closed"} {
		why := refused(acme.do(t, hook+how, event(fmt.Sprintf("c4-%d", n), "cd .. && rm -r app2")))
		if !strings.Contains(why, "the policy rm forbids it") {
			t.Errorf("outside%s: %q", how, why)
		}
	}
	// a hook that is asked again answers the same
	if why := refused(acme.do(t, hook, event("c4-0", "cd .. && rm -r app2"))); !strings.Contains(why, "the policy rm forbids it") {
		t.Errorf("again: %q", why)
	}
	acme.do(t, hook+"&require=polcy", event("c5", "ls")).status(400)
	denied := acme.do(t, "GET /v1/records?action=tool.denied", "").status(200)
	var page struct{ Records []json.RawMessage }
	must.OK(t, json.Unmarshal(denied.raw, &page))
	if len(page.Records) != 3 {
		t.Errorf("%d refusals on record: %s", len(page.Records), denied.raw)
	}
}

// A token with authorization details records what its agent asks for, and the decision says that
// the details do not cover it, before any policy is asked.
func TestDetailsDecide(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	acme.do(t, "PUT /v1/policies/all", policyBody(t, `permit (principal, action, resource);`)).status(200)
	c := acme.oauthClient(t, "writer")
	token := c.do(t, "POST /o/acme/token", oauthForm("grant_type", "client_credentials", "client_id", c.clientID, "client_secret", c.secret,
		"authorization_details", narrowDetails), formType).status(200).str("access_token")
	pay := func(by caller, tool, input string) (verdict, code string) {
		record := recordOf(t, by.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"tool.requested","payload":{"source":"mcp","tool":"`+tool+`","callId":"c","input":`+input+`}}`).status(201))
		d, err := decision.Of(record.Payload)
		must.OK(t, err)
		return d.Verdict, d.Code
	}
	limited := acme.with(token)
	for _, c := range []struct{ tool, input, verdict, code string }{
		{"pay", `{"amount":10}`, "allow", ""}, {"pay", `{"amount":11}`, "deny", "DETAILS_DENIED"},
		{"pay", `{}`, "deny", "DETAILS_DENIED"}, {"read", `{"amount":1}`, "deny", "DETAILS_DENIED"},
	} {
		if verdict, code := pay(limited, c.tool, c.input); verdict != c.verdict || code != c.code {
			t.Errorf("%s %s: %s %s", c.tool, c.input, verdict, code)
		}
	}
	if verdict, _ := pay(acme, "read", `{"amount":1000}`); verdict != "allow" {
		t.Errorf("without details: %s", verdict)
	}
	acme.do(t, "DELETE /v1/policies/all", "").status(200)
	if verdict, code := pay(limited, "pay", `{"amount":11}`); verdict != "deny" || code != "DETAILS_DENIED" {
		t.Errorf("without policies: %s %s", verdict, code)
	}
}

// Admins who change the policies at once lose none of their changes, and each change has a revision
// of its own.
func TestPoliciesAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	const admins = 16
	var all sync.WaitGroup
	for n := range admins {
		all.Go(func() {
			path := fmt.Sprintf("/v1/policies/p%d", n)
			acme.do(t, "PUT "+path, policyBody(t, `permit (principal, action, resource);`)).status(200)
			if n%2 == 0 {
				acme.do(t, "DELETE "+path, "").status(200)
			}
		})
	}
	all.Wait()
	set := acme.do(t, "GET /v1/policies", "").has(fmt.Sprintf(`{"revision":%d}`, admins+admins/2))
	if got := len(set.at("policies").([]any)); got != admins/2 {
		t.Errorf("%d policies", got)
	}
	company, err := s.store.Companies.Get(t.Context(), "acme")
	must.OK(t, err)
	must.OK(t, s.store.Tables.Check(t.Context(), company.Chain))
}
