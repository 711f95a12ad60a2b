package server_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"attestd/internal/testenv"
)

const (
	rotate       = "POST /v1/agents/bot/passport/rotate"
	passportName = "Service-Passport: "
)

func jti(t testing.TB, c caller, passport string) string {
	t.Helper()
	_, claims := open(t, passport, c.publicKey(t))
	return claims["jti"].(string)
}

func TestRotatePassport(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	svid := acme.agent(t, "bot")
	acme.agent(t, "other")
	globex.agent(t, "bot")
	foreign := globex.passport(t, "bot", "")
	passport := acme.passport(t, "bot", "")
	of := func(agent string) string { return acme.passport(t, agent, "") }
	revoked := of("bot")
	acme.do(t, "POST /v1/passports/"+jti(t, acme, revoked)+"/revoke", "").status(200)

	key, header := acme.privateKey(t), object{"alg": "EdDSA", "kid": acme.kid(t), "typ": "CAP+JWT"}
	_, claims := open(t, passport, acme.publicKey(t))
	with := func(changes object) string { return mint(t, key, header, but(claims, changes)) }
	own := claims["service"].(map[string]any)
	nobody := strings.TrimSuffix(claims["sub"].(string), "bot") + "nobody"
	ofNobody := with(object{"sub": nobody, "service": but(own, object{"agentId": "nobody", "delegationChain": []string{nobody}})})
	now := time.Now().Unix()
	part := strings.Split(passport, ".")

	refused := func(does, passport string, status int, gets string) row {
		return row{does: does, as: acme, call: rotate, headers: []string{passportName + passport}, status: status, gets: gets}
	}
	invalid := func(does, passport, code string) row {
		return refused(does, passport, 401, `{"error":"…","code":"`+code+`"}`)
	}
	table(t, []row{
		{does: "no passport", as: acme, call: rotate, status: 400, gets: `{"error":"Missing Service-Passport passport header"}`},
		{does: "an empty one", as: acme, call: rotate, headers: []string{"Service-Passport:"}, status: 400, gets: `{"error":"Missing Service-Passport passport header"}`},
		{does: "a passport in the body does not count", as: acme, call: rotate, body: `{"passport":"` + passport + `"}`, status: 400, gets: `{"error":"Missing Service-Passport passport header"}`},
		{does: "a stranger", as: s.anyone(), call: rotate, headers: []string{passportName + passport}, status: 401, gets: `{"error":"Unauthorized"}`, sets: []string{"WWW-Authenticate: Bearer …"}},
		invalid("no token", "x", "MALFORMED_TOKEN"),
		invalid("an SVID", svid, "WRONG_TOKEN_TYPE"),
		invalid("a changed one", part[0]+"."+part[1]+"."+strings.Split(of("bot"), ".")[2], "SIGNATURE_INVALID"),
		invalid("one by a key that nobody has", mint(t, otherKey(t), header, claims), "SIGNATURE_INVALID"),
		invalid("an expired one", with(object{"exp": now}), "TOKEN_EXPIRED"),
		invalid("one of the future", with(object{"nbf": now + 100}), "TOKEN_NOT_YET_VALID"),
		invalid("one for another audience", with(object{"aud": []string{"x"}}), "AUDIENCE_MISMATCH"),
		invalid("one that was never issued", with(object{"jti": uuid.NewString()}), "VERIFICATION_ERROR"),
		invalid("an expired one of another company", mint(t, globex.privateKey(t), but(header, object{"kid": globex.kid(t)}), but(claims, object{"exp": now})), "SIGNATURE_INVALID"),
		refused("another agent's", of("other"), 403, `{"error":"Passport does not belong to the specified agent"}`),
		refused("another company's", foreign, 403, `{"error":"Passport was not issued by the authenticated company"}`),
		// The passport is verified before the agent is looked up: only the holder of a valid
		// passport learns that the agent is not registered.
		{does: "an unknown agent with no passport", as: acme, call: "POST /v1/agents/nobody/passport/rotate", headers: []string{passportName + "x"}, status: 401, gets: `{"error":"…","code":"MALFORMED_TOKEN"}`},
		{does: "an unknown agent with another's", as: acme, call: "POST /v1/agents/nobody/passport/rotate", headers: []string{passportName + passport}, status: 403, gets: `{"error":"Passport does not belong to the specified agent"}`},
		{does: "an unknown agent with one of its own", as: acme, call: "POST /v1/agents/nobody/passport/rotate", headers: []string{passportName + ofNobody}, status: 404, gets: `{"error":"Agent not found: nobody"}`},
		refused("a revoked one", revoked, 409, `{"error":"Passport has already been revoked","code":"PASSPORT_REVOKED"}`),
		refused("after all this, the good one", passport, 200, passportShape(`["tool:*","attest:write"]`, 3600, `,"rotatedFrom":"`+jti(t, acme, passport)+`"`)),
		refused("and the good one once more", passport, 409, `{"error":"Passport has already been revoked","code":"PASSPORT_REVOKED"}`),
		{does: "the product's own header is taken too", as: acme, call: rotate, headers: []string{"Attestd-Passport: " + of("bot")}, status: 200, gets: `"<anything>"`, sets: []string{"Cache-Control: no-store"}},
	})
}

// The new passport equals the old one, with its whole lifetime again; the old one is revoked at
// once, and the new one can be rotated in turn.
func TestRotationCarriesForward(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	acme.agent(t, "bot")
	passport := acme.passport(t, "bot", `{"scopes":["tool:a","data:*"],"ttl":100}`)
	for range 3 {
		r := acme.do(t, rotate, "", passportName+passport).gets(200, passportShape(`["tool:a","data:*"]`, 100, `,"rotatedFrom":"`+jti(t, acme, passport)+`"`))
		next := r.str("passport")
		if jti(t, acme, next) == jti(t, acme, passport) {
			t.Fatal("the new passport has the old ID")
		}
		_, old := open(t, passport, acme.publicKey(t))
		_, claims := open(t, next, acme.publicKey(t))
		same(t, "namespaced claims", claims["service"], old["service"])
		checkTimes(t, claims, 100)
		acme.do(t, "POST /v1/passport/verify", `{"passport":"`+passport+`"}`).gets(400, `{"valid":false,"error":"…","code":"PASSPORT_REVOKED"}`)
		acme.do(t, "POST /v1/passport/verify", `{"passport":"`+next+`"}`).status(200)
		acme.do(t, "GET /v1/ocsp/"+jti(t, acme, passport), "").status(200)
		passport = next
	}
	acme.do(t, "GET /v1/passports/revoked", "").gets(200, `{"revoked":["<anything>","<anything>","<anything>"]}`)
}

// Of many concurrent rotations of one passport, one succeeds.
func TestRotateConcurrently(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	acme := start(t).company(t, "acme")
	acme.agent(t, "bot")
	passport := acme.passport(t, "bot", "")
	replies := make([]*reply, 20)
	var ready, done sync.WaitGroup
	ready.Add(len(replies))
	for i := range replies {
		done.Go(func() {
			ready.Done()
			ready.Wait()
			replies[i] = acme.do(t, rotate, "", passportName+passport)
		})
	}
	done.Wait()
	won := 0
	for _, r := range replies {
		if r.code == 200 {
			won++
			acme.do(t, "POST /v1/passport/verify", `{"passport":"`+r.str("passport")+`"}`).status(200)
			continue
		}
		r.gets(409, `{"error":"Passport has already been revoked","code":"PASSPORT_REVOKED"}`)
	}
	if won != 1 {
		t.Errorf("%d rotations won, want 1", won)
	}
	acme.do(t, "GET /v1/passports", "").gets(200, `{"passports":["<anything>","<anything>"]}`)
	acme.do(t, "GET /v1/passports/revoked", "").gets(200, `{"revoked":["<anything>"]}`)
}
