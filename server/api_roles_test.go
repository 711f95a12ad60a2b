package server_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"attestd/chain"
	"attestd/crypto/cred"
	"attestd/internal/must"
	"attestd/server/internal/pipes"
	"attestd/store/storetest"
)

// create creates a key with a role; more has further members of the body.
func (c caller) create(t testing.TB, role, more string) caller {
	t.Helper()
	return c.with(c.do(t, "POST /v1/keys", `{"role":"`+role+`"`+more+`}`).status(201).str("key"))
}

// clientToken creates an OAuth client with a role, and gets an access token with it.
func (c caller) clientToken(t testing.TB, role, more string) *reply {
	t.Helper()
	made := c.do(t, "POST /v1/oauth/clients", `{"role":"`+role+`"`+more+`}`).gets(201, `{"clientId":"cc_…","clientSecret":"<secret>","companyId":"`+c.id+`","createdAt":"<time>"}`)
	body := `{"grant_type":"client_credentials","client_id":"` + made.str("clientId") + `","client_secret":"` + made.str("clientSecret") + `"}`
	return c.anyone().do(t, "POST /v1/oauth/token", body, "Content-Type: application/json").status(200)
}

// in returns a time after now in the API's format.
func in(d time.Duration) string { return chain.FormatTime(time.Now().Add(d)) }

func TestRolesAndExpiryOfNewCredentials(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	const key, created = "POST /v1/keys", `{"key":"svc_<secret>","createdAt":"<time>"}`
	const client, made = "POST /v1/oauth/clients", `{"clientId":"cc_…","clientSecret":"<secret>","companyId":"acme","createdAt":"<time>"}`
	const badRole, badTime = `{"error":"Invalid field: role must be admin, writer or reader"}`, `{"error":"Invalid field: expiresAt must be a time …"}`
	end := in(time.Hour)
	var rows []row
	for call, answer := range map[string]string{key: created, client: made} {
		for body, want := range map[string]string{
			``: answer, `{}`: answer, `{"role":null,"expiresAt":null}`: answer,
			`{"role":"reader"}`: answer, `{"role":"writer","expiresAt":"` + end + `"}`: answer, `{"role":"admin"}`: answer,
			`{"role":"owner"}`: badRole, `{"role":"Admin"}`: badRole, `{"role":""}`: badRole, `{"role":1}`: badRole, `{"role":["admin"]}`: badRole,
			`{"expiresAt":"` + in(-time.Second) + `"}`:                   `{"error":"Invalid field: expiresAt must be in the future"}`,
			`{"expiresAt":""}`:                                           badTime,
			`{"expiresAt":4102444800000}`:                                badTime,
			`{"expiresAt":"` + strings.TrimSuffix(end, "Z") + `"}`:       badTime,
			`{"expiresAt":"` + strings.TrimSuffix(end, "Z") + `+00:00"}`: badTime,
			`{"expiresAt":"2126-04-01T00:00:00Z"}`:                       badTime,
			`{"expiresAt":"2126-04-01T00:00:00,000Z"}`:                   badTime,
			`{"expiresAt":"2126-04-01T00:00:00.0000Z"}`:                  badTime,
			`{"expiresAt":"2126-02-30T00:00:00.000Z"}`:                   badTime,
			`{"role":"reader"`:                                           `{"error":"…"}`,
			`[]`:                                                         `{"error":"…"}`,
		} {
			status := 400
			if want == answer {
				status = 201
			}
			rows = append(rows, row{does: call + " " + body, as: acme, call: call, body: body, status: status, gets: want})
		}
	}
	table(t, rows)

	// The list has the roles and expiry times of the keys, and nothing of refused requests.
	seen := map[string]int{}
	for _, c := range acme.do(t, "GET /v1/credentials", "").status(200).at("credentials").([]any) {
		c := c.(map[string]any)
		seen[fmt.Sprint(c["kind"], " ", c["role"], " ", c["expiresAt"])]++
	}
	want := map[string]int{"apiKey admin <nil>": 5, "oauthClient admin <nil>": 4}
	for _, kind := range []string{"apiKey", "oauthClient"} {
		want[kind+" reader <nil>"], want[kind+" writer "+end] = 1, 1
	}
	if !maps.Equal(seen, want) {
		t.Errorf("credentials %v, want %v", seen, want)
	}
}

// An expired key or client is treated as unknown, to the millisecond. The same holds for its
// tokens, which expire no later, and for the streams that were opened with any of them. It can
// still be deleted.
func TestExpiredCredentials(t *testing.T) {
	t.Parallel()
	_, err := document() // outside of the bubble, because other tests share it
	must.OK(t, err)
	path := storetest.New(t)
	synctest.Test(t, func(t *testing.T) {
		network := pipes.New()
		s := startBehind(t, network, network.Dial, path, cred.Domain{})
		acme := s.company(t, "acme")
		lives := `,"expiresAt":"` + in(time.Minute) + `"`
		began := time.Now()
		key := acme.create(t, "admin", lives)
		client := acme.do(t, "POST /v1/oauth/clients", `{"role":"reader"`+lives+`}`).status(201)
		grant := `{"grant_type":"client_credentials","client_id":"` + client.str("clientId") + `","client_secret":"` + client.str("clientSecret") + `"}`
		issue := func() *reply {
			return s.anyone().do(t, "POST /v1/oauth/token", grant, "Content-Type: application/json")
		}
		reader := acme.with(issue().gets(200, `{"access_token":"oauth_<secret>","token_type":"bearer","expires_in":60}`).str("access_token"))
		streams := make(chan time.Duration)
		for _, who := range []caller{key, reader} {
			dialer := websocket.Dialer{NetDialContext: network.Dial}
			conn, _, err := dialer.Dial("ws://pipe/v1/ws", http.Header{"Authorization": {"Bearer " + who.credential}})
			must.OK(t, err)
			go func() {
				_, _, err := conn.ReadMessage()
				var closed *websocket.CloseError
				if !errors.As(err, &closed) || closed.Code != websocket.ClosePolicyViolation {
					t.Errorf("the stream ended with %v, want 1008", err)
				}
				streams <- time.Since(began)
			}()
		}

		time.Sleep(time.Minute - time.Millisecond)
		for _, who := range []caller{key, reader} {
			who.do(t, "GET /v1/company", "").status(200)
		}
		issue().gets(200, `{"access_token":"oauth_<secret>","token_type":"bearer","expires_in":0}`)
		time.Sleep(time.Millisecond)
		for range 2 {
			if after := <-streams; after != time.Minute {
				t.Errorf("a stream ended after %v", after)
			}
		}
		for _, who := range []caller{key, reader} {
			who.do(t, "GET /v1/company", "").gets(401, `{"error":"Unauthorized"}`).sets("WWW-Authenticate: Bearer …")
			who.do(t, "GET /v1/ws", "", handshake...).status(401)
		}
		issue().gets(401, `{"error":"invalid_client"}`)
		acme.do(t, "DELETE /v1/keys/"+key.credential, "").gets(200, `{"deleted":true}`)
		acme.do(t, "DELETE /v1/oauth/clients/"+client.str("clientId"), "").gets(200, `{"deleted":true}`)
		s.stop()
	})
}

// A key that expires, or that cannot create another, may be deleted even if it is the last but one.
func TestLastAdminKeyCannotBeDeleted(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.create(t, "reader", "")
	acme.create(t, "writer", "")
	passing := acme.create(t, "admin", `,"expiresAt":"`+in(time.Hour)+`"`)
	token := acme.with(acme.clientToken(t, "admin", "").str("access_token"))
	for _, who := range []caller{acme, passing, token} {
		who.do(t, "DELETE /v1/keys/"+acme.credential, "").gets(409, `{"error":"…","code":"LAST_API_KEY"}`)
	}
	acme.do(t, "DELETE /v1/keys/"+passing.credential, "").status(200)
	second := acme.create(t, "admin", "")
	acme.do(t, "DELETE /v1/keys/"+acme.credential, "").status(200)
	second.do(t, "DELETE /v1/keys/"+second.credential, "").gets(409, `{"error":"…","code":"LAST_API_KEY"}`)
}
