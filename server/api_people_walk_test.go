package server_test

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"attestd/crypto/keys"
	"attestd/crypto/passkey"
	"attestd/crypto/passkey/passkeytest"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
)

// changesNoRight are the operations that are no GET and need no assertion of the last five minutes
// of a person: what agents do, what is only asked, and what ends the person's own sessions.
var changesNoRight = map[string]string{
	"attest": "a record of actions", "attestBatch": "the same", "claudeCodeHook": "the same", "exportTraces": "the same", "exportLogs": "the same", "verifyPassport": "is asked", "evaluateAccess": "the same", "evaluateAccesses": "the same",
	"testPolicies": "the same", "introspectToken": "the same", "addPasskeyOptions": "an enrolment needs one", "reauthenticateOptions": "gives one",
	"requestApproval": "an agent or a writer asks", "withdrawApproval": "the same", "approvalOptions": "the same", "decideApproval": "is an assertion itself",
	"reauthenticate": "the same", "endOwnSession": "ends what is one's own", "endOwnSessions": "the same", "revokeToken": "the same",
}

// Every operation that a person in session may ask for, and that writes a control record, wants an
// assertion of the last five minutes, and its record names the person. A new operation fails here
// until it does so, or says why it need not.
func TestEveryChangeOfAPerson(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	s := start(t)
	doc, err := openapi3.NewLoader().LoadFromFile("../web/openapi.yaml")
	must.OK(t, err)
	p := s.populate(t, "acme")
	alice := p.person(t, "alice", "admin")
	p.person(t, "bob", "admin")
	operations := map[string]*openapi3.Operation{}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			role := op.Extensions["x-role"]
			if method != "GET" && role != "public" && role != "enrolling" && role != "client" {
				operations[method+" "+strings.Replace(path, "{companyId}", "acme", 1)] = op
			}
		}
	}
	newest := func() *reply {
		return p.do(t, "GET /v1/records?log=control&order=newest&limit=1", "").status(200)
	}
	s.age(t, alice)
	before := newest().raw
	var wanted []string
	for _, call := range slices.Sorted(maps.Keys(operations)) {
		op := operations[call]
		if changesNoRight[op.OperationID] != "" {
			continue
		}
		filled, sent, headers := p.ask(call, op)
		switch op.OperationID {
		case "addPasskey":
			second := *alice
			second.Authenticator = passkeytest.New(t, passkey.EdDSA)
			sent = body(t, "credential", second.creates(t, alice.asks(t, "POST /v1/people/me/passkeys/options", "")))
		case "revokeOwnPasskey":
			filled = "DELETE /v1/people/me/passkeys/" + alice.ID()
		}
		r := alice.asks(t, filled, sent, headers...)
		if r.code != 403 || !strings.Contains(string(r.raw), `"code":"REAUTHENTICATE"`) {
			t.Errorf("%s (%s) without an assertion: %d %s", op.OperationID, filled, r.code, short(r.raw))
		}
		wanted = append(wanted, call)
	}
	if after := newest().raw; string(after) != string(before) {
		t.Errorf("something is on record: %s", after)
	}
	slices.SortFunc(wanted, func(a, b string) int { return strings.Compare(order(a), order(b)) })
	done := 0
	for _, call := range wanted {
		op := operations[call]
		if strings.Contains(call, "/people/me/") { // see TestChangesOfPeople
			continue
		}
		alice.reauthenticates(t).status(200)
		filled, sent, headers := p.ask(call, op)
		before := string(newest().raw)
		r := alice.asks(t, filled, sent, headers...)
		if after := newest(); r.code < 300 && string(after.raw) != before {
			done++
			if !strings.Contains(string(after.raw), `"by":"person:alice"`) || !strings.Contains(string(after.raw), `"passkey":"`+alice.ID()+`"`) {
				t.Errorf("%s: the record is %s", op.OperationID, after.raw)
			}
		}
	}
	if len(wanted) < 35 || done < 20 {
		t.Errorf("%d operations want an assertion, and %d of them were done", len(wanted), done)
	}
	p.do(t, "GET /v1/verify?log=control", "").status(200).contains(`"valid":true`)
}

// order has what deletes and ends something come last.
func order(call string) string {
	if strings.HasPrefix(call, "DELETE ") || strings.Contains(call, "revoke") || strings.Contains(call, "disable") {
		return "2 " + call
	}
	return "1 " + call
}

// A token that a person has asked for counts as long as the person lives, whatever becomes of the
// session, and for nobody who is made later under the same ID.
func TestTokenOfAPerson(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.person(t, "root", "admin")
	alice := acme.person(t, "alice", "admin")
	acme.do(t, "POST /v1/agents/register", `{"agentId":"bot"}`).status(201)
	token := alice.asks(t, "POST /v1/agents/bot/token", fmt.Sprintf(`{"audience":%q}`, alice.origin+"/o/acme")).status(201).str("token")
	active := func(is bool) {
		t.Helper()
		acme.about(t, "acme", "introspect", token).status(200).contains(fmt.Sprintf(`"active":%t`, is))
	}
	active(true)
	alice.asks(t, "DELETE /v1/people/me/sessions", "").status(200)
	active(true)
	acme.do(t, "PATCH /v1/people/alice", `{"disabled":true}`).status(200)
	active(false)
	acme.do(t, "PATCH /v1/people/alice", `{"disabled":false}`).status(200)
	active(true)
	acme.do(t, "DELETE /v1/people/alice", "").status(200)
	active(false)
}

// What has ended counts no more: a challenge after five minutes, an invitation after its time, and
// the state of a sign-in with an account after ten.
func TestCeremoniesEndByTime(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	alice := acme.person(t, "alice", "admin")
	alice.cookie = ""
	old := func(ago time.Duration) *reply {
		t.Helper()
		challenge, err := s.store.People.Challenge(t.Context(), "sign-in", time.Now().Add(-ago))
		must.OK(t, err)
		return alice.asks(t, "POST /v1/people/sign-in", body(t, "credential", alice.Assertion(alice.Get(t, alice.origin, alice.rpID, challenge), alice.handle)))
	}
	old(store.ChallengeLifetime).gets(401, `{"error":"…","code":"PASSKEY_CHALLENGE"}`)
	old(store.ChallengeLifetime - time.Minute).status(200)

	acme.do(t, "POST /v1/people", `{"personId":"bob","name":"Bob"}`).status(201)
	by, err := s.store.Credentials.Authenticate(t.Context(), keys.HashSecret(acme.credential), time.Now())
	must.OK(t, err)
	secret, err := s.store.People.Invite(t.Context(), by, "bob", time.Now().Add(-time.Millisecond), nil, 1000)
	must.OK(t, err)
	s.browser(t, passkey.ES256).asks(t, "POST /v1/people/enrol/options", body(t, "invitation", secret)).gets(401, `{"error":"…","code":"INVITATION_INVALID"}`)

	browser := keys.HashSecret("a browser")
	at := time.Now()
	state, err := s.store.People.AccountState(t.Context(), browser, at)
	must.OK(t, err)
	if _, err := s.store.People.CheckAccountState(t.Context(), browser, state, at.Add(store.AccountLifetime-time.Second)); err != nil {
		t.Error(err)
	}
	if _, err := s.store.People.CheckAccountState(t.Context(), browser, state, at.Add(store.AccountLifetime)); err == nil {
		t.Errorf("the state %s counts after its end", base64.RawURLEncoding.EncodeToString(state))
	}
}
