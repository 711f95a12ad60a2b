package server_test

import (
	"encoding/base64"
	"net/url"
	"strings"
	"testing"

	"attestd/internal/testenv"
)

// oauthToken creates a client of the company and gets an access token with it.
func (c caller) oauthToken(t testing.TB) string {
	t.Helper()
	client := c.do(t, "POST /v1/oauth/clients", "").status(201)
	body := `{"grant_type":"client_credentials","client_id":"` + client.str("clientId") + `","client_secret":"` + client.str("clientSecret") + `"}`
	return c.anyone().do(t, "POST /v1/oauth/token", body, "Content-Type: application/json").status(200).str("access_token")
}

const (
	formType = "Content-Type: application/x-www-form-urlencoded"
	jsonType = "Content-Type: application/json"
)

// oauthForm is a form of pairs of a name and a value.
func oauthForm(pairs ...string) string {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Add(pairs[i], pairs[i+1])
	}
	return v.Encode()
}

func TestOAuthClients(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	table(t, []row{
		{does: "a company has no client at first", as: acme, call: "GET /v1/oauth/clients", status: 200, gets: `{"clients":[]}`},
		{
			does: "a client is made and its secret shown", as: acme, call: "POST /v1/oauth/clients",
			status: 201, gets: `{"clientId":"cc_…","clientSecret":"…<secret>","companyId":"acme","createdAt":"<time>"}`,
			sets: []string{"Cache-Control: no-store"},
		},
		{does: "a second one", as: acme, call: "POST /v1/oauth/clients", status: 201, gets: `"<anything>"`},
		{
			does: "the list shows no secret", as: acme, call: "GET /v1/oauth/clients",
			status: 200, gets: `{"clients":[{"clientId":"cc_…","createdAt":"<time>"},{"clientId":"cc_…","createdAt":"<time>"}]}`,
		},
		{does: "a stranger makes none", as: s.anyone(), call: "POST /v1/oauth/clients", status: 401, gets: `{"error":"Unauthorized"}`, sets: []string{"WWW-Authenticate: Bearer …"}},
		{does: "a stranger sees none", as: s.anyone(), call: "GET /v1/oauth/clients", status: 401, gets: `{"error":"Unauthorized"}`, sets: []string{"WWW-Authenticate: Bearer …"}},
	})
}

func TestOAuthToken(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	client := acme.do(t, "POST /v1/oauth/clients", "").status(201)
	id, secret := client.str("clientId"), client.str("clientSecret")
	other := acme.do(t, "POST /v1/oauth/clients", "").status(201)

	const (
		token   = `{"access_token":"oauth_<secret>","token_type":"bearer","expires_in":3600}`
		invalid = `{"error":"invalid_request","error_description":"…"}`
		grant   = `{"error":"unsupported_grant_type"}`
		wrong   = `{"error":"invalid_client"}`
	)
	form := oauthForm
	full := form("grant_type", "client_credentials", "client_id", id, "client_secret", secret)
	onlyGrant := form("grant_type", "client_credentials")
	basic := func(id, secret string) string {
		return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(id+":"+secret))
	}
	ask := func(does, body string, status int, gets string, headers ...string) row {
		r := row{does: does, as: s.anyone(), call: "POST /v1/oauth/token", body: body, headers: headers, status: status, gets: gets}
		r.sets = []string{"Cache-Control: no-store"}
		return r
	}
	failedBasic := func(does, body string, headers ...string) row {
		r := ask(does, body, 401, wrong, headers...)
		r.sets = append(r.sets, "WWW-Authenticate: Basic…")
		return r
	}
	table(t, []row{
		ask("a form", full, 200, token, formType),
		ask("a form with a charset", full, 200, token, formType+"; charset=UTF-8"),
		ask("JSON", `{"grant_type":"client_credentials","client_id":"`+id+`","client_secret":"`+secret+`"}`, 200, token, jsonType),
		ask("HTTP Basic", onlyGrant, 200, token, formType, basic(id, secret)),
		ask("HTTP Basic with JSON", `{"grant_type":"client_credentials"}`, 200, token, jsonType, basic(id, secret)),
		ask("HTTP Basic with the parts form-encoded", onlyGrant, 200, token, formType, basic(strings.ReplaceAll(id, "_", "%5F"), url.QueryEscape(secret))),

		ask("no grant_type", form("client_id", id, "client_secret", secret), 400, grant, formType),
		ask("another grant_type", form("grant_type", "password", "client_id", id, "client_secret", secret), 400, grant, formType),
		ask("another grant_type in JSON", `{"grant_type":"refresh_token"}`, 400, grant, jsonType),
		ask("a grant_type that is no string", `{"grant_type":["client_credentials"]}`, 400, grant, jsonType),
		ask("no client_id", form("grant_type", "client_credentials", "client_secret", secret), 400, invalid, formType),
		ask("no client_secret", form("grant_type", "client_credentials", "client_id", id), 400, invalid, formType),
		ask("neither", onlyGrant, 400, invalid, formType),
		ask("neither in JSON", `{"grant_type":"client_credentials","client_id":null,"client_secret":7}`, 400, invalid, jsonType),
		ask("a parameter twice", full+"&client_id=x", 400, invalid, formType),
		ask("a form that is none", "grant_type=%zz", 400, invalid, formType),
		ask("JSON that is none", `{"grant_type":`, 400, invalid, jsonType),
		ask("JSON with something after it", `{"grant_type":"client_credentials"}]`, 400, invalid, jsonType),
		ask("a form sent as JSON", full, 400, invalid, jsonType),
		ask("another Content-Type", full, 400, invalid, "Content-Type: text/plain"),
		ask("no Content-Type", full, 400, invalid),
		ask("both methods at once", full, 400, invalid, formType, basic(id, secret)),
		ask("both methods at once, both wrong", form("grant_type", "client_credentials", "client_id", "cc_x", "client_secret", "x"), 400, invalid, formType, basic(id, "x")),

		ask("an unknown client", form("grant_type", "client_credentials", "client_id", "cc_nobody", "client_secret", secret), 401, wrong, formType),
		ask("a wrong secret", form("grant_type", "client_credentials", "client_id", id, "client_secret", secret[:len(secret)-1]), 401, wrong, formType),
		ask("another client's secret", form("grant_type", "client_credentials", "client_id", id, "client_secret", other.str("clientSecret")), 401, wrong, formType),
		failedBasic("an unknown client by Basic", onlyGrant, formType, basic("cc_nobody", secret)),
		failedBasic("a wrong secret by Basic", onlyGrant, formType, basic(id, "wrong-secret-of-some-length")),
		ask("parameters in the URL do not count", onlyGrant, 400, invalid, formType),
	})
	asked := s.anyone().do(t, "POST /v1/oauth/token?"+full, "", formType)
	asked.gets(400, grant)

	// The token is accepted like a key, for its own company (RFC 6749 §5.1).
	oauth := s.anyone().do(t, "POST /v1/oauth/token", full, formType).status(200).sets("Pragma: no-cache").str("access_token")
	acme.with(oauth).do(t, "GET /v1/company", "").gets(200, `{"companyId":"acme","spiffeId":"<anything>","registeredAt":"<time>"}`)
	acme.with(oauth).do(t, "POST /v1/attest", `{"agentId":"a","actionType":"b","payload":1}`).status(201)
}
