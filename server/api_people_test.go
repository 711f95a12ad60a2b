package server_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"attestd/crypto/passkey"
	"attestd/crypto/passkey/passkeytest"
	"attestd/internal/must"
	"attestd/store"
)

// A person opens the link of an invitation, makes a passkey, and is signed in. From then on the
// passkey alone signs in, with keys of all three algorithms.
func TestPersonSignsInWithAPasskey(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	for algorithm, id := range map[int]string{passkey.ES256: "alice", passkey.EdDSA: "bob", passkey.RS256: "carol"} {
		acme.do(t, "POST /v1/people", body(t, "personId", id, "name", id, "email", id+"@acme.example", "roles", []string{"admin"}, "groups", []string{"finance"})).status(201)
		link := acme.do(t, "POST /v1/people/"+id+"/invitations", "").status(201).str("url")
		b := s.browser(t, algorithm)
		if !strings.HasPrefix(link, b.origin+"/#/join/inv_") {
			t.Errorf("the link is %s", link)
		}
		enrolled := b.accepts(t, link).gets(201, `{"companyId":"acme","personId":"`+id+`","expiresAt":"…"}`)
		if got := enrolled.header.Get("Set-Cookie"); !strings.HasPrefix(got, "__Host-attestd-session=ses_") || !strings.HasSuffix(got, "; Path=/; Max-Age=43200; HttpOnly; Secure; SameSite=Lax") {
			t.Errorf("Set-Cookie: %s", got)
		}
		first := b.cookie
		b.asks(t, "DELETE /v1/people/me/sessions/"+b.asks(t, "GET /v1/people/me", "").status(200).str("session", "sessionId"), "").status(200)
		b.cookie = first
		b.asks(t, "GET /v1/people/me", "").status(401)
		b.cookie = ""
		b.signsIn(t).gets(200, `{"companyId":"acme","personId":"`+id+`","expiresAt":"…"}`)
		me := b.asks(t, "GET /v1/people/me", "").status(200)
		if me.str("passkeys", 0, "fingerprint") != b.Key(t).Fingerprint() || me.str("passkeys", 0, "credentialId") != b.ID() || me.str("session", "passkey") != b.ID() {
			t.Errorf("%s: %s", id, me.raw)
		}
		// an invitation counts once
		other := s.browser(t, passkey.ES256)
		_, secret, _ := strings.Cut(link, "#/join/")
		other.asks(t, "POST /v1/people/enrol/options", body(t, "invitation", secret)).gets(401, `{"error":"…","code":"INVITATION_INVALID"}`)
	}
	acme.do(t, "GET /v1/verify?log=control", "").status(200).contains(`"valid":true`)
}

// What an authenticator, a browser or a thief could say wrong, is refused, and begins no session.
func TestSignInIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	alice, bob := acme.person(t, "alice", "admin"), acme.person(t, "bob", "reader")
	options := func() *reply { return alice.asks(t, "POST /v1/people/sign-in/options", "") }
	signIn := func(credential map[string]any) *reply {
		return alice.asks(t, "POST /v1/people/sign-in", body(t, "credential", credential))
	}
	get := func(origin, rpID string) map[string]any {
		return alice.Assertion(alice.Get(t, origin, rpID, challengeOf(t, options())), alice.handle)
	}
	alice.cookie = ""
	for what, credential := range map[string]map[string]any{
		"another page":            get("http://localhost:1", "localhost"),
		"another host":            get(alice.origin, "evil.example"),
		"another origin and host": get("https://evil.example", "evil.example"),
		"the handle of another":   alice.Assertion(alice.Get(t, alice.origin, alice.rpID, challengeOf(t, options())), bob.handle),
		"the passkey of another":  alice.Assertion(bob.Get(t, alice.origin, alice.rpID, challengeOf(t, options())), alice.handle),
		"a passkey that is not known": func() map[string]any {
			unknown := passkeytest.New(t, passkey.ES256)
			return unknown.Assertion(unknown.Get(t, alice.origin, alice.rpID, challengeOf(t, options())), alice.handle)
		}(),
		"a challenge of its own":        alice.Assertion(alice.Get(t, alice.origin, alice.rpID, []byte("0123456789abcdef0123456789abcdef")), alice.handle),
		"a challenge to reauthenticate": alice.Assertion(alice.Get(t, alice.origin, alice.rpID, challengeOf(t, bob.asks(t, "POST /v1/people/me/reauthenticate/options", ""))), alice.handle),
	} {
		r := signIn(credential)
		if r.code != 401 || r.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %d %s", what, r.code, r.raw)
		}
	}
	for _, flags := range []passkey.Flags{0, passkey.UserPresent, passkey.UserVerified, passkey.UserPresent | passkey.UserVerified | passkey.BackedUp} {
		alice.Flags = flags
		signIn(get(alice.origin, alice.rpID)).gets(401, `{"error":"…","code":"PASSKEY_REFUSED"}`)
	}
	alice.Flags = passkey.UserPresent | passkey.UserVerified
	once := get(alice.origin, alice.rpID)
	signIn(once).status(200)
	alice.cookie = ""
	signIn(once).gets(401, `{"error":"…","code":"PASSKEY_CHALLENGE"}`)
	// a passkey may become one that is synced
	alice.Flags |= passkey.BackupEligible | passkey.BackedUp
	alice.signsIn(t).status(200)
	signIn(map[string]any{"id": "x"}).gets(400, `{"error":"…","code":"PASSKEY_INVALID"}`)
	// an address is no host of a passkey
	acme.do(t, "POST /v1/people/sign-in/options", "").gets(409, `{"error":"…","code":"RELYING_PARTY"}`)
	acme.do(t, "POST /v1/people/sign-in/options", "", "Host: evil.example").status(409)
}

// The cookie counts with the header of the console and an origin of ours alone, and a credential of
// the request counts in its place.
func TestCookieOfASessionCounts(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme, zoo := s.company(t, "acme"), s.company(t, "zoo")
	alice := acme.person(t, "alice", "admin")
	alice.asks(t, "GET /v1/company", "").status(200).contains(`"companyId":"acme"`)
	for what, headers := range map[string][]string{
		"without the header":             {"X-Attestd-Console: "},
		"with another value of it":       {"X-Attestd-Console: 2"},
		"of a page elsewhere":            {"Origin: https://evil.example"},
		"of a page on another port":      {"Origin: http://localhost:1"},
		"of the same port by an address": {"Origin: " + s.url},
		"of no page":                     {"Origin: null"},
		"under another name":             {"Host: evil.example"},
	} {
		if r := alice.asks(t, "GET /v1/company", "", headers...); r.code != 401 && r.code != 403 {
			t.Errorf("%s: %d", what, r.code)
		}
		if r := alice.asks(t, "POST /v1/agents/register", `{"agentId":"x"}`, headers...); r.code != 401 && r.code != 403 {
			t.Errorf("%s, POST: %d", what, r.code)
		}
	}
	alice.asks(t, "POST /v1/agents/register", `{"agentId":"x"}`, "Origin: ").status(401)
	alice.asks(t, "GET /v1/company", "", "Authorization: Bearer "+zoo.credential).status(200).contains(`"companyId":"zoo"`)
	alice.asks(t, "GET /v1/company", "", "Authorization: Bearer wrong").status(401)
	alice.asks(t, "GET /v1/company", "", "Cookie: "+alice.cookie+"; "+alice.cookie).status(401)
	zoo.do(t, "GET /v1/people/alice", "").status(404)
	zoo.do(t, "GET /v1/people/me", "").gets(403, `{"error":"…","code":"PERSON_REQUIRED"}`)
	// nobody signs in to a session that somebody else has chosen
	bob := acme.person(t, "bob", "reader")
	before := alice.cookie
	bob.cookie = before
	bob.signsIn(t).status(200)
	if bob.cookie == before {
		t.Error("a session was fixed")
	}
	alice.asks(t, "GET /v1/people/me", "").status(200).contains(`"personId":"alice"`)
}

// Sessions end: by signing out, everywhere at once, with the passkey, and with the person.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	alice := acme.person(t, "alice", "admin")
	elsewhere := *alice
	elsewhere.signsIn(t).status(200)
	if n := len(alice.asks(t, "GET /v1/people/me/sessions", "").status(200).at("sessions").([]any)); n != 2 {
		t.Errorf("%d sessions", n)
	}
	alice.asks(t, "DELETE /v1/people/me/sessions/unknown", "").status(404)
	cookie := alice.cookie
	alice.asks(t, "DELETE /v1/people/me/sessions", "").gets(200, `{"deleted":true}`)
	if alice.cookie != "" {
		t.Error("the cookie stays")
	}
	alice.cookie = cookie
	alice.asks(t, "GET /v1/company", "").status(401)
	elsewhere.asks(t, "GET /v1/company", "").status(401)
	acme.do(t, "PATCH /v1/people/alice", `{"disabled":true}`).gets(409, `{"error":"…","code":"LAST_ADMIN"}`)
	acme.do(t, "PATCH /v1/people/alice", `{"roles":["reader"]}`).gets(409, `{"error":"…","code":"LAST_ADMIN"}`)
	acme.do(t, "DELETE /v1/people/alice", "").gets(409, `{"error":"…","code":"LAST_ADMIN"}`)
	acme.do(t, "DELETE /v1/people/alice/passkeys/"+alice.ID(), "").gets(409, `{"error":"…","code":"LAST_ADMIN"}`)
	acme.person(t, "bob", "admin")
	alice.signsIn(t).status(200)
	acme.do(t, "PATCH /v1/people/alice", `{"disabled":true}`).status(200)
	alice.asks(t, "GET /v1/company", "").status(401)
	alice.cookie = ""
	alice.signsIn(t).gets(401, `{"error":"…","code":"PASSKEY_REFUSED"}`)
	acme.do(t, "PATCH /v1/people/alice", `{"disabled":false}`).status(200)
	alice.signsIn(t).status(200)
	acme.do(t, "DELETE /v1/people/alice/passkeys/"+alice.ID(), "").status(200)
	alice.asks(t, "GET /v1/company", "").status(401)
	carol := acme.person(t, "carol", "reader")
	acme.do(t, "DELETE /v1/people/carol", "").status(200)
	carol.asks(t, "GET /v1/company", "").status(401)
	// whoever is made under the same ID is somebody else
	carol.caller = acme
	acme.do(t, "POST /v1/people", `{"personId":"carol","name":"Another","roles":["admin"]}`).status(201)
	carol.caller = s.anyone()
	carol.asks(t, "GET /v1/company", "").status(401)
	acme.do(t, "GET /v1/verify?log=control", "").status(200).contains(`"valid":true`)
}

// Without a request for an hour, and after twelve hours, a session has ended. A change of rights
// wants an assertion of the last five minutes.
func TestSessionsEndByTime(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	alice := acme.person(t, "alice", "admin")
	hash := sessionHash(alice.cookie)
	began := time.Now()
	by := func(after time.Duration, touch bool) (store.Caller, error) {
		return s.store.People.Session(t.Context(), hash, began.Add(after), touch)
	}
	who, err := by(59*time.Minute, false)
	must.OK(t, err)
	if !errors.Is(who.Fresh(), store.ErrReauthenticate) {
		t.Error("an assertion counts after an hour")
	}
	if _, err := by(61*time.Minute, false); err == nil {
		t.Error("it lives after an hour")
	}
	for at := 50 * time.Minute; at < 12*time.Hour-time.Minute; at += 50 * time.Minute {
		_, err := by(at, true)
		must.OK(t, err)
	}
	_, err = by(12*time.Hour-time.Minute, true)
	must.OK(t, err)
	if _, err := by(12*time.Hour, false); err == nil {
		t.Error("it lives after twelve hours")
	}
}

// A person's change names the person, how signed in and which passkey. Later than five minutes
// after the last assertion it is refused before anything happens, and so is what shows secrets.
func TestChangesOfPeople(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	alice, rita := acme.person(t, "alice", "admin"), acme.person(t, "rita", "reader")
	alice.asks(t, "POST /v1/agents/register", `{"agentId":"bot"}`).status(201)
	records := acme.do(t, "GET /v1/records?log=control&order=newest&limit=1", "").status(200)
	payload := string(records.raw)
	for _, want := range []string{`"by":"person:alice"`, `"signedIn":"passkey"`, `"passkey":"` + alice.ID() + `"`} {
		if !strings.Contains(payload, want) {
			t.Errorf("the record lacks %s: %s", want, payload)
		}
	}
	rita.asks(t, "POST /v1/agents/register", `{"agentId":"no"}`).gets(403, `{"error":"…","code":"FORBIDDEN_ROLE"}`)
	rita.asks(t, "GET /v1/agents", "").status(200)
	s.age(t, alice)
	for _, call := range []string{"POST /v1/agents/register", "POST /v1/keys", "GET /v1/keys", "POST /v1/agents/bot/token", "GET /v1/agents/bot/svid", "DELETE /v1/people/rita", "POST /v1/companies/svid", "POST /v1/people/rita/invitations"} {
		sent := ""
		if call == "POST /v1/agents/register" {
			sent = `{"agentId":"later"}`
		}
		alice.asks(t, call, sent).gets(403, `{"error":"…","code":"REAUTHENTICATE"}`)
	}
	alice.asks(t, "GET /v1/agents", "").status(200)
	// another passkey is a change of rights
	second := *alice
	second.Authenticator = passkeytest.New(t, passkey.EdDSA)
	made := second.creates(t, alice.asks(t, "POST /v1/people/me/passkeys/options", ""))
	alice.asks(t, "POST /v1/people/me/passkeys", body(t, "credential", made)).gets(403, `{"error":"…","code":"REAUTHENTICATE"}`)
	// of another person's passkey it is none
	theirs := rita.signs(t, alice.asks(t, "POST /v1/people/me/reauthenticate/options", ""))
	alice.asks(t, "POST /v1/people/me/reauthenticate", body(t, "credential", theirs)).gets(401, `{"error":"…","code":"PASSKEY_REFUSED"}`)
	alice.reauthenticates(t).gets(200, `{"until":"…"}`)
	alice.asks(t, "POST /v1/people/me/passkeys", body(t, "credential", made)).status(201)
	second.signsIn(t).status(200)
	alice.asks(t, "DELETE /v1/people/me/passkeys/"+second.ID(), "").status(200)
	second.cookie = ""
	second.signsIn(t).status(401)
}

// Where a company lets only people change rights, its keys change none, and agents go on.
func TestOnlyPeopleChange(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.do(t, "PUT /v1/company/policy", `{"changes":"people"}`).gets(403, `{"error":"…","code":"PERSON_REQUIRED"}`)
	alice := acme.person(t, "alice", "admin")
	bot := acme.signer(t, "bot", "ES256")
	alice.asks(t, "PUT /v1/company/policy", `{"changes":"people"}`).status(200).contains(`"changes":"people"`)
	for _, call := range []string{"POST /v1/keys", "POST /v1/agents/bot/passport", "POST /v1/agents/bot/disable", "POST /v1/people/alice/invitations", "POST /v1/companies/rotate-keys"} {
		acme.do(t, call, "").gets(403, `{"error":"…","code":"PERSON_REQUIRED"}`)
	}
	acme.do(t, "PUT /v1/company/policy", `{"changes":"any"}`).gets(403, `{"error":"…","code":"PERSON_REQUIRED"}`)
	bot.signsIn(t)
	acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"x","payload":{}}`).status(201)
	alice.asks(t, "POST /v1/agents/bot/passport", "").status(201)
	alice.asks(t, "PUT /v1/company/policy", `{"changes":"any"}`).status(200).contains(`"changes":"any"`)
	acme.do(t, "POST /v1/keys", "").status(201)
}

// The first person of a database names the company, and makes it with the passkey.
func TestFirstPerson(t *testing.T) {
	t.Parallel()
	s := start(t)
	secret, err := s.store.People.OfferSetup(t.Context(), time.Now().Add(time.Hour))
	must.OK(t, err)
	b := s.browser(t, passkey.ES256)
	b.asks(t, "POST /v1/people/enrol/options", body(t, "invitation", secret)).gets(400, `{"error":"…","code":"COMPANY_REQUIRED"}`)
	named := []any{"invitation", secret, "companyId", "acme", "personId", "alice", "name", "Alice"}
	made := b.creates(t, b.asks(t, "POST /v1/people/enrol/options", body(t, named...)))
	b.asks(t, "POST /v1/people/enrol", body(t, append(named, "credential", made)...)).status(201).contains(`"companyId":"acme","personId":"alice"`)
	b.asks(t, "POST /v1/agents/register", `{"agentId":"bot"}`).status(201)
	b.asks(t, "GET /v1/verify?log=control", "").status(200).contains(`"valid":true`)
	other := s.browser(t, passkey.ES256)
	named[3] = "zoo"
	other.asks(t, "POST /v1/people/enrol/options", body(t, named...)).gets(401, `{"error":"…","code":"INVITATION_INVALID"}`)
	if secret, err := s.store.People.OfferSetup(t.Context(), time.Now().Add(time.Hour)); err != nil || secret != "" {
		t.Errorf("a second company is offered: %v", err)
	}
}
