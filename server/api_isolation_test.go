package server_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
)

// Two companies use the same names for everything: neither ever sees data of the other at any
// endpoint.
func TestIsolation(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	acmeSVID := acme.agent(t, "bot")
	globexSVID := globex.agent(t, "bot")
	acme.do(t, "POST /v1/agents/register", `{"agentId":"secret-agent","metadata":{"of":"acme"}}`).status(201)
	acme.do(t, "POST /v1/agents/register", `{"agentId":"bot","metadata":{"of":"acme"}}`).status(201)
	passport := acme.passport(t, "bot", "")
	id := jti(t, acme, passport)
	revokedID := jti(t, acme, acme.passport(t, "bot", ""))
	acme.do(t, "POST /v1/passports/"+revokedID+"/revoke", `{"reason":"acme only"}`).status(200)
	client := acme.do(t, "POST /v1/oauth/clients", "").status(201).str("clientId")
	second := acme.do(t, "POST /v1/keys", `{"label":"acme only"}`).status(201).str("key")
	delegation, _ := acme.exchange(t, acmeSVID, acme.agent(t, "other"))
	acme.attestMany(t, 3)
	acme.grow(t, "control", 3)
	control := acme.logNamed(t, "control")
	cursor := acme.do(t, "GET /v1/records?limit=1", "").status(200).str("next")

	const empty = `{"valid":true,"merkleRoot":"` + emptyRoot + `"}`
	for _, them := range []caller{globex, globex.with(globex.oauthToken(t))} {
		clients := them.do(t, "GET /v1/oauth/clients", "").gets(200, `{"clients":["<anything>"]}`)
		if clients.str("clients", 0, "clientId") == client {
			t.Error("globex sees acme's OAuth client")
		}
		rows := []row{
			{does: "company", as: them, call: "GET /v1/company", status: 200, gets: `{"companyId":"globex","spiffeId":"spiffe://attestd.local/company/globex","registeredAt":"<time>"}`},
			{does: "company SVID", as: them, call: "POST /v1/companies/svid", status: 200, gets: `{"companyId":"globex","spiffeId":"spiffe://attestd.local/company/globex","svid":"<token>"}`},
			{does: "an agent of the same name", as: them, call: "GET /v1/agents/bot", status: 200, gets: `{"agentId":"bot","spiffeId":"spiffe://attestd.local/company/globex/agent/bot","companyId":"globex","registeredAt":"<time>"}`},
			{does: "SVID of an agent of the same name", as: them, call: "GET /v1/agents/bot/svid", status: 200, gets: `{"agentId":"bot","spiffeId":"spiffe://attestd.local/company/globex/agent/bot","svid":"<token>"}`},
			{does: "agents", as: them, call: "GET /v1/agents", status: 200, gets: `{"agents":[{"agentId":"bot","spiffeId":"<anything>","companyId":"globex","registeredAt":"<time>"}],"total":1}`},
			{does: "agent", as: them, call: "GET /v1/agents/secret-agent", status: 404, gets: `{"error":"Agent not found: secret-agent"}`},
			{does: "SVID", as: them, call: "GET /v1/agents/secret-agent/svid", status: 404, gets: `{"error":"Agent not found: secret-agent"}`},
			{does: "passport for an agent", as: them, call: "POST /v1/agents/secret-agent/passport", status: 404, gets: `{"error":"Agent not found: secret-agent"}`},
			{does: "disable an agent", as: them, call: "POST /v1/agents/secret-agent/disable", status: 404, gets: `{"error":"Agent not found: secret-agent"}`},
			{does: "enable an agent", as: them, call: "POST /v1/agents/secret-agent/enable", status: 404, gets: `{"error":"Agent not found: secret-agent"}`},
			{does: "delete an OAuth client", as: them, call: "DELETE /v1/oauth/clients/" + client, status: 404, gets: `{"error":"OAuth client not found"}`},
			{does: "what a credential of acme has made", as: them, call: "GET /v1/credentials?madeBy=" + fingerprint(acme.credential), status: 200, gets: `{"credentials":[]}`},
			{does: "delegation to an agent", as: them, call: delegate, body: `{"agentId":"secret-agent","actingOn":"acme","scope":"x"}`, status: 404, gets: `{"error":"Agent not found: secret-agent"}`},
			{does: "a foreign subject", as: them, call: exchange, body: exchangeBody(t, acmeSVID, globexSVID, nil), status: 400, gets: `{"error":"…"}`},
			{does: "a foreign actor", as: them, call: exchange, body: exchangeBody(t, globexSVID, acmeSVID, nil), status: 400, gets: `{"error":"…"}`},
			{does: "a foreign delegation", as: them, call: "POST /v1/attest", body: `{"agentId":"bot","actionType":"x","payload":1,"delegation":"` + delegation + `"}`, status: 400, gets: `{"error":"Invalid delegation: …"}`},
			{does: "keys", as: them, call: "GET /v1/keys", status: 200, gets: `{"keys":[{"key":"` + globex.credential + `","label":"bootstrap","createdAt":"<time>"}]}`},
			{does: "delete a key", as: them, call: "DELETE /v1/keys/" + second, status: 404, gets: `{"error":"API key not found"}`},
			{does: "delete the bootstrap key", as: them, call: "DELETE /v1/keys/" + acme.credential, status: 404, gets: `{"error":"API key not found"}`},
			{does: "chain", as: them, call: "GET /v1/chain", status: 200, gets: `{"records":[]}`},
			{does: "records", as: them, call: "GET /v1/records", status: 200, gets: `{"records":[],"size":0,"read":{"from":0,"to":0}}`},
			{does: "records at a place of acme's", as: them, call: "GET /v1/records?cursor=" + cursor, status: 400, gets: `{"error":"…"}`},
			{does: "records counted", as: them, call: "GET /v1/records/histogram", status: 200, gets: `{"since":"<time>","until":"<time>","total":0,"size":0,"buckets":[]}`},
			{does: "verify", as: them, call: "GET /v1/verify", status: 200, gets: empty},
			{does: "proof", as: them, call: "GET /v1/proof/0", status: 404, gets: `{"error":"…"}`},
			{does: "proof of the control log", as: them, call: fmt.Sprintf("GET /v1/proof/%d?log=control", control.Size-1), status: 404, gets: `{"error":"…"}`},
			{does: "checkpoint of the control log", as: them, call: "GET /v1/log/" + control.LogID + "/checkpoint", status: 404, gets: `{"error":"Log not found: ` + control.LogID + `"}`},
			{does: "passports", as: them, call: "GET /v1/passports", status: 200, gets: `{"passports":[]}`},
			{does: "revoked passports", as: them, call: "GET /v1/passports/revoked", status: 200, gets: `{"revoked":[]}`},
			{does: "status of a passport", as: them, call: "GET /v1/ocsp/" + id, status: 200, gets: `{"jti":"` + id + `","companyId":"globex","status":"unknown","checkedAt":"<time>","caPublicKey":"<pem>","signature":"<signature>"}`},
			{does: "status of a revoked passport", as: them, call: "GET /v1/ocsp/" + revokedID, status: 200, gets: `{"jti":"` + revokedID + `","companyId":"globex","status":"unknown","checkedAt":"<time>","caPublicKey":"<pem>","signature":"<signature>"}`},
			{does: "revoke a passport", as: them, call: "POST /v1/passports/" + id + "/revoke", status: 404, gets: `{"error":"…","code":"PASSPORT_NOT_FOUND"}`},
			{does: "revoke a revoked passport", as: them, call: "POST /v1/passports/" + revokedID + "/revoke", status: 404, gets: `{"error":"…","code":"PASSPORT_NOT_FOUND"}`},
			{does: "verify a passport", as: them, call: "POST /v1/passport/verify", body: `{"passport":"` + passport + `"}`, status: 400, gets: `{"valid":false,"error":"…","code":"SIGNATURE_INVALID"}`},
			{does: "a passport that opens a tool", as: them, call: "POST /v1/hooks/claude-code?agent=secret-agent&require=passport", body: `{"hook_event_name":"Stop"}`, status: 200, gets: `{}`},
			{does: "spans of an agent", as: them, call: "POST /v1/otlp/v1/traces?agent=secret-agent", body: `{"resourceSpans":[]}`, status: 200, gets: `{}`},
			{does: "log records of an agent", as: them, call: "POST /v1/otlp/v1/logs?agent=secret-agent", body: `{"resourceLogs":[]}`, status: 200, gets: `{}`},
			{does: "rotate a passport", as: them, call: rotate, headers: []string{passportName + passport}, status: 403, gets: `{"error":"Passport was not issued by the authenticated company"}`},
		}
		table(t, rows)
		wholeList(t, rows)
		them.checkLog(t, "control") // all records are of globex
		if own := string(them.do(t, "GET /v1/chain?log=control", "").status(200).raw); strings.Contains(own, "acme") || !strings.Contains(own, `"subject":"agent:bot"`) {
			t.Errorf("the control log of globex: %s", own)
		}
	}
	// None of these requests changed anything of acme's.
	acme.do(t, "POST /v1/passport/verify", `{"passport":"`+passport+`"}`).status(200)
	acme.with(second).do(t, "GET /v1/agents/bot", "").gets(200, `{"agentId":"bot","spiffeId":"<anything>","companyId":"acme","registeredAt":"<time>","metadata":{"of":"acme"}}`)
	if n := len(acme.checkChain(t)); n != 3 {
		t.Errorf("acme has %d records, want 3", n)
	}
}

// No byte of an answer to another caller has data of a company. Every operation of the document is
// requested with the names of acme's objects, with each kind of credential of another company and
// without one. The answers are those for objects that do not exist, and none of these requests
// changes what acme reads about itself.
func TestNothingOfOneCompanyIsInAnswersToOthers(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	s := start(t, func(c *server.Config) { c.RecoverEndpoint = false })
	acme, globex := s.populate(t, "acme"), s.populate(t, "globex")
	given := acme // for bodies and headers, which with a new name make something of the caller's
	given.names = maps.Clone(acme.names)
	delete(given.names, "name")
	delete(given.names, "personId")
	acme.fillWithCanaries(t)
	doc, err := openapi3.NewLoader().LoadFromFile("../web/openapi.yaml")
	must.OK(t, err)

	public := fmt.Sprint(readsOfItself(t, globex))
	for _, path := range []string{"/v1/openapi.json", "/o/acme/jwks", "/v1/ca/public-key?companyId=acme", "/v1/ca/public-keys?companyId=acme", "/v1/ca/well-known?companyId=acme"} {
		public += string(s.anyone().do(t, "GET "+path, "").status(200).raw)
	}
	before := readsOfItself(t, acme) // behind the first request of its token keys, which makes them
	canaries := map[string]bool{}
	note := func(text string) {
		if _, err := time.Parse(time.RFC3339, text); err != nil && len(text) >= 16 && !strings.Contains(public, text) {
			canaries[text] = true
		}
	}
	for _, answer := range before {
		var v any
		must.OK(t, json.Unmarshal([]byte(answer), &v))
		eachText(v, note)
	}
	for _, secret := range acme.secrets {
		note(secret)
	}
	if len(canaries) < 60 {
		t.Fatalf("acme has only %d texts that nobody else may see", len(canaries))
	}

	nobodys := acme
	nobodys.names = maps.Clone(acme.names)
	for name := range nobodys.names {
		nobodys.names[name] = madeUp
	}
	asked := 0
	for _, who := range slices.Concat(globex.holders["admin"], globex.holders["agent"], globex.holders["enrolling"], []caller{s.anyone()}) {
		for _, path := range doc.Paths.InMatchingOrder() {
			for method, op := range doc.Paths.Value(path).Operations() {
				call, _, _ := acme.ask(method+" "+path, op)
				_, body, headers := given.ask(method+" "+path, op)
				answer := who.do(t, call, body, headers...)
				asked++
				request := call + body + strings.Join(headers, "")
				var head strings.Builder
				must.OK(t, answer.header.Write(&head))
				for text := range canaries {
					if strings.Contains(head.String()+string(answer.raw), text) && !strings.Contains(request, text) {
						t.Errorf("%s tells %q of acme: %s", op.OperationID, text, short(answer.raw))
					}
				}
				if !slices.Contains(roles, fmt.Sprint(op.Extensions["x-role"])) || !strings.Contains(path, "{") || strings.Contains(path, "{index}") {
					continue // it names no object: every company has a record 1
				}
				call, _, _ = nobodys.ask(method+" "+path, op)
				nothing := who.do(t, call, body, headers...)
				if is, would := alike(path, acme.names, answer), alike(path, acme.names, nothing); is != would {
					t.Errorf("%s answers %s for what is acme's, and %s for what is nobody's", op.OperationID, is, would)
				}
			}
		}
	}
	if asked < 400 {
		t.Errorf("only %d requests", asked)
	}
	for path, answer := range readsOfItself(t, acme) {
		if answer != before[path] {
			t.Errorf("others have changed %s of acme: %s, before %s", path, answer, before[path])
		}
	}
}

// madeUp is a name that nothing has.
const madeUp = "made-up"

// fillWithCanaries puts a word that is nowhere else into every text that a company may give, and
// makes its names be of objects that have one.
func (p *populated) fillWithCanaries(t *testing.T) {
	t.Helper()
	word := func(field string) string { return "canary-of-" + p.id + "-in-" + field }
	p.do(t, "POST /v1/agents/register", fmt.Sprintf(`{"agentId":%q,"metadata":{"note":%q}}`, word("agent"), word("metadata"))).status(201)
	p.do(t, "POST /v1/keys", fmt.Sprintf(`{"label":%q}`, word("label"))).status(201)
	delegation := p.do(t, delegate, fmt.Sprintf(`{"agentId":%q,"actingOn":"acme","scope":%q}`, word("agent"), word("scope"))).status(201).str("token")
	p.do(t, "POST /v1/attest", fmt.Sprintf(`{"agentId":%q,"actionType":%q,"payload":{%q:%q},"delegation":%q}`, word("agent"), word("action"), word("member"), word("payload"), delegation)).status(201)
	passport := p.do(t, "POST /v1/agents/"+word("agent")+"/passport", fmt.Sprintf(`{"scopes":["tool:%s"]}`, word("tool"))).status(201).str("passport")
	p.do(t, "POST /v1/passports/"+jti(t, p.caller, passport)+"/revoke", fmt.Sprintf(`{"reason":%q}`, word("reason"))).status(200)
	hook := p.do(t, "POST /v1/webhooks", fmt.Sprintf(`{"url":"https://hooks.example.invalid/","description":%q}`, word("webhook"))).status(201).str("webhookId")
	p.do(t, "POST /v1/webhooks/"+hook+"/disable", "").status(200)
	p.do(t, "POST /v1/federation", federationBody(word("federation"), "https://"+word("issuer")+".example.invalid", word("audience"), ciRules)).status(201)
	p.names["companyId"], p.names["actingOn"], p.names["agentId"], p.names["name"], p.names["webhookId"] = p.id, p.id, word("agent"), word("federation"), hook
}

// readsOfItself is everything that a company can read about itself, by path.
func readsOfItself(t *testing.T, p populated) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, path := range []string{"/v1/company", "/v1/agents", "/v1/keys", "/v1/credentials", "/v1/oauth/clients", "/v1/webhooks", "/v1/federation", "/v1/chain", "/v1/chain?log=control", "/v1/records", "/v1/passports", "/v1/passports/revoked", "/v1/agents/deploy-bot/keys", "/v1/sessions"} {
		all[path] = string(p.do(t, "GET "+path, "").status(200).raw)
	}
	return all
}

// alike is an answer without what rightly differs from that for another name: the name itself, the
// time, and the signature over both.
func alike(path string, names map[string]string, r *reply) string {
	if members, ok := r.json.(map[string]any); ok {
		delete(members, "checkedAt")
		delete(members, "putAt")
		delete(members, "signature")
	}
	text := fmt.Sprint(r.code, " ", r.json)
	for name, value := range names {
		if strings.Contains(path, "{"+name+"}") {
			text = strings.ReplaceAll(text, value, madeUp)
		}
	}
	return text
}

// eachText calls yield with the names and texts in a JSON value.
func eachText(v any, yield func(string)) {
	switch v := v.(type) {
	case string:
		yield(v)
	case []any:
		for _, e := range v {
			eachText(e, yield)
		}
	case map[string]any:
		for name, e := range v {
			yield(name)
			eachText(e, yield)
		}
	}
}

// wholeList demands that the list has every endpoint with a credential, except those that only
// create something of the caller's own.
func wholeList(t *testing.T, rows []row) {
	t.Helper()
	seen := map[string]bool{"rotateKeys": true, "registerAgent": true, "createKey": true, "createOAuthClient": true, "listOAuthClients": true}
	for _, row := range rows {
		seen[operation(t, row.as, row.call)] = true
	}
	for _, call := range keyed {
		if id := operation(t, rows[0].as, call); !seen[id] {
			t.Errorf("%s (%s) is not among them", call, id)
		}
	}
}

// operation returns the document's name for a call.
func operation(t *testing.T, c caller, call string) string {
	t.Helper()
	router, err := document()
	must.OK(t, err)
	route, _, err := router.FindRoute(c.request(t, call, ""))
	must.OK(t, err)
	return route.Operation.OperationID
}
