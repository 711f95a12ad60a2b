package server_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"attestd/server"
)

// fingerprint computes the fingerprint a second time, from its description in the reference.
func fingerprint(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])[:16]
}

// A deleted client is gone with all its tokens, and only its own company can delete it.
func TestDeleteOAuthClient(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	client := acme.do(t, "POST /v1/oauth/clients", "").status(201)
	id, secret := client.str("clientId"), client.str("clientSecret")
	get := "grant_type=client_credentials&client_id=" + id + "&client_secret=" + secret
	token := func() *reply {
		return s.anyone().do(t, "POST /v1/oauth/token", get, "Content-Type: application/x-www-form-urlencoded")
	}
	first, second := token().status(200).str("access_token"), token().status(200).str("access_token")
	other := acme.oauthToken(t)
	// they are used, so that they are cached
	for _, access := range []string{first, second, other} {
		acme.with(access).do(t, "GET /v1/company", "").status(200)
	}

	path := "DELETE /v1/oauth/clients/" + id
	globex.do(t, path, "").gets(404, `{"error":"OAuth client not found"}`)
	acme.with(first).do(t, path, "").gets(200, `{"deleted":true}`)
	acme.do(t, path, "").gets(404, `{"error":"OAuth client not found"}`)

	for _, access := range []string{first, second} {
		acme.with(access).do(t, "GET /v1/company", "").gets(401, `{"error":"Unauthorized"}`)
	}
	token().gets(401, `{"error":"invalid_client"}`)
	acme.with(other).do(t, "GET /v1/company", "").status(200)
	if clients := acme.do(t, "GET /v1/oauth/clients", "").status(200); strings.Contains(string(clients.raw), id) {
		t.Errorf("the client is still listed: %s", clients.raw)
	}
}

// The actions of a leaked key are found by its fingerprint, also through clients and their tokens,
// without any secret in the answer.
func TestCredentials(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	s.company(t, "globex")
	leaked := acme.do(t, "POST /v1/keys", `{"label":"ci"}`).status(201).str("key")
	thief := acme.with(leaked)
	second := thief.do(t, "POST /v1/keys", "").status(201).str("key")
	client := thief.do(t, "POST /v1/oauth/clients", "").status(201)
	answer := s.anyone().do(t, "POST /v1/oauth/token", `{"grant_type":"client_credentials","client_id":"`+client.str("clientId")+`","client_secret":"`+client.str("clientSecret")+`"}`, "Content-Type: application/json")
	token := answer.status(200).str("access_token")
	third := acme.with(token).do(t, "POST /v1/keys", "").status(201).str("key")

	boot, ci, app := fingerprint(acme.credential), fingerprint(leaked), fingerprint(client.str("clientSecret"))
	item := func(kind, print, rest string) string {
		return `{"kind":"` + kind + `","fingerprint":"` + print + `","role":"admin","createdAt":"<time>"` + rest + `}`
	}
	const used = `,"lastUsedAt":"<time>"`
	all := acme.do(t, "GET /v1/credentials", "").gets(200, `{"credentials":[`+strings.Join([]string{
		item("apiKey", boot, `,"label":"bootstrap"`+used),
		item("apiKey", ci, `,"label":"ci","madeBy":"`+boot+`"`+used),
		item("apiKey", fingerprint(second), `,"madeBy":"`+ci+`"`),
		item("apiKey", fingerprint(third), `,"madeBy":"`+app+`"`),
		item("oauthClient", app, `,"clientId":"`+client.str("clientId")+`","madeBy":"`+ci+`"`+used),
	}, ",")+`]}`)
	for _, secret := range []string{acme.credential, leaked, second, third, client.str("clientSecret"), token} {
		if strings.Contains(string(all.raw), secret) {
			t.Error("the list shows a secret")
		}
	}
	if hour := all.str("credentials", 0, "lastUsedAt"); !strings.HasSuffix(hour, ":00:00.000Z") {
		t.Errorf("last used at %s, which is more than the hour", hour)
	}
	acme.do(t, "GET /v1/credentials?madeBy="+ci, "").gets(200, `{"credentials":[`+
		item("apiKey", fingerprint(second), `,"madeBy":"`+ci+`"`)+`,`+item("oauthClient", app, `,"clientId":"`+client.str("clientId")+`","madeBy":"`+ci+`"`+used)+`]}`)
	acme.do(t, "GET /v1/credentials?madeBy="+app, "").gets(200, `{"credentials":[`+item("apiKey", fingerprint(third), `,"madeBy":"`+app+`"`)+`]}`)
	acme.do(t, "GET /v1/credentials?madeBy=0000000000000000", "").gets(200, `{"credentials":[]}`)
	for _, wrong := range []string{"x", strings.ToUpper(ci[:15]) + "A", ci + "0", leaked} {
		acme.do(t, "GET /v1/credentials?madeBy="+wrong, "").gets(400, `{"error":"…madeBy…"}`)
	}
}

// A company has as many keys, clients and agents as the settings allow, and the refusal says so;
// deleting one makes room for another.
func TestBounds(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *server.Config) { c.Bounds.Keys, c.Bounds.Clients, c.Bounds.Agents = 3, 2, 2 })
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	const full = `{"error":"The company has …, the most that this server allows","code":"TOO_MANY"}`
	second := acme.do(t, "POST /v1/keys", "").status(201).str("key")
	acme.do(t, "POST /v1/keys", "").status(201)
	acme.do(t, "POST /v1/keys", "").gets(409, full)
	acme.do(t, "DELETE /v1/keys/"+second, "").status(200)
	acme.do(t, "POST /v1/keys", "").status(201)

	client := acme.do(t, "POST /v1/oauth/clients", "").status(201).str("clientId")
	acme.do(t, "POST /v1/oauth/clients", "").status(201)
	acme.do(t, "POST /v1/oauth/clients", "").gets(409, full)
	acme.do(t, "DELETE /v1/oauth/clients/"+client, "").status(200)
	acme.do(t, "POST /v1/oauth/clients", "").status(201)

	for _, agent := range []string{"a", "b"} {
		acme.do(t, "POST /v1/agents/register", `{"agentId":"`+agent+`"}`).status(201)
	}
	acme.do(t, "POST /v1/agents/register", `{"agentId":"c"}`).gets(409, full)
	// It is one of the two.
	acme.do(t, "POST /v1/agents/register", `{"agentId":"b","metadata":{"n":2}}`).status(201)
	globex.do(t, "POST /v1/keys", "").status(201)
	globex.agent(t, "a")
}

// The data that is stored with a record is small, so that no company can use up the space of
// others.
func TestStoredTextsAreBounded(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.agent(t, "bot")
	fits, over := strings.Repeat("x", 16<<10-len(`{"a":""}`)), strings.Repeat("x", 16<<10+1)
	metadata := func(text string) string { return `,"metadata":{"a":"` + text + `"}}` }
	id := jti(t, acme, acme.passport(t, "bot", ""))
	table(t, []row{
		{does: "metadata of a company", as: s.anyone(), call: "POST /v1/companies", body: `{"companyId":"big"` + metadata(over), status: 400, gets: `{"error":"…metadata…16384…"}`},
		{does: "metadata of an agent", as: acme, call: "POST /v1/agents/register", body: `{"agentId":"big"` + metadata(over), status: 400, gets: `{"error":"…metadata…16384…"}`},
		{does: "reason", as: acme, call: "POST /v1/passports/" + id + "/revoke", body: `{"reason":"` + over + `"}`, status: 400, gets: `{"error":"…reason…16384…"}`},
		{does: "metadata of 16 KiB", as: s.anyone(), call: "POST /v1/companies", body: `{"companyId":"fits"` + metadata(fits), status: 201, gets: `"<anything>"`},
		{does: "metadata of 16 KiB of an agent", as: acme, call: "POST /v1/agents/register", body: `{"agentId":"fits"` + metadata(fits), status: 201, gets: `"<anything>"`},
		{does: "a reason of 16 KiB", as: acme, call: "POST /v1/passports/" + id + "/revoke", body: `{"reason":"` + over[1:] + `"}`, status: 200, gets: `"<anything>"`},
	})
}
