package server_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"attestd/internal/testenv"
)

func TestRegisterAgent(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	const register, notSegment = "POST /v1/agents/register", `{"error":"…agentId…A-Z…a-z…0-9…"}`
	table(t, []row{
		{
			does: "an agent is registered and gets an SVID", as: acme, call: register, body: `{"agentId":"bot","metadata":{"model":"m-1"}}`,
			status: 201, gets: `{"agentId":"bot","spiffeId":"spiffe://attestd.local/company/acme/agent/bot","svid":"<token>","registeredAt":"<time>"}`,
			sets: []string{"Cache-Control: no-store"},
		},
		{does: "null metadata is none", as: acme, call: register, body: `{"agentId":"plain","metadata":null}`, status: 201, gets: `"<anything>"`},
		{does: "metadata is no array", as: acme, call: register, body: `{"agentId":"m","metadata":[1]}`, status: 400, gets: `{"error":"…metadata…"}`},
		{does: "metadata is no string", as: acme, call: register, body: `{"agentId":"m","metadata":""}`, status: 400, gets: `{"error":"…metadata…"}`},
		{does: "agentId is missing", as: acme, call: register, body: `{"metadata":{}}`, status: 400, gets: `{"error":"…agentId…"}`},
		{does: "the body is missing", as: acme, call: register, status: 400, gets: `{"error":"…agentId…"}`},
		{does: "agentId is a number", as: acme, call: register, body: `{"agentId":1}`, status: 400, gets: `{"error":"…agentId…"}`},
		{does: "agentId is null", as: acme, call: register, body: `{"agentId":null}`, status: 400, gets: `{"error":"…agentId…"}`},
		{does: "agentId is empty", as: acme, call: register, body: `{"agentId":""}`, status: 400, gets: `{"error":"…agentId…"}`},
		{does: "agentId has a slash", as: acme, call: register, body: `{"agentId":"a/b"}`, status: 400, gets: notSegment},
		{does: "agentId is two dots", as: acme, call: register, body: `{"agentId":".."}`, status: 400, gets: notSegment},
		{does: "agentId has an umlaut", as: acme, call: register, body: `{"agentId":"bär"}`, status: 400, gets: notSegment},
		{does: "agentId has 129 characters", as: acme, call: register, body: `{"agentId":"` + strings.Repeat("a", 129) + `"}`, status: 400, gets: notSegment},
		{does: "the body is not JSON", as: acme, call: register, body: `{`, status: 400, gets: `{"error":"…"}`},
		{does: "something follows the body", as: acme, call: register, body: `{"agentId":"x"}x`, status: 400, gets: `{"error":"…"}`},
		{does: "a stranger registers none", as: s.anyone(), call: register, body: `{"agentId":"x"}`, status: 401, gets: `{"error":"Unauthorized"}`, sets: []string{"WWW-Authenticate: Bearer …"}},

		{
			does: "an agent is read", as: acme, call: "GET /v1/agents/bot",
			status: 200, gets: `{"agentId":"bot","spiffeId":"spiffe://attestd.local/company/acme/agent/bot","companyId":"acme","registeredAt":"<time>","metadata":{"model":"m-1"}}`,
		},
		{
			does: "without metadata if it has none", as: acme, call: "GET /v1/agents/plain",
			status: 200, gets: `{"agentId":"plain","spiffeId":"spiffe://attestd.local/company/acme/agent/plain","companyId":"acme","registeredAt":"<time>"}`,
		},
		{does: "an unknown agent", as: acme, call: "GET /v1/agents/nobody", status: 404, gets: `{"error":"Agent not found: nobody"}`},
		{does: "a name that no agent can have", as: acme, call: "GET /v1/agents/a%2Fb", status: 404, gets: `{"error":"…"}`},
		{
			does: "an agent gets a fresh SVID", as: acme, call: "GET /v1/agents/bot/svid",
			status: 200, gets: `{"agentId":"bot","spiffeId":"spiffe://attestd.local/company/acme/agent/bot","svid":"<token>"}`,
			sets: []string{"Cache-Control: no-store"},
		},
		{does: "an unknown agent gets none", as: acme, call: "GET /v1/agents/nobody/svid", status: 404, gets: `{"error":"Agent not found: nobody"}`},
	})
}

// SVIDs are signed with the company's key and valid for an hour, and each request gets a new one.
func TestAgentSVID(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	acme := start(t).company(t, "acme")
	first := acme.agent(t, "bot")
	second := acme.do(t, "GET /v1/agents/bot/svid", "").status(200).str("svid")
	for _, svid := range []string{first, second} {
		acme.checkSVID(t, svid, "spiffe://attestd.local/company/acme/agent/bot")
	}
	if first == second {
		t.Error("the second SVID is the first")
	}
}

// A second registration replaces the time and the metadata of the first; there is still one agent.
func TestRegisterAgentAgain(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	for _, step := range []struct{ body, known string }{
		{`{"agentId":"bot","metadata":{"version":1,"old":true}}`, `,"metadata":{"version":1,"old":true}`},
		{`{"agentId":"bot","metadata":{"version":2}}`, `,"metadata":{"version":2}`},
		{`{"agentId":"bot"}`, ``},
	} {
		registered := acme.do(t, "POST /v1/agents/register", step.body).status(201).str("registeredAt")
		want := `{"agentId":"bot","spiffeId":"<anything>","companyId":"acme","registeredAt":"` + registered + `"` + step.known + `}`
		acme.do(t, "GET /v1/agents/bot", "").gets(200, want)
		acme.do(t, "GET /v1/agents", "").gets(200, `{"agents":[`+want+`],"total":1}`)
	}
}

// The control log has the hash of the metadata as they were sent, and answers have that text where
// they spell it in another way, so that everybody can compute the hash: of an agent, and of a
// company.
func TestMetadataAsSent(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, c := range []struct{ sent, said string }{
		{`{"a":"<é","b":1.0}`, ``},
		{`{ "a": "<é\u00e9 \\" ,
			"b" : [ 1.0, 2 ] }`, `,"metadataAsSent":"{ \"a\": \"<é\\u00e9 \\\\\" ,\n\t\t\t\"b\" : [ 1.0, 2 ] }"`},
	} {
		id := fmt.Sprint("acme-", len(c.said))
		key := s.anyone().do(t, "POST /v1/companies", `{"companyId":"`+id+`","metadata":`+c.sent+`}`).status(201).str("apiKey")
		acme := caller{s, id, key}
		acme.do(t, "POST /v1/agents/register", `{"agentId":"bot","metadata":`+c.sent+`}`).status(201)
		for _, path := range []string{"/v1/company", "/v1/agents/bot", "/v1/agents"} {
			r := acme.do(t, "GET "+path, "").status(200)
			if has := strings.Contains(string(r.raw), `"metadataAsSent"`); has != (c.said != "") {
				t.Errorf("%s: %s", path, r.raw)
			}
			r.contains(c.said)
		}
		hash := fmt.Sprintf(`"metadataHash":"%x"`, sha256.Sum256([]byte(c.sent)))
		if records := string(acme.do(t, "GET /v1/chain?log=control", "").status(200).raw); strings.Count(records, hash) != 2 {
			t.Errorf("%s is not in both records: %s", hash, records)
		}
	}
}

// As an addition to the specification, agents are listed in pages ordered by ID.
func TestListAgents(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.do(t, "GET /v1/agents", "").gets(200, `{"agents":[],"total":0}`)
	for _, id := range []string{"c", "a", "e", "b", "d"} {
		acme.agent(t, id)
	}
	var seen []string
	for cursor, pages := "", 0; ; pages++ {
		r := acme.do(t, "GET /v1/agents?limit=2"+cursor, "").status(200)
		for i := range r.at("agents").([]any) {
			seen = append(seen, r.str("agents", i, "agentId"))
		}
		next, more := r.json.(map[string]any)["next"]
		if !more {
			break
		}
		if pages > 3 {
			t.Fatal("the pages do not end")
		}
		cursor = "&cursor=" + next.(string)
	}
	if got := strings.Join(seen, ""); got != "abcde" {
		t.Errorf("pages gave %q", got)
	}
	for _, limit := range []string{"0", "-1", "1001", "1.5", "ten", "99999999999999999999"} {
		acme.do(t, fmt.Sprintf("GET /v1/agents?limit=%s", limit), "").gets(400, `{"error":"…limit…"}`)
	}
	acme.do(t, "GET /v1/agents?limit=1000", "").status(200)
	s.anyone().do(t, "GET /v1/agents", "").gets(401, `{"error":"Unauthorized"}`)
}

// Agents are searched by a part of their ID and by their state; total counts the matches on all
// pages.
func TestSearchAgents(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	acme := start(t).company(t, "acme")
	for _, id := range []string{"deploy_1", "deploy_2", "Deploy_3", "mailer"} {
		acme.agent(t, id)
	}
	acme.do(t, "POST /v1/agents/deploy_2/disable", "").status(200)
	for query, want := range map[string]string{
		"":                               `{"agents":["<anything>","<anything>","<anything>","<anything>"],"total":4}`,
		"?q=deploy_":                     `{"agents":["<anything>","<anything>","<anything>"],"total":3}`,
		"?q=DEPLOY_&limit=1":             `{"agents":["<anything>"],"total":3,"next":"Deploy_3"}`,
		"?q=deploy_&status=active":       `{"agents":["<anything>","<anything>"],"total":2}`,
		"?q=%25&status=disabled":         `{"agents":[],"total":0}`,
		"?status=disabled":               `{"agents":["<anything>"],"total":1}`,
		"?q=deploy_&cursor=deploy_1":     `{"agents":["<anything>"],"total":3}`,
		"?q=nobody":                      `{"agents":[],"total":0}`,
		"?q=" + strings.Repeat("x", 128): `{"agents":[],"total":0}`,
	} {
		acme.do(t, "GET /v1/agents"+query, "").gets(200, want)
	}
	acme.do(t, "GET /v1/agents?status=off", "").gets(400, `{"error":"Invalid query parameter: status must be active or disabled"}`)
	acme.do(t, "GET /v1/agents?status=", "").gets(400, `{"error":"Invalid query parameter: status must be active or disabled"}`)
	acme.do(t, "GET /v1/agents?q="+strings.Repeat("x", 129), "").gets(400, `{"error":"Invalid query parameter: q must have at most 128 bytes"}`)
}
