package server_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
)

func TestRevoke(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	acme.agent(t, "bot")
	var ids, passports [4]string
	for i := range ids {
		passports[i] = acme.passport(t, "bot", "")
		ids[i] = jti(t, acme, passports[i])
	}
	const unknown = `{"error":"…","code":"PASSPORT_NOT_FOUND"}`
	revoke := func(id string) string { return "POST /v1/passports/" + id + "/revoke" }
	table(t, []row{
		{does: "nothing is revoked at first", as: acme, call: "GET /v1/passports/revoked", status: 200, gets: `{"revoked":[]}`},
		{does: "with a reason", as: acme, call: revoke(ids[2]), body: `{"reason":"lost \u00fc"}`, status: 200, gets: `{"jti":"` + ids[2] + `","revokedAt":"<time>","reason":"lost ü"}`},
		{does: "without a body", as: acme, call: revoke(ids[0]), status: 200, gets: `{"jti":"` + ids[0] + `","revokedAt":"<time>"}`},
		{does: "with a null reason", as: acme, call: revoke(ids[1]), body: `{"reason":null}`, status: 200, gets: `{"jti":"` + ids[1] + `","revokedAt":"<time>"}`},
		{does: "a second time", as: acme, call: revoke(ids[2]), body: `{"reason":"another"}`, status: 409, gets: `{"error":"Passport is already revoked"}`},
		{does: "no ID", as: acme, call: "POST /v1/passports//revoke", status: 400, gets: `{"error":"Missing passport ID"}`},
		{does: "no ID, and a stranger", as: s.anyone(), call: "POST /v1/passports//revoke", status: 401, gets: `{"error":"Unauthorized"}`},
		{does: "a blank for an ID", as: acme, call: revoke("%20"), status: 400, gets: `{"error":"Missing passport ID"}`},
		{does: "an ID that nobody issued", as: acme, call: revoke("00000000-0000-4000-8000-000000000000"), status: 404, gets: unknown},
		{does: "an ID that is none", as: acme, call: revoke("x"), status: 404, gets: unknown},
		{does: "another company's passport", as: globex, call: revoke(ids[3]), status: 404, gets: unknown},
		{does: "a reason that is a number", as: acme, call: revoke(ids[3]), body: `{"reason":1}`, status: 400, gets: `{"error":"…reason…"}`},
		{does: "a body that is not JSON", as: acme, call: revoke(ids[3]), body: `reason`, status: 400, gets: `{"error":"…"}`},
		{does: "something after the body", as: acme, call: revoke(ids[3]), body: `{} {}`, status: 400, gets: `{"error":"…"}`},
		{does: "a stranger", as: s.anyone(), call: revoke(ids[3]), status: 401, gets: `{"error":"Unauthorized"}`, sets: []string{"WWW-Authenticate: Bearer …"}},
		{does: "all that left the passport as it was", as: acme, call: "POST /v1/passport/verify", body: `{"passport":"` + passports[3] + `"}`, status: 200, gets: `"<anything>"`},
		{
			does: "the list in the order of revocation", as: acme, call: "GET /v1/passports/revoked", status: 200,
			gets: `{"revoked":[{"jti":"` + ids[2] + `","revokedAt":"<time>","reason":"lost ü"},{"jti":"` + ids[0] + `","revokedAt":"<time>"},{"jti":"` + ids[1] + `","revokedAt":"<time>"}]}`,
		},
		{does: "the list for a stranger", as: s.anyone(), call: "GET /v1/passports/revoked", status: 401, gets: `{"error":"Unauthorized"}`, sets: []string{"WWW-Authenticate: Bearer …"}},
		{does: "the list of another company", as: globex, call: "GET /v1/passports/revoked", status: 200, gets: `{"revoked":[]}`},
	})
}

// A revocation affects the very next check, of every kind.
func TestRevocationCountsAtOnce(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	acme := start(t).company(t, "acme")
	acme.agent(t, "bot")
	for range 10 {
		passport := acme.passport(t, "bot", "")
		id := jti(t, acme, passport)
		acme.do(t, "POST /v1/passport/verify", `{"passport":"`+passport+`"}`).status(200)
		acme.do(t, "POST /v1/passports/"+id+"/revoke", "").status(200)
		acme.do(t, "POST /v1/passport/verify", `{"passport":"`+passport+`"}`).gets(400, `{"valid":false,"error":"…","code":"PASSPORT_REVOKED"}`)
		acme.do(t, rotate, "", passportName+passport).gets(409, `{"error":"…","code":"PASSPORT_REVOKED"}`)
		if status := acme.do(t, "GET /v1/ocsp/"+id, "").status(200).str("status"); status != "revoked" {
			t.Errorf("status %q", status)
		}
	}
}

// An OCSP answer is signed as the specification requires, in all three of its forms.
func TestOCSP(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	acme.agent(t, "bot")
	issue := func() string { return jti(t, acme, acme.passport(t, "bot", "")) }
	valid, revoked, reasoned := issue(), issue(), issue()
	acme.do(t, "POST /v1/passports/"+revoked+"/revoke", "").status(200)
	acme.do(t, "POST /v1/passports/"+reasoned+"/revoke", `{"reason":"<b> & \"\u2028\""}`).status(200)

	expired := acme.expiredPassport(t)

	const ends = `"caPublicKey":"<pem>","signature":"<signature>"}`
	const cached, never = "Cache-Control: public, max-age=300", "Cache-Control: no-store"
	for _, c := range []struct {
		does, jti, gets, cache string
		as                     caller
	}{
		{"a valid passport", valid, `{"jti":"` + valid + `","companyId":"acme","status":"valid","checkedAt":"<time>",`, cached, acme},
		{"a revoked one", revoked, `{"jti":"` + revoked + `","companyId":"acme","status":"revoked","checkedAt":"<time>","revokedAt":"<time>",`, cached, acme},
		{"one revoked for a reason", reasoned, `{"jti":"` + reasoned + `","companyId":"acme","status":"revoked","checkedAt":"<time>","revokedAt":"<time>","reason":"LESSb> & \"\u2028\"",`, cached, acme},
		{"one that has only expired", expired, `{"jti":"` + expired + `","companyId":"acme","status":"valid","checkedAt":"<time>",`, cached, acme},
		{"one that nobody issued", "00000000-0000-4000-8000-000000000000", `{"jti":"00000000-0000-4000-8000-000000000000","companyId":"acme","status":"unknown","checkedAt":"<time>",`, never, acme},
		{"what is no ID at all", "x%20%C3%BC%22", `{"jti":"x ü\"","companyId":"acme","status":"unknown","checkedAt":"<time>",`, never, acme},
		{"another company's passport", valid, `{"jti":"` + valid + `","companyId":"globex","status":"unknown","checkedAt":"<time>",`, never, globex},
	} {
		t.Run(c.does, func(t *testing.T) {
			r := c.as.do(t, "GET /v1/ocsp/"+c.jti, "").gets(200, strings.ReplaceAll(c.gets, "LESS", `\u003c`)+ends).sets(c.cache)
			var signed map[string]json.RawMessage
			r.into(&signed)
			delete(signed, "caPublicKey")
			delete(signed, "signature")
			digest := sha256.Sum256([]byte(canonical(t, toJSON(t, signed))))
			signature, err := b64.DecodeString(r.str("signature"))
			must.OK(t, err)
			key := readPEM(t, r.str("caPublicKey"))
			if !key.Equal(c.as.publicKey(t)) {
				t.Error("caPublicKey is not the company's key")
			}
			if !ed25519.Verify(key, digest[:], signature) {
				t.Error("the signature does not verify")
			}
		})
	}
	s.anyone().do(t, "GET /v1/ocsp/"+valid, "").gets(401, `{"error":"Unauthorized"}`).sets("WWW-Authenticate: Bearer …", never)
}

// expiredPassport returns the ID of a passport of bot that was issued a day ago for an hour.
func (c caller) expiredPassport(t testing.TB) string {
	t.Helper()
	company, err := c.store.Companies.Get(t.Context(), c.id)
	must.OK(t, err)
	then := time.Now().Add(-24 * time.Hour).Unix()
	p := store.Passport{JTI: uuid.NewString(), AgentID: "bot", Scopes: []string{"*"}, IssuedAt: then, ExpiresAt: then + 3600}
	must.OK(t, c.store.Passports.Record(t.Context(), store.Caller{Company: company, At: time.Now()}, p))
	return p.JTI
}

// As an addition to the specification, passports are listed in pages, newest first.
func TestListPassports(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.do(t, "GET /v1/passports", "").gets(200, `{"passports":[]}`)
	acme.agent(t, "bot")
	var want []string
	for range 5 {
		want = append(want, jti(t, acme, acme.passport(t, "bot", `{"scopes":["*"],"ttl":60}`)))
	}
	slices.Reverse(want)
	var seen []string
	for cursor := ""; ; {
		r := acme.do(t, "GET /v1/passports?limit=2"+cursor, "").status(200)
		for i := range r.at("passports").([]any) {
			seen = append(seen, r.str("passports", i, "jti"))
		}
		next, more := r.json.(map[string]any)["next"]
		if !more || len(seen) > 10 {
			break
		}
		cursor = "&cursor=" + next.(string)
	}
	if !slices.Equal(seen, want) {
		t.Errorf("the pages gave %v, want %v", seen, want)
	}
	expired := acme.expiredPassport(t)
	last := acme.do(t, "GET /v1/passports", "").status(200).at("passports").([]any)[5]
	same(t, "the oldest", last, `{"jti":"`+expired+`","agentId":"bot","scopes":["*"],"issuedAt":"<time>","expiresAt":"<time>","status":"expired"}`)
	acme.do(t, "POST /v1/passports/"+want[0]+"/revoke", `{"reason":"x"}`).status(200)
	acme.do(t, "GET /v1/passports?limit=1", "").gets(200, `{"passports":[{"jti":"`+want[0]+`","agentId":"bot","scopes":["*"],"issuedAt":"<time>","expiresAt":"<time>",
		"status":"revoked","revokedAt":"<time>","reason":"x"}],"next":"…"}`)
	for query, n := range map[string]int{"agent=bot": 6, "agent=nobody": 0, "status=valid": 4, "status=expired": 1, "status=revoked&agent=bot": 1, "status=revoked&agent=b": 0} {
		if found := acme.do(t, "GET /v1/passports?"+query, "").status(200).at("passports").([]any); len(found) != n {
			t.Errorf("%s: %d passports, want %d", query, len(found), n)
		}
	}
	acme.do(t, "GET /v1/passports?status=active", "").gets(400, `{"error":"Invalid query parameter: status must be valid, revoked or expired"}`)
	for _, query := range []string{"limit=0", "limit=1001", "limit=x", "cursor=x", "cursor=-1"} {
		acme.do(t, "GET /v1/passports?"+query, "").gets(400, `{"error":"…`+query[:5]+`…"}`)
	}
	s.anyone().do(t, "GET /v1/passports", "").gets(401, `{"error":"Unauthorized"}`)
}
