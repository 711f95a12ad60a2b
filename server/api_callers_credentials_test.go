package server_test

import (
	"crypto/x509"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"attestd/crypto/assertion"
	"attestd/crypto/jose"
	"attestd/crypto/keys"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/store"
)

// held is a credential of the matrix.
type held struct {
	name string
	// by which way it counts: bearer, dpop, secret, assertion or certificate; "" for none
	way      string
	is       string // the kinds of which its holder is then; see callersOfRoutes
	table    string // in which the service has its hash, "" for none
	text     func(r *asked) string
	key      *jose.PrivateKey // signs its proofs; nil for an unknown caller
	client   string           // ID that accompanies a secret
	subject  string           // a token that its holder may exchange, for itself or for the actor
	actor    string           // of an admin, who is none
	foreign  bool             // it is of another company
	disabled bool             // its agent is
	chain    []*x509.Certificate
}

// matrix is a service with credentials of each kind.
type matrix struct {
	*secure
	served       http.Handler
	names        map[string]string // values for parameters of paths
	held         []held
	strangersKey *jose.PrivateKey
	ended        func() bool // whether the credential that ends by its time has ended
}

func fixed(text string) func(*asked) string { return func(*asked) string { return text } }

// add adds a credential that counts by a way, and perhaps changes it.
func (m *matrix) add(name, way, is, table, text string, change ...func(*held)) {
	c := held{name: name, way: way, is: is, table: table, text: fixed(text), client: "cc_none"}
	for _, f := range change {
		f(&c)
	}
	m.held = append(m.held, c)
}

// newMatrix makes credentials of every kind, for the company acme and its agent bot, of which some
// have ended in every way there is, and those of another company.
func newMatrix(t *testing.T) *matrix {
	t.Helper()
	m := &matrix{strangersKey: newKey(t, jose.EdDSA)}
	m.secure = startTLS(t, privateFederation, func(c *server.Config) {
		c.Log = slog.New(slog.NewJSONHandler(m.failures(t), &slog.HandlerOptions{Level: slog.LevelError}))
	})
	m.served = m.handler()
	acme, zoo := m.company(t, "acme"), m.company(t, "zoo")
	svid, planner, ofZoo, plannerOfZoo := acme.agent(t, "bot"), acme.agent(t, "planner"), zoo.agent(t, "bot"), zoo.agent(t, "planner")
	acme.agent(t, "off")
	foreign := func(c *held) { c.foreign = true }
	m.names = map[string]string{"companyId": "acme", "agentId": "bot", "index": "0", "path": "0/000.p/1",
		"logId": acme.do(t, "GET /v1/logs", "").status(200).str("logs", 0, "logId")}
	acme.attestMany(t, 1)

	m.apiKeys(t, acme)
	m.clients(t, acme)
	m.agents(t, acme)
	m.federated(t, acme)
	m.people(t, acme)
	m.notCredentials(t, acme, svid, planner)

	// of another company
	bot := zoo.signer(t, "spare", jose.EdDSA)
	m.add("another company's API key", "bearer", "admin", "api_key", zoo.credential, foreign)
	m.add("another company's access token", "bearer", "admin client", "oauth_token", zoo.oauthClient(t, "admin").token(t), foreign)
	client := zoo.oauthClient(t, "admin")
	m.add("another company's client's secret", "secret", "admin client", "oauth_client", client.secret, foreign, func(c *held) { c.client = client.clientID })
	namesake := signer{zoo, "bot", bot.key}
	namesake.key = newKey(t, jose.ES256)
	namesake.enrol(t, namesake.key).status(201)
	m.add("another company's agent's token", "bearer", "agent", "oauth_token", namesake.signsIn(t).credential, foreign, func(c *held) { c.key = namesake.key })
	m.add("another company's enrolment token", "bearer", "enrolling", "enrolment", zoo.enrolling(t, "bot").credential, foreign)
	for i := range m.held {
		c := &m.held[i]
		if c.subject == "" {
			c.subject = map[bool]string{false: planner, true: plannerOfZoo}[c.foreign]
		}
		if strings.HasPrefix(c.is, "admin") {
			c.actor = map[bool]string{false: svid, true: ofZoo}[c.foreign]
		}
	}
	eventually(t, "an API key has ended", m.ended)
	return m
}

// failures is a log in which an internal error fails the test.
func (m *matrix) failures(t *testing.T) *failures { return &failures{t} }

type failures struct{ t *testing.T }

func (f *failures) Write(line []byte) (int, error) {
	f.t.Errorf("the service logs %s", line)
	return len(line), nil
}

// hashed returns the caller whose credential it is, as the store knows it.
func (m *matrix) hashed(t testing.TB, credential string) store.Caller {
	t.Helper()
	by, err := m.store.Credentials.Authenticate(t.Context(), keys.HashSecret(credential), time.Now())
	must.OK(t, err)
	return by
}

func (m *matrix) apiKeys(t testing.TB, acme caller) {
	t.Helper()
	for _, role := range []string{"admin", "writer", "reader"} {
		m.add("an API key of the role "+role, "bearer", role, "api_key", acme.create(t, role, "").credential)
	}
	ends := acme.create(t, "admin", `,"expiresAt":"`+in(2*time.Second)+`"`)
	m.add("an API key that has ended", "", "", "", ends.credential)
	m.ended = func() bool { return ends.do(t, "GET /v1/company", "").code == http.StatusUnauthorized }
	deleted := acme.create(t, "admin", "")
	acme.do(t, "DELETE /v1/keys/"+deleted.credential, "").status(200)
	m.add("an API key that was deleted", "", "", "", deleted.credential)
	m.add("an API key in capitals", "", "", "", strings.ToUpper(acme.credential))
	m.add("an API key and more", "", "", "", acme.credential+"=")
	m.add("an API key's hash", "", "", "", fingerprintOf(acme.credential))
	m.add("an API key that nobody has", "", "", "", "svc_"+strings.Repeat("A", 43))
}

func fingerprintOf(credential string) string { return keys.Fingerprint(keys.HashSecret(credential)) }

func (m *matrix) clients(t testing.TB, acme caller) {
	t.Helper()
	proves := newKey(t, jose.ES256)
	for _, role := range []string{"admin", "writer", "reader"} {
		c := acme.oauthClient(t, role)
		m.add("a client's secret, role "+role, "secret", role+" client", "oauth_client", c.secret, func(h *held) { h.client = c.clientID })
		m.add("a client's token, role "+role, "bearer", role+" client", "oauth_token", c.token(t))
		m.add("an admin's client's token, scope "+role, "bearer", role+" client", "oauth_token", acme.oauthClient(t, "admin").token(t, "scope", role))
		bound := c.asks(t, nil, signer{caller: acme}.proof(t, proves, "POST", "/v1/oauth/token", "")).status(200).str("access_token")
		m.add("a client's token that is bound to a key, role "+role, "dpop", role+" client", "oauth_token", bound, func(h *held) { h.key = proves })
		jwt := c.asks(t, []string{"resource", "https://mcp.example"}).status(200).str("access_token")
		m.add("a client's at+jwt for another resource, role "+role, "", "", "", jwt)
		own := c.asks(t, []string{"resource", acme.issuer()}).status(200).str("access_token")
		m.add("a client's at+jwt for this API, role "+role, "bearer", role+" client", "oauth_token", own)
	}
	keyed := newKey(t, jose.EdDSA)
	id := acme.do(t, "POST /v1/oauth/clients", `{"role":"writer",`+jwksOf(keyed.Key().JWK())[1:]).status(201).str("clientId")
	m.add("a client's assertion", "assertion", "writer client", "oauth_client", "", func(h *held) { h.text = m.asserts(t, keyed, id) })
	m.add("an assertion by another key", "", "", "", "", func(h *held) { h.text = m.asserts(t, m.strangersKey, id) })
	m.add("a client's ID", "", "", "", id)
	c := acme.oauthClient(t, "admin")
	m.add("another client's secret", "", "", "", acme.oauthClient(t, "admin").secret, func(h *held) { h.client = c.clientID })
	revoked := c.token(t)
	acme.about(t, "acme", "revoke", revoked).status(200)
	m.add("a client's token that was revoked", "", "", "", revoked)
	by, err := m.store.Credentials.AuthenticateClient(t.Context(), c.clientID, c.secret, time.Now())
	must.OK(t, err)
	ended, _, err := m.store.Credentials.IssueToken(t.Context(), by, store.TokenGrant{}, time.Millisecond)
	must.OK(t, err)
	m.add("a client's token that has ended", "", "", "", ended)
	gone := acme.oauthClient(t, "admin")
	orphan := gone.token(t)
	acme.do(t, "DELETE /v1/oauth/clients/"+gone.clientID, "").status(200)
	m.add("a token of a client that was deleted", "", "", "", orphan)
	m.add("a secret of a client that was deleted", "", "", "", gone.secret, func(h *held) { h.client = gone.clientID })
}

// asserts makes assertions, each of which counts once, for the address of the request.
func (m *matrix) asserts(t testing.TB, key *jose.PrivateKey, subject string) func(*asked) string {
	return func(r *asked) string {
		text, err := assertion.Make(t.Context(), key, subject, r.url, time.Now())
		must.OK(t, err)
		return text
	}
}

func (m *matrix) agents(t testing.TB, acme caller) {
	t.Helper()
	bot, proves := signer{acme, "bot", newKey(t, jose.ES256)}, newKey(t, jose.EdDSA)
	bot.enrol(t, bot.key).status(201)
	own := func(h *held) { h.key = bot.key }
	boundTo := func(a signer) string {
		return a.signsIn(t, a.proof(t, a.key, "POST", "/v1/oauth/token", "")).credential
	}
	m.add("an agent's token", "bearer", "agent", "oauth_token", bot.signsIn(t).credential, own)
	m.add("an agent's token that is bound to its key", "dpop", "agent", "oauth_token", boundTo(bot), own)
	m.add("an agent's token that is bound, with proofs of another key", "", "", "", boundTo(bot), func(h *held) { h.key = proves })
	m.add("an agent's assertion", "assertion", "agent", "", "", func(h *held) { h.text = m.asserts(t, bot.key, bot.spiffe()) })
	former := signer{acme, "bot", newKey(t, jose.EdDSA)}
	former.enrol(t, former.key).status(201)
	ended := former.signsIn(t).credential
	acme.do(t, "DELETE "+former.keys()+"/"+former.thumbprint(), "").status(200)
	m.add("a token of an agent's key that was revoked", "", "", "", ended)
	m.add("an assertion by an agent's key that was revoked", "", "", "", "", func(h *held) { h.text = m.asserts(t, former.key, former.spiffe()) })

	pair := m.clientCA.ClientPair(t, bot.spiffe())
	certified := func(ca *testenv.CA, id string) func(*held) {
		return func(h *held) { h.chain = []*x509.Certificate{ca.ClientPair(t, id).Leaf} }
	}
	m.add("an agent's certificate", "certificate", "agent", "", "", func(h *held) { h.chain = []*x509.Certificate{pair.Leaf} })
	m.add("a certificate of another CA", "certificate", "", "", "", certified(testenv.NewCA(t), bot.spiffe()))
	m.add("a certificate of the company", "certificate", "", "", "", certified(m.clientCA, acme.companySPIFFE()))
	m.add("a certificate of an agent that is disabled", "certificate", "", "", "", certified(m.clientCA, acme.companySPIFFE()+"/agent/off"))

	m.add("an enrolment token", "bearer", "enrolling", "enrolment", acme.enrolling(t, "bot").credential)
	spent := acme.enrolling(t, "bot")
	next := newKey(t, jose.ES256)
	signer{spent, "bot", next}.enrol(t, next).status(201)
	m.add("an enrolment token that is spent", "", "", "", spent.credential)
	late, err := m.store.AgentKeys.CreateEnrolment(t.Context(), m.hashed(t, acme.credential), "bot", nil, time.Now().Add(time.Millisecond))
	must.OK(t, err)
	m.add("an enrolment token that has ended", "", "", "", late)

	off := signer{acme, "off", newKey(t, jose.EdDSA)}
	off.enrol(t, off.key).status(201)
	token, bound, enrolling := off.signsIn(t).credential, boundTo(off), acme.enrolling(t, "off").credential
	acme.do(t, "POST /v1/agents/off/disable", "").status(200)
	m.add("a token of an agent that is disabled", "", "", "", token)
	m.add("a bound token of an agent that is disabled", "", "", "", bound, func(h *held) { h.key = off.key })
	m.add("an assertion of an agent that is disabled", "", "", "", "", func(h *held) { h.text = m.asserts(t, off.key, off.spiffe()) })
	m.add("an enrolment token of an agent that is disabled", "bearer", "enrolling", "enrolment", enrolling, func(h *held) { h.disabled = true })
}

// federated are agents that have signed in with the token of another issuer, and those of persons.
func (m *matrix) federated(t testing.TB, acme caller) {
	t.Helper()
	i, client, proves := newIssuer(t), acme.oauthClient(t, "reader"), newKey(t, jose.ES256)
	rules := `[{"match":{"client_id":"` + client.clientID + `","sub":"*"},"agentId":"bot","person":true},{"match":{"sub":"workload"},"agentId":"bot"}]`
	other := newIssuer(t)
	acme.do(t, "POST /v1/federation", federationBody("idp", i.URL, acme.issuer(), rules)).status(201)
	acme.do(t, "POST /v1/federation", federationBody("gone", other.URL, acme.issuer(), rules)).status(201)
	workload := claims{"sub": "workload"}
	plain := acme.federates(t, i.token(t, acme.issuer(), workload)).status(200).str("access_token")
	bound := acme.federates(t, i.token(t, acme.issuer(), workload), signer{caller: acme}.proof(t, proves, "POST", "/v1/oauth/token", "")).status(200).str("access_token")
	ended := acme.federates(t, other.token(t, acme.issuer(), workload)).status(200).str("access_token")
	acme.do(t, "DELETE /v1/federation/gone", "").status(200)
	m.add("a federated agent's token", "bearer", "agent", "federated_token", plain)
	m.add("a federated agent's token that is bound to a key", "dpop", "agent", "federated_token", bound, func(h *held) { h.key = proves })
	m.add("a token of a federation that was deleted", "", "", "", ended)
	m.add("another issuer's token", "", "", "", i.token(t, acme.issuer(), workload))
	person := i.asserts(t, identityType, acme.issuer(), client.clientID, nil)
	for name, headers := range map[string][]string{"": nil, " that is bound to a key": {signer{caller: acme}.proof(t, proves, "POST", "/o/acme/token", "")}} {
		assertion := i.asserts(t, identityType, acme.issuer(), client.clientID, nil)
		token := acme.presents(t, "/o/acme/token", assertion, nil, append(headers, client.basic())...).status(200).str("access_token")
		way := map[bool]string{true: "bearer", false: "dpop"}[name == ""]
		m.add("a person's agent's token"+name, way, "forPerson", "federated_token", token, func(h *held) { h.key, h.subject = proves, token })
	}
	m.add("a person's identity assertion", "", "", "", person)
}

// notCredentials are what the service signs and what others send it, none of which says who calls.
func (m *matrix) notCredentials(t testing.TB, acme caller, svid, planner string) {
	t.Helper()
	bot := signer{acme, "bot", newKey(t, jose.EdDSA)}
	bot.enrol(t, bot.key).status(201)
	delegation := acme.do(t, delegate, `{"agentId":"bot","actingOn":"acme","scope":"x"}`).status(201).str("token")
	hookSecret := acme.do(t, "POST /v1/webhooks", `{"url":"https://hooks.example.invalid/"}`).status(201)
	acme.do(t, "POST /v1/webhooks/"+hookSecret.str("webhookId")+"/disable", "").status(200)
	for name, text := range map[string]string{
		"an SVID":                          svid,
		"the company's SVID":               acme.do(t, "POST /v1/companies/svid", "").status(200).str("svid"),
		"a passport":                       acme.passport(t, "bot", `{"scopes":["*"]}`),
		"a delegation token":               delegation,
		"an agent's JWT for the issuer":    acme.do(t, "POST /v1/agents/bot/token", `{"audience":"`+acme.issuer()+`"}`).status(201).str("token"),
		"an exchanged token":               acme.exchanges(t, planner, actor(svid)...).status(200).str("access_token"),
		"a webhook's secret":               hookSecret.str("secret"),
		"a statement":                      bot.states(t, bot.claims(t, "note", "1")).Compact,
		"a DPoP proof":                     strings.TrimPrefix(bot.proof(t, bot.key, "GET", "/v1/company", ""), "DPoP: "),
		"a company's name":                 "acme",
		"a SPIFFE ID":                      bot.spiffe(),
		"nothing":                          "",
		"what no header may have":          "Grüße",
		"what a database might understand": "' OR 1=1 --",
		"a long text":                      strings.Repeat("A", 4000),
		"an access token that nobody has":  "oauth_" + strings.Repeat("A", 43),
		"an enrolment token nobody has":    "enr_" + strings.Repeat("A", 43),
	} {
		m.add(name, "", "", "", text)
	}
}

// people are signed in, one by each role.
func (m *matrix) people(t testing.TB, acme caller) {
	t.Helper()
	for role, is := range map[string]string{"admin": "admin person", "reader": "reader person"} {
		_, session := acme.personOf(t, role, role)
		m.add("the session of a person of the role "+role, "session", is, "person_session", session)
	}
}
