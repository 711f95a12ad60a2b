package server_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"attestd/chain"
	"attestd/crypto/jose"
	"attestd/crypto/jose/josetest"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// roles are the roles of credentials, each of which includes the one before it.
var roles = []string{"reader", "writer", "admin"}

// Every operation of the document is requested with every role, by key and by access token. A
// credential whose role permits the operation succeeds; any other gets FORBIDDEN_ROLE, and no row
// of any table changes. A reader changes nothing and never sees a secret. A new route is tested as
// soon as it is documented: the request that is made from its description must succeed for an
// admin.
func TestEveryRouteAgainstEveryRole(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	s := start(t)
	doc, err := openapi3.NewLoader().LoadFromFile("../web/openapi.yaml")
	must.OK(t, err)
	tried := 0
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			needed := slices.Index(roles, fmt.Sprint(op.Extensions["x-role"]))
			if needed < 0 { // public
				continue
			}
			tried++
			t.Run(op.OperationID, func(t *testing.T) {
				p := s.populate(t, fmt.Sprint("company-", tried))
				if op.OperationID == "createPerson" {
					delete(p.names, "personId") // who is there
				}
				if op.OperationID == "createFederation" {
					delete(p.names, "name") // which is taken
				}
				call, body, headers := p.ask(method+" "+path, op)
				if stranger := p.with("").do(t, call, body, headers...).status(401); string(stranger.raw) != "\"Unauthorized\"\n" || !strings.HasPrefix(path, "/access/") {
					stranger.gets(401, `{"error":"Unauthorized"}`)
				}
				for rank, role := range roles[:2] {
					for _, who := range p.holders[role] {
						before := s.digest(t)
						answer := who.do(t, call, body, headers...)
						if rank >= needed {
							if answer.code >= 300 {
								t.Errorf("a %s gets %d: %s", role, answer.code, short(answer.raw))
							}
						} else {
							answer.gets(403, `{"error":"Forbidden: this needs a credential of the role …, and the one presented is of the role `+role+`","code":"FORBIDDEN_ROLE"}`)
						}
						if rank < needed || role == "reader" {
							compareDigests(t, role, before, s.digest(t))
						}
						for what, secret := range p.secrets {
							if role == "reader" && strings.Contains(string(answer.raw), secret) {
								t.Errorf("a reader is shown %s: %s", what, short(answer.raw))
							}
						}
					}
				}
				for role, mark := range map[string]string{"agent": "x-agent", "enrolling": "x-enrolment"} {
					before := s.digest(t)
					answer := p.holders[role][0].do(t, call, body, headers...)
					switch forbidden := strings.Contains(string(answer.raw), "FORBIDDEN_ROLE"); {
					case op.Extensions[mark] != true && !(answer.code == 403 && forbidden):
						t.Errorf("an %s credential gets %d: %s", role, answer.code, short(answer.raw))
					case op.Extensions[mark] == true && (forbidden || answer.code == 401):
						t.Errorf("an %s credential is refused: %s", role, short(answer.raw))
					case op.Extensions[mark] != true:
						compareDigests(t, role, before, s.digest(t))
					}
				}
				if op.OperationID == "enrolAgentKey" || op.OperationID == "rotatePassport" {
					// one of these has done what the request asks for, which can be done once
					return
				}
				if answer := p.do(t, call, body, headers...); answer.code >= 300 {
					t.Errorf("the request shows nothing, for an admin gets %d: %s", answer.code, short(answer.raw))
				}
			})
		}
	}
	if tried < len(keyed) {
		t.Errorf("%d operations were tried, of %d", tried, len(keyed))
	}
}

// The route without a jti, which revokes the passport with the empty jti, is in no document.
func TestUndocumentedRouteChecksRole(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	for _, role := range roles[:2] {
		acme.create(t, role, "").do(t, "POST /v1/passports//revoke", "").gets(403, `{"error":"…","code":"FORBIDDEN_ROLE"}`)
	}
	acme.do(t, "POST /v1/passports//revoke", "").status(400)
	acme.with("").do(t, "POST /v1/passports//revoke", "").status(401)
}

// populated is a company with one of everything.
type populated struct {
	caller                      // with its admin's key
	holders map[string][]caller // by role, with a key and with an access token
	secrets map[string]string   // by their kind
	names   map[string]string   // values for requests, by the name of the parameter or member
}

func (s *service) populate(t *testing.T, id string) populated {
	t.Helper()
	p := populated{caller: s.company(t, id), holders: map[string][]caller{}}
	p.attestMany(t, 2)
	svid, actor := p.agent(t, "deploy-bot"), p.agent(t, "git-bot")
	passport := p.passport(t, "deploy-bot", "")
	spare := p.do(t, "POST /v1/keys", "").status(201).str("key")
	client := p.do(t, "POST /v1/oauth/clients", "").status(201)
	delegation := p.do(t, delegate, `{"agentId":"deploy-bot","actingOn":"acme","scope":"x"}`).status(201).str("token")
	hook := p.do(t, "POST /v1/webhooks", `{"url":"https://hooks.example.invalid/"}`).status(201)
	// Nothing of it is then written during the requests of this test.
	p.do(t, "POST /v1/webhooks/"+hook.str("webhookId")+"/disable", "").status(200)
	p.secrets = map[string]string{
		"a webhook's secret": hook.str("secret"),
		"an admin's key":     p.credential, "another key": spare, "a client's secret": client.str("clientSecret"), "an access token": p.oauthToken(t),
		"an SVID": svid, "a passport": passport, "a delegation": delegation,
	}
	p.do(t, "POST /v1/federation", federationBody("ci", "https://ci.example.invalid", "a", ciRules)).status(201)
	p.do(t, "PUT /v1/policies/all-of-"+id, policyBody(t, `permit (principal, action, resource);`)).status(200)
	passkeyID, _ := p.personOf(t, "person-of-"+id, "reader")
	asked := p.do(t, "POST /v1/approvals", `{"agentId":"deploy-bot","tool":"deploy","arguments":{},"expiresIn":86400}`).status(201)
	p.names = map[string]string{
		"approvalId": asked.str("approvalId"), "personId": "person-of-" + id, "credentialId": passkeyID, "name": "ci", "policyId": "all-of-" + id, "agentId": "deploy-bot", "key": spare, "clientId": client.str("clientId"), "jti": jti(t, p.caller, passport), "index": "1", "webhookId": hook.str("webhookId"),
		"logId": p.do(t, "GET /v1/logs", "").status(200).str("logs", 0, "logId"), "path": "0/000.p/2",
		"Service-Passport": passport, "passport": passport, "delegation": delegation, "subject_token": svid, "actor_token": actor,
	}
	a := signer{p.caller, "deploy-bot", newKey(t, jose.ES256)}
	a.enrol(t, a.key).status(201)
	p.holders["agent"] = []caller{a.signsIn(t).caller}
	p.holders["enrolling"] = []caller{p.with(p.do(t, "POST /v1/agents/deploy-bot/enrolments", "").status(201).str("token"))}
	step := a.run(t, "run-1", 1, true)[0]
	// another program has looked at the file, so the names of statements are being compared
	eventually(t, "the statement is recorded", func() bool { return a.attests(t, "0", step.Compact).code == 201 })
	p.names["thumbprint"], p.names["sid"], p.names["since"] = a.thumbprint(), "run-1", chain.FormatTime(time.Now())
	p.names["DPoP"] = strings.TrimPrefix(a.proof(t, josetest.PrivateKey(t, jose.EdDSA), "POST", a.keys(), ""), "DPoP: ")
	for _, role := range roles {
		p.holders[role] = []caller{p.create(t, role, ""), p.with(p.clientToken(t, role, "").str("access_token"))}
	}
	return p
}

// ask returns the request for an operation: the first example of its body, with existing names in
// place of the example's.
func (p populated) ask(call string, op *openapi3.Operation) (filled, body string, headers []string) {
	filled = regexp.MustCompile(`\{\w+\}`).ReplaceAllStringFunc(call, func(name string) string { return p.names[strings.Trim(name, "{}")] })
	var query []string
	for _, parameter := range op.Parameters {
		switch name := parameter.Value.Name; {
		case parameter.Value.In == "header" && p.names[name] != "":
			headers = append(headers, name+": "+p.names[name])
		case parameter.Value.In == "query" && parameter.Value.Required:
			query = append(query, fmt.Sprint(name, "=", parameter.Value.Example))
		}
	}
	if len(query) > 0 {
		filled += "?" + strings.Join(query, "&")
	}
	if op.RequestBody == nil || op.RequestBody.Value.Content["application/json"] == nil {
		return filled, "", headers
	}
	examples := op.RequestBody.Value.Content["application/json"].Examples
	members := maps.Clone(examples[slices.Sorted(maps.Keys(examples))[0]].Value.Value.(map[string]any))
	for name, value := range p.names {
		if members[name] != nil {
			members[name] = value
		}
	}
	raw, _ := json.Marshal(members) // it came out of JSON
	return filled, string(raw), headers
}

// digest returns a hash of the rows of each table in the file.
func (s *service) digest(t *testing.T) map[string]string {
	t.Helper()
	db := storetest.Stranger(t, s.path)
	defer db.Close()
	list := func(query string) (lines []string) {
		rows, err := db.QueryContext(t.Context(), query)
		must.OK(t, err)
		defer rows.Close()
		columns, err := rows.Columns()
		must.OK(t, err)
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range into {
			into[i] = &values[i]
		}
		for rows.Next() {
			must.OK(t, rows.Scan(into...))
			lines = append(lines, fmt.Sprint(values...))
		}
		must.OK(t, rows.Err())
		slices.Sort(lines)
		return lines
	}
	tables, named := `SELECT name FROM sqlite_schema WHERE type = 'table'`, `SELECT '"' || name || '"' FROM pragma_table_info('%s')`
	// PostgreSQL has tables about servers and about request rates.
	if storetest.OnPostgres() {
		tables = `SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public' AND tablename NOT IN ('writer', 'feed', 'duty', 'budget')`
		named = `SELECT '"' || name || '"' FROM (SELECT attname AS name FROM pg_attribute WHERE attrelid = '%s'::regclass AND attnum > 0) AS a`
	}
	found := map[string]string{}
	// The service signs and stores a checkpoint for any caller, and watches calls by itself.
	for _, table := range list(`SELECT * FROM (` + tables + `) AS t WHERE name NOT IN ('checkpoint', 'call_watch', 'refused_call')`) {
		// The hour of a credential's last use is written with the next write of any caller, and the
		// position of a webhook when its deliveries reach it. The HMAC of its row covers that.
		columns := list(fmt.Sprintf(named, table) + ` WHERE name NOT IN ('last_used_at', 'next_record', 'next_control', 'attempts', 'retry_at', 'mac')`)
		lines := list(`SELECT ` + strings.Join(columns, ", ") + ` FROM "` + table + `"`)
		found[table] = fmt.Sprintf("%d rows, %x", len(lines), sha256.Sum256([]byte(strings.Join(lines, "\n"))))
	}
	return found
}

func compareDigests(t *testing.T, role string, before, after map[string]string) {
	t.Helper()
	for table := range after {
		if before[table] != after[table] {
			t.Errorf("a %s changes %s: %s before, %s after", role, table, before[table], after[table])
		}
	}
}
