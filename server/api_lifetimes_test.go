package server_test

import (
	"crypto/x509"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"attestd/chain"
	"attestd/crypto/assertion"
	"attestd/crypto/cred"
	"attestd/crypto/jose"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/server/internal/pipes"
	"attestd/store"
	"attestd/store/storetest"
)

// ending is a caller whose credential ends soon.
type ending struct {
	caller
	agent string // that it is; "" for a caller that acts for the company
	// parameters with which it authenticates at the token endpoint; nil where it has a credential
	params func() []string
	person bool // it acts for one, and exchanges its own access token alone
	// when the credential ends, and when its holder does, who can get another; zero for never
	ends, holder time.Time
}

// soon is when the credentials of endings end: whatever is issued would otherwise last longer.
const soon = 40 * time.Second

// endings are callers of every kind, all of the company acme. The agent is bot.
func (s *secure) endings(t *testing.T, acme caller) map[string]ending {
	t.Helper()
	end := time.Now().Add(soon).Truncate(time.Millisecond)
	until := `,"expiresAt":"` + chain.FormatTime(end) + `"`
	client := func(more string) oauthClient {
		made := acme.do(t, "POST /v1/oauth/clients", `{"role":"admin"`+more+`}`).status(201)
		return oauthClient{s.anyone(), made.str("clientId"), made.str("clientSecret")}
	}
	brief, lasting := client(until), client("")
	asCompany := func(c caller) ending { return ending{caller: c, ends: end, holder: end} }
	bySecret := asCompany(caller{s.service, "acme", ""})
	bySecret.params = func() []string { return []string{"client_id", brief.clientID, "client_secret", brief.secret} }

	bot := acme.signer(t, "bot", jose.ES256)
	briefKey := signer{acme, "bot", newKey(t, jose.ES256)}
	briefKey.enrol(t, briefKey.key, strings.TrimPrefix(until, ",")).status(201)
	signedIn := briefKey.signsIn(t)
	asBot := func(c caller) ending { return ending{caller: c, agent: "bot", ends: end, holder: end} }
	byAssertion := asBot(caller{s.service, "acme", ""})
	byAssertion.params = func() []string { // each counts once
		text, err := assertion.Make(t.Context(), briefKey.key, briefKey.spiffe(), acme.issuer(), time.Now())
		must.OK(t, err)
		return []string{"client_assertion_type", assertion.Type, "client_assertion", text}
	}

	// an access token near its end, whose holder goes on
	company, err := s.store.Companies.Get(t.Context(), "acme")
	must.OK(t, err)
	nearEnd := func(holder store.Caller) caller {
		holder.Company, holder.At = company, time.Now()
		token, _, err := s.store.Credentials.IssueToken(t.Context(), holder, store.TokenGrant{}, soon)
		must.OK(t, err)
		return acme.with(token)
	}
	ofLasting := ending{caller: nearEnd(store.Caller{Client: lasting.clientID}), ends: end.Add(time.Second)}
	ofBot := ending{caller: nearEnd(store.Caller{Agent: "bot", Key: bot.thumbprint()}), agent: "bot", ends: end.Add(time.Second)}

	certified := s.certified(t, "acme", true, s.clientCA.ClientPair(t, botURI, func(c *x509.Certificate) { c.NotAfter = end }))

	ci := newIssuer(t)
	acme.do(t, "POST /v1/federation", federationBody("ci", ci.URL, acme.issuer(), `[{"match":{"sub":"bot"},"agentId":"bot"}]`)).status(201)
	workload := acme.with(acme.federates(t, ci.token(t, acme.issuer(), claims{"sub": "bot", "exp": end.Unix()})).status(200).str("access_token"))
	idp := newIssuer(t)
	acme.do(t, "POST /v1/federation", federationBody("idp", idp.URL, acme.issuer(), `[{"match":{"client_id":"`+lasting.clientID+`"},"agentId":"bot","person":true}]`)).status(201)
	person := asBot(acme.with(acme.presents(t, "/o/acme/token", idp.asserts(t, identityType, acme.issuer(), lasting.clientID, claims{"exp": end.Unix()}), nil, lasting.basic()).
		status(200).str("access_token")))
	person.person = true
	return map[string]ending{
		"API key":                                   asCompany(acme.create(t, "admin", until)),
		"OAuth client by its secret":                bySecret,
		"access token of an OAuth client":           asCompany(acme.with(brief.token(t))),
		"access token of an OAuth client near end":  ofLasting,
		"agent by an assertion":                     byAssertion,
		"access token of an agent":                  asBot(signedIn.caller),
		"access token of an agent near its own end": ofBot,
		"client certificate":                        asBot(certified),
		"workload":                                  asBot(workload),
		"person":                                    person,
	}
}

// issuing is a way to ask for a token, by the operation of the document.
type issuing struct {
	operation string
	// the specification fixes how long it lasts: it ends with the holder
	specified bool
	ask       func(e ending) *reply
}

// Whatever a caller of any kind is issued by any route ends with the caller. A kind of caller or a
// route that is new fails here until it is in the tables.
func TestNothingIssuedOutlivesItsCaller(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	s := startTLS(t, privateFederation)
	acme := s.company(t, "acme")
	planner := acme.agent(t, "planner")
	endings := s.endings(t, acme)
	svid := acme.do(t, "GET /v1/agents/bot/svid", "").status(200).str("svid")
	acme.namesForExchanges(t, "x")
	call := func(call, body string) func(e ending) *reply {
		return func(e ending) *reply {
			if e.params != nil {
				return nil
			}
			return e.do(t, call, body)
		}
	}
	exchangeOf := func(more ...string) func(e ending) *reply {
		return func(e ending) *reply {
			subject := planner
			if e.person {
				subject = e.credential
			}
			params := slices.Clone(more)
			if e.agent == "" {
				params = append(params, actor(svid)...)
			}
			if e.params != nil {
				params = append(params, e.params()...)
			}
			return e.exchanges(t, subject, params...)
		}
	}
	signsIn := func(more ...string) func(e ending) *reply {
		return func(e ending) *reply {
			if e.params == nil {
				return nil
			}
			params := slices.Concat([]string{"grant_type", "client_credentials"}, e.params(), more)
			return e.do(t, "POST /o/acme/token", oauthForm(params...), formType)
		}
	}
	routes := map[string]issuing{
		"token":                 {"createAgentToken", false, call("POST /v1/agents/bot/token", `{"audience":"x","ttl":3600}`)},
		"token for the issuer":  {"createAgentToken", false, call("POST /v1/agents/bot/token", `{"audience":"`+acme.issuer()+`","ttl":3600}`)},
		"SVID for an audience":  {"getAgentSVID", false, call("GET /v1/agents/bot/svid?audience=x", "")},
		"exchange":              {"getCompanyToken", false, exchangeOf()},
		"exchange for others":   {"getCompanyToken", false, exchangeOf("audience", "x")},
		"access token":          {"getOAuthToken", false, signsIn()},
		"access token, a JWT":   {"getOAuthToken", false, signsIn("resource", "https://mcp.example")},
		"SVID":                  {"getAgentSVID", true, call("GET /v1/agents/bot/svid", "")},
		"SVID of the company":   {"createCompanySVID", true, call("POST /v1/companies/svid", "")},
		"SVID at registration":  {"registerAgent", true, call("POST /v1/agents/register", `{"agentId":"new"}`)},
		"passport":              {"issuePassport", true, call("POST /v1/agents/bot/passport", `{"ttl":86400}`)},
		"delegation":            {"delegate", true, call("POST /v1/token-exchange", `{"agentId":"bot","actingOn":"globex","scope":"x"}`)},
		"exchange as specified": {"exchangeToken", true, func(e ending) *reply { return call(exchange, exchangeBody(t, planner, svid, nil))(e) }},
		"passport rotated": {"rotatePassport", true, func(e ending) *reply {
			if e.params != nil {
				return nil
			}
			return e.do(t, "POST /v1/agents/bot/passport/rotate", "", "Service-Passport: "+acme.passport(t, "bot", `{"ttl":86400}`))
		}},
	}
	for kind, e := range endings {
		issued := 0
		for route, r := range routes {
			answer := r.ask(e)
			if answer == nil {
				continue
			}
			if answer.code/100 != 2 {
				if answer.code != 403 || !strings.Contains(string(answer.raw), `"FORBIDDEN_`) {
					t.Errorf("%s, %s: %d %s", kind, route, answer.code, answer.raw)
				}
				continue
			}
			issued++
			most := e.ends
			if r.specified {
				most = e.holder
			}
			for _, end := range endsIn(t, answer) {
				if left := time.Until(end); left <= 0 || !most.IsZero() && end.After(most) || most.IsZero() && left < 3590*time.Second {
					t.Errorf("%s, %s: ends %s from now, and the caller %s", kind, route, left, time.Until(most))
				}
			}
		}
		if issued == 0 {
			t.Errorf("%s is issued nothing: the test shows nothing of it", kind)
		}
	}
	covered := map[string]bool{}
	for _, r := range routes {
		covered[r.operation] = true
	}
	checkIssuingOperations(t, covered)
	checkKindsOfCallers(t)
}

// endsIn returns the expiry times in an answer: of each JWT, and in its other members.
func endsIn(t *testing.T, answer *reply) (ends []time.Time) {
	t.Helper()
	members := answer.json.(map[string]any)
	for _, value := range members {
		if text, is := value.(string); is && strings.Count(text, ".") == 2 && strings.HasPrefix(text, "eyJ") {
			ends = append(ends, time.Unix(int64(decoded(t, text, 1)["exp"].(float64)), 0))
		}
	}
	for _, name := range []string{"expires_in", "expiresIn"} {
		if seconds, is := members[name].(float64); is {
			ends = append(ends, time.Now().Add(time.Duration(seconds)*time.Second).Add(-2*time.Second))
		}
	}
	if len(ends) == 0 {
		t.Errorf("%s: nothing is issued: %s", answer.call, answer.raw)
	}
	return ends
}

// checkIssuingOperations requires that the operations are all whose answers hold a token.
func checkIssuingOperations(t *testing.T, covered map[string]bool) {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromFile("../web/openapi.yaml")
	must.OK(t, err)
	// what an admin makes for others, and its control record says so: it ends by itself
	configured := map[string]bool{"createEnrolment": true}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			issues := false
			for status, answer := range op.Responses.Map() {
				for _, content := range answer.Value.Content {
					for _, name := range []string{"token", "svid", "passport", "access_token"} {
						issues = issues || status[0] == '2' && hasText(content.Schema, name)
					}
				}
			}
			if issues != (covered[op.OperationID] || configured[op.OperationID]) {
				t.Errorf("%s %s (%s) issues a token: %t; ask for it above with every kind of caller", method, path, op.OperationID, issues)
			}
		}
	}
}

// checkKindsOfCallers requires that only these members distinguish callers: another member is
// another kind.
func checkKindsOfCallers(t *testing.T) {
	t.Helper()
	known := []string{"Company", "Credential", "Role", "Client", "Agent", "Key", "Federation", "FederatedSince", "Delegation", "JKT", "Scope", "Details", "Expires", "HolderExpires", "At", "Operator",
		// a person is issued what an admin is, and its session ends later than none of it
		"Person", "Session", "SignedIn", "SignedInAt", "Passkey", "Reauthenticated"}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[store.Caller]()) {
		if !slices.Contains(known, field.Name) {
			t.Errorf("a caller has the member %s: is there a kind of caller that endings lacks?", field.Name)
		}
	}
}

// Of a credential that ends within the second nothing is issued: it would have ended when it comes.
func TestNothingIsIssuedInTheLastSecond(t *testing.T) {
	t.Parallel()
	_, err := document() // outside of the bubble, because other tests share it
	must.OK(t, err)
	path := storetest.New(t)
	synctest.Test(t, func(t *testing.T) {
		network := pipes.New()
		s := startBehind(t, network, network.Dial, path, cred.Domain{}, func(c *server.Config) { c.BaseURL = "http://pipe" })
		acme := s.company(t, "acme")
		planner, bot := acme.agent(t, "planner"), acme.agent(t, "bot")
		passport := acme.passport(t, "bot", "")
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
		brief := acme.create(t, "admin", `,"expiresAt":"`+in(10*time.Second+500*time.Millisecond)+`"`)
		time.Sleep(9 * time.Second)
		brief.do(t, "GET /v1/agents/bot/svid", "").status(200)
		time.Sleep(1200 * time.Millisecond)
		before := len(acme.do(t, "GET /v1/chain?log=control", "").status(200).at("records").([]any))
		const refused = `{"error":"Unauthorized: the credential ends within a second…"}`
		for call, body := range map[string]string{
			"POST /v1/agents/bot/token": `{"audience":"x"}`, "GET /v1/agents/bot/svid?audience=x": "", "GET /v1/agents/bot/svid": "", "POST /v1/companies/svid": "",
			"POST /v1/agents/register": `{"agentId":"new"}`, "POST /v1/agents/bot/passport": "", delegate: `{"agentId":"bot","actingOn":"globex","scope":"x"}`,
			exchange: exchangeBody(t, planner, bot, nil),
		} {
			brief.do(t, call, body).gets(401, refused).sets("WWW-Authenticate: Bearer …")
		}
		brief.do(t, "POST /v1/agents/bot/passport/rotate", "", "Service-Passport: "+passport).gets(401, refused)
		brief.exchanges(t, planner, actor(bot)...).gets(400, `{"error":"invalid_request","error_description":"…has ended"}`)
		if after := len(acme.do(t, "GET /v1/chain?log=control", "").status(200).at("records").([]any)); after != before {
			t.Errorf("%d control records were made of what was refused", after-before)
		}
		network.Close()
		s.stop()
	})
}
