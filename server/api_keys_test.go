package server_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/store"
)

func TestCreateKey(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	const create, created = "POST /v1/keys", `{"key":"svc_<secret>","createdAt":"<time>"}`
	table(t, []row{
		{does: "a key without a label", as: acme, call: create, status: 201, gets: created, sets: []string{"Cache-Control: no-store"}},
		{does: "an empty object is as good", as: acme, call: create, body: `{}`, status: 201, gets: created},
		{does: "blanks are as good", as: acme, call: create, body: " \r\n\t", status: 201, gets: created},
		{does: "a key with a label", as: acme, call: create, body: `{"label":"ci \u00fc"}`, status: 201, gets: created},
		{does: "a null label is none", as: acme, call: create, body: `{"label":null}`, status: 201, gets: created},
		{does: "a label is no number", as: acme, call: create, body: `{"label":5}`, status: 400, gets: `{"error":"…label…"}`},
		{does: "a label is no object", as: acme, call: create, body: `{"label":{}}`, status: 400, gets: `{"error":"…label…"}`},
		{does: "the body is not JSON", as: acme, call: create, body: `{"label"`, status: 400, gets: `{"error":"…"}`},
		{does: "the body is no object", as: acme, call: create, body: `"ci"`, status: 400, gets: `{"error":"…"}`},
		{does: "something follows the body", as: acme, call: create, body: `{} null`, status: 400, gets: `{"error":"…"}`},
		{does: "a stranger gets none", as: s.anyone(), call: create, status: 401, gets: `{"error":"Unauthorized"}`, sets: []string{"WWW-Authenticate: Bearer …"}},
		{
			does: "all keys are listed in full, in the order of their creation", as: acme, call: "GET /v1/keys",
			status: 200, gets: `{"keys":[
				{"key":"` + acme.credential + `","label":"bootstrap","createdAt":"<time>"},
				{"key":"svc_<secret>","label":null,"createdAt":"<time>"},
				{"key":"svc_<secret>","label":null,"createdAt":"<time>"},
				{"key":"svc_<secret>","label":null,"createdAt":"<time>"},
				{"key":"svc_<secret>","label":"ci ü","createdAt":"<time>"},
				{"key":"svc_<secret>","label":null,"createdAt":"<time>"}]}`,
			sets: []string{"Cache-Control: no-store"},
		},
		{does: "a stranger sees none", as: s.anyone(), call: "GET /v1/keys", status: 401, gets: `{"error":"Unauthorized"}`, sets: []string{"WWW-Authenticate: Bearer …"}},
	})
}

func TestDeleteKey(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	second := acme.do(t, "POST /v1/keys", "").status(201).str("key")
	acme.with(second).do(t, "GET /v1/company", "").status(200)
	table(t, []row{
		{does: "an unknown key", as: acme, call: "DELETE /v1/keys/svc_" + strings.Repeat("x", 43), status: 404, gets: `{"error":"API key not found"}`},
		{does: "no key at all", as: acme, call: "DELETE /v1/keys/%20", status: 404, gets: `{"error":"API key not found"}`},
		{does: "another company's key is unknown too", as: globex, call: "DELETE /v1/keys/" + second, status: 404, gets: `{"error":"API key not found"}`},
		{does: "and still works", as: acme.with(second), call: "GET /v1/company", status: 200, gets: `"<anything>"`},
		{does: "a stranger deletes none", as: s.anyone(), call: "DELETE /v1/keys/" + second, status: 401, gets: `{"error":"Unauthorized"}`, sets: []string{"WWW-Authenticate: Bearer …"}},
		{does: "a key is deleted", as: acme, call: "DELETE /v1/keys/" + second, status: 200, gets: `{"deleted":true}`},
		{does: "and refused on its very next use", as: acme.with(second), call: "GET /v1/company", status: 401, gets: `{"error":"Unauthorized"}`, sets: []string{"WWW-Authenticate: Bearer …"}},
		{does: "and is no longer listed", as: acme, call: "GET /v1/keys", status: 200, gets: `{"keys":[{"key":"` + acme.credential + `","label":"bootstrap","createdAt":"<time>"}]}`},
		{does: "and cannot be deleted again", as: acme, call: "DELETE /v1/keys/" + second, status: 404, gets: `{"error":"API key not found"}`},
		{does: "the last key stays", as: acme, call: "DELETE /v1/keys/" + acme.credential, status: 409, gets: `{"error":"…","code":"LAST_API_KEY"}`},
		{does: "and works", as: acme, call: "GET /v1/company", status: 200, gets: `"<anything>"`},
	})
	// Any credential may delete any key, including its own and the bootstrap key, and an OAuth
	// token may delete any of them too.
	third := acme.do(t, "POST /v1/keys", "").status(201).str("key")
	acme.do(t, "DELETE /v1/keys/"+acme.credential, "").gets(200, `{"deleted":true}`)
	acme.do(t, "GET /v1/keys", "").gets(401, `{"error":"Unauthorized"}`)
	acme = acme.with(third)
	fourth := acme.do(t, "POST /v1/keys", "").status(201).str("key")
	token := acme.oauthToken(t)
	acme.with(token).do(t, "DELETE /v1/keys/"+fourth, "").gets(200, `{"deleted":true}`)
	acme.with(token).do(t, "DELETE /v1/keys/"+third, "").gets(409, `{"error":"…","code":"LAST_API_KEY"}`)
}

// If two keys delete each other at the same moment, one of them always survives.
func TestDeleteKeysOfEachOther(t *testing.T) {
	t.Parallel()
	s := start(t)
	for round := range 15 {
		acme := s.company(t, fmt.Sprintf("acme-%d", round))
		keys := [2]string{acme.credential, acme.do(t, "POST /v1/keys", "").status(201).str("key")}
		var replies [2]*reply
		var wg sync.WaitGroup
		for i := range keys {
			wg.Go(func() { replies[i] = acme.with(keys[i]).do(t, "DELETE /v1/keys/"+keys[1-i], "") })
		}
		wg.Wait()
		var deleted int
		for i, r := range replies {
			switch r.code {
			case 200:
				deleted++
				acme.with(keys[1-i]).do(t, "GET /v1/keys", "").status(401)
				acme.with(keys[i]).do(t, "GET /v1/keys", "").gets(200, `{"keys":[{"key":"`+keys[i]+`","label":"<anything>","createdAt":"<time>"}]}`)
			case 401: // its own key was deleted first
			default:
				r.gets(409, `{"error":"…","code":"LAST_API_KEY"}`)
			}
		}
		if deleted != 1 {
			t.Fatalf("round %d: %d keys were deleted, want 1", round, deleted)
		}
	}
}

// A credential is accepted in the Authorization header with the scheme Bearer, and nowhere else.
func TestCredential(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	client := acme.do(t, "POST /v1/oauth/clients", "").status(201)
	before := time.Now().Add(-time.Hour)
	holder, err := s.store.Credentials.AuthenticateClient(t.Context(), client.str("clientId"), client.str("clientSecret"), before)
	must.OK(t, err)
	expired, _, err := s.store.Credentials.IssueToken(t.Context(), holder, store.TokenGrant{}, time.Hour)
	must.OK(t, err)
	them := s.anyone()
	const read = "GET /v1/company"
	refused := func(does string, headers ...string) row {
		return row{does: does, as: them, call: read, headers: headers, status: 401, gets: `{"error":"Unauthorized"}`, sets: []string{"WWW-Authenticate: Bearer …", "Cache-Control: no-store"}}
	}
	accepted := func(does string, headers ...string) row {
		return row{does: does, as: them, call: read, headers: headers, status: 200, gets: `"<anything>"`}
	}
	table(t, []row{
		accepted("an API key", "Authorization: Bearer "+acme.credential),
		accepted("an OAuth access token", "Authorization: Bearer "+acme.oauthToken(t)),
		accepted("the scheme has no case", "Authorization: bEARER "+acme.credential),
		refused("none"),
		refused("an empty one", "Authorization: Bearer "),
		refused("a made-up one", "Authorization: Bearer svc_"+strings.Repeat("A", 43)),
		refused("one with another end", "Authorization: Bearer "+acme.credential[:len(acme.credential)-1]+"!"),
		refused("one with something after it", "Authorization: Bearer "+acme.credential+" x"),
		refused("one without a scheme", "Authorization: "+acme.credential),
		refused("one with the scheme Basic", "Authorization: Basic "+acme.credential),
		refused("an OAuth client's secret", "Authorization: Bearer "+client.str("clientSecret")),
		refused("an OAuth token after an hour", "Authorization: Bearer "+expired),
		refused("a company's name", "Authorization: Bearer acme"),
		refused("a key in another header", "X-Api-Key: "+acme.credential),
		{does: "a key in the query", as: them, call: read + "?access_token=" + acme.credential, status: 401, gets: `{"error":"Unauthorized"}`},
	})
	svid := acme.agent(t, "bot")
	acme.with(svid).do(t, read, "").gets(401, `{"error":"Unauthorized"}`)
	acme.with(acme.passport(t, "bot", "")).do(t, read, "").gets(401, `{"error":"Unauthorized"}`)
}
