package server_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"attestd/crypto/keys"
	"attestd/crypto/passkey"
	"attestd/crypto/passkey/passkeytest"
	"attestd/internal/must"
	"attestd/store"
)

// browser is a browser with one person's authenticator, at the console of a service under the name
// localhost. It does what the console's page does.
type browser struct {
	caller
	*passkeytest.Authenticator
	origin, rpID string // what it tells the authenticator and the service
	handle       string // user handle of the passkey
	cookie       string // of the session, as in Cookie; "" for none
	account      string // the same, while it is away at the identity provider
}

// browser opens the console of a service, as nobody yet.
func (s *service) browser(t testing.TB, algorithm int) *browser {
	t.Helper()
	u, err := url.Parse(s.url)
	must.OK(t, err)
	_, port, err := net.SplitHostPort(u.Host)
	must.OK(t, err)
	return &browser{caller: s.anyone(), Authenticator: passkeytest.New(t, algorithm), origin: "http://localhost:" + port, rpID: "localhost"}
}

// asks sends a request as the page does: with its origin, its host, the cookie, and the header of
// the console. more replaces headers of these.
func (b *browser) asks(t testing.TB, call, body string, more ...string) *reply {
	t.Helper()
	headers := map[string]string{"Host": strings.TrimPrefix(b.origin, "http://"), "X-Attestd-Console": "1", "Cookie": b.cookie}
	if b.account != "" {
		headers["Cookie"] = strings.TrimPrefix(b.cookie+"; "+b.account, "; ")
	}
	if !strings.HasPrefix(call, "GET ") {
		headers["Origin"] = b.origin
	}
	for _, h := range more {
		name, value, _ := strings.Cut(h, ": ")
		headers[name] = value
	}
	var list []string
	for name, value := range headers {
		if value != "" {
			list = append(list, name+": "+value)
		}
	}
	r := b.do(t, call, body, list...)
	for _, c := range (&http.Response{Header: r.header}).Cookies() {
		of := &b.cookie
		if c.Name == "__Host-attestd-account" {
			of = &b.account
		}
		*of = c.Name + "=" + c.Value
		if c.MaxAge < 0 {
			*of = ""
		}
	}
	return r
}

// challengeOf is the challenge of options.
func challengeOf(t testing.TB, options *reply) []byte {
	t.Helper()
	challenge, err := base64.RawURLEncoding.DecodeString(options.status(200).str("publicKey", "challenge"))
	must.OK(t, err)
	return challenge
}

// creates makes the passkey by options, and returns what the page sends of it.
func (b *browser) creates(t testing.TB, options *reply) map[string]any {
	t.Helper()
	challenge := challengeOf(t, options)
	b.handle = options.str("publicKey", "user", "id")
	return b.Registration(b.Create(t, b.origin, b.rpID, challenge))
}

// signs signs the challenge of options, and returns what the page sends of it.
func (b *browser) signs(t testing.TB, options *reply) map[string]any {
	t.Helper()
	return b.Assertion(b.Get(t, b.origin, b.rpID, challengeOf(t, options)), b.handle)
}

func body(t testing.TB, pairs ...any) string {
	t.Helper()
	members := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		members[pairs[i].(string)] = pairs[i+1]
	}
	text, err := json.Marshal(members)
	must.OK(t, err)
	return string(text)
}

// accepts uses an invitation, whose link it has opened.
func (b *browser) accepts(t testing.TB, link string) *reply {
	t.Helper()
	_, secret, _ := strings.Cut(link, "#/join/")
	made := b.creates(t, b.asks(t, "POST /v1/people/enrol/options", body(t, "invitation", secret)))
	return b.asks(t, "POST /v1/people/enrol", body(t, "invitation", secret, "credential", made))
}

func (b *browser) signsIn(t testing.TB) *reply {
	t.Helper()
	return b.asks(t, "POST /v1/people/sign-in", body(t, "credential", b.signs(t, b.asks(t, "POST /v1/people/sign-in/options", ""))))
}

func (b *browser) reauthenticates(t testing.TB) *reply {
	t.Helper()
	return b.asks(t, "POST /v1/people/me/reauthenticate", body(t, "credential", b.signs(t, b.asks(t, "POST /v1/people/me/reauthenticate/options", ""))))
}

// person makes a person with a role, who is signed in by a passkey.
func (c caller) person(t testing.TB, id, role string) *browser {
	t.Helper()
	c.do(t, "POST /v1/people", body(t, "personId", id, "name", "Person "+id, "roles", []string{role})).status(201)
	b := c.browser(t, passkey.ES256)
	b.accepts(t, c.do(t, "POST /v1/people/"+id+"/invitations", "").status(201).str("url")).status(201)
	return b
}

// sessionHash is by which the store knows a session.
func sessionHash(cookie string) [32]byte {
	_, secret, _ := strings.Cut(cookie, "=")
	return keys.HashSecret(secret)
}

// age has the person signed in by an assertion of ten minutes ago.
func (s *service) age(t testing.TB, b *browser) {
	t.Helper()
	before := time.Now().Add(-10 * time.Minute)
	k, by, err := s.store.People.FindPasskey(t.Context(), b.ID(), before)
	must.OK(t, err)
	challenge := store.UsedProof{Name: sha256.Sum256([]byte(b.cookie)), Ends: before.Add(time.Minute)}
	secret, err := s.store.People.SignIn(t.Context(), by, k, challenge, store.NewSession{SignedIn: store.ByPasskey})
	must.OK(t, err)
	b.cookie = "__Host-attestd-session=" + secret
}

// personOf makes a person with a role and a passkey that nobody holds, who is signed in: for what
// does not sign.
func (c caller) personOf(t testing.TB, id, role string) (credentialID, session string) {
	t.Helper()
	c.do(t, "POST /v1/people", body(t, "personId", id, "name", id, "roles", []string{role})).status(201)
	by, err := c.store.Credentials.Authenticate(t.Context(), keys.HashSecret(c.credential), time.Now())
	must.OK(t, err)
	by.Person, by.Credential, by.Reauthenticated = id, "person:"+id, by.At
	name := keys.HashSecret("passkey of " + id + " of " + c.id)
	e := store.PasskeyEnrolment{
		Passkey: store.Passkey{CredentialID: base64.RawURLEncoding.EncodeToString(name[:16]), Algorithm: passkey.ES256}, RPID: "localhost", Session: &store.NewSession{SignedIn: store.ByPasskey},
		Challenge: keys.HashSecret(c.id + id), Ends: by.At.Add(time.Minute),
	}
	k, err := c.store.People.Enrol(t.Context(), by, e)
	must.OK(t, err)
	return k.CredentialID, e.Session.Secret
}
