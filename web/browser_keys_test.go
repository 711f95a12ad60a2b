package web_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"attestd/internal/testenv"
)

// An admin rotates the company's key on the page of keys. After a question that describes the
// effect, the new fingerprint is shown with instructions for those who pinned the old one. Earlier
// tokens remain valid, or become invalid if the key was declared compromised.
func TestBrowserRotatesTheKey(t *testing.T) {
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 2)
	s.api("POST", "/v1/agents/register", key, map[string]any{"agentId": "bot"})
	passport := map[string]any{"passport": s.api("POST", "/v1/agents/bot/passport", key, nil)["passport"]}
	published := func() string {
		return s.api("GET", "/v1/ca/public-key?companyId=acme", "", nil)["fingerprint"].(string)
	}
	var asked atomic.Int64
	base := lie(t, s, func(path string, answer []byte) []byte {
		if path == "/v1/credentials" {
			asked.Add(1)
		}
		return answer
	})
	b := openBrowser(t, base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/start")
	b.shows(`[data-overview="ready"]`)
	asked.Store(0)
	b.goTo("#/keys")
	b.shows(`[aria-label="Signing key"] dl`)
	b.shows(`tr[data-key-label="bootstrap"]`)
	if n := asked.Load(); n != 1 {
		t.Errorf("the page asks %d times for the credentials", n)
	}

	first := published()
	b.reads(`[aria-label="Signing key"] dl`, first)
	b.press("Rotate key")
	b.reads(`dialog[open]`, "its tokens verify until they expire")
	b.press("Cancel")
	b.wait(`!document.querySelector('dialog')`)
	if published() != first {
		t.Fatal("the key is another one after Cancel")
	}
	b.press("Rotate key")
	b.press("Rotate now")
	b.shows(`[data-rotated="ordinary"]`)
	second := published()
	if second == first {
		t.Fatal("the key is the same after a rotation")
	}
	b.reads(`[data-rotated]`, second)
	b.reads(`[aria-label="Signing key"] .notice`, "A new key signs from record 2 on. Anyone who pinned the fingerprint of the old key must pin the new one.")
	// for it follows from the one that was
	b.reads(`[aria-label="Signing key"] .badge`, "confirmed by you")
	s.api("POST", "/v1/passport/verify", key, passport)

	b.press("Declare compromised")
	b.reads(`dialog[open]`, "is rejected at once")
	b.press("Rotate and reject its tokens")
	b.shows(`[data-rotated="compromised"]`)
	third := published()
	b.reads(`[data-rotated]`, third)
	b.reads(`[aria-label="Signing key"] .notice`, "No token signed before it is accepted any more.")
	if _, err := s.try("POST", "/v1/passport/verify", key, passport); err == nil || !strings.Contains(err.Error(), "SIGNATURE_INVALID") || third == second {
		t.Errorf("the passport of a compromised key: %v", err)
	}
	s.attest(key, 1)
	for _, hash := range []string{"#/chain/1", "#/chain/2"} {
		b.goTo(hash)
		b.shows(`dialog [data-check="ok"]`)
	}
}

// A reader is offered no rotation, and a user who may rotate sees no key that the server does not
// prove.
func TestBrowserRotationByOthers(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	reader := s.api("POST", "/v1/keys", key, map[string]any{"label": "audit", "role": "reader"})["key"].(string)
	b := openBrowser(t, s.base)
	b.signIn(reader)
	b.goTo("#/keys")
	b.reads(`.notice`, "needs a credential of the role admin")
	if eval[bool](b, `document.querySelector('[aria-label="Signing key"]') !== null`) {
		t.Error("a reader is offered a rotation")
	}

	base := lie(t, s, func(path string, answer []byte) []byte {
		if path == "/v1/companies/rotate-keys" {
			return []byte(`{"fingerprint":"SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","index":0}`)
		}
		return answer
	})
	other := openBrowser(t, base)
	other.signIn(key)
	other.goTo("#/keys")
	other.press("Rotate key")
	other.press("Rotate now")
	other.reads(`[aria-label="Signing key"] [role="alert"]`, "does not prove")
	if eval[bool](other, `document.querySelector('[data-rotated]') !== null`) {
		t.Error("a fingerprint that nothing proves is shown to be pinned")
	}
}

// credential returns the service's entry for the credential with a label, or for the only OAuth
// client.
func (s *service) credential(key, label string) map[string]any {
	s.t.Helper()
	for _, c := range s.api("GET", "/v1/credentials", key, nil)["credentials"].([]any) {
		if c := c.(map[string]any); c["label"] == label || label == "" && c["kind"] == "oauthClient" {
			return c
		}
	}
	s.t.Fatalf("there is no credential %q", label)
	return nil
}

// choose chooses an option of a select.
func (b *browser) choose(name, value string) {
	b.t.Helper()
	b.shows(`select[name="` + name + `"]`)
	eval[bool](b, `(() => { const s = document.querySelector('select[name="`+name+`"]'); s.value = '`+value+`'; return s.dispatchEvent(new Event('change')); })()`)
}

// Keys and clients are listed by role, expiry, maker and last use without their secrets: the page
// asks for none before a key is revealed, and none is ever in a URL. What has expired, and what was
// unused for long, is marked; filters and order are in the URL.
func TestBrowserKeysByUse(t *testing.T) {
	s := startService(t, "", "")
	key := s.company("acme")
	ci := s.api("POST", "/v1/keys", key, map[string]any{"label": "ci"})["key"].(string)
	secret := s.api("POST", "/v1/keys", ci, map[string]any{"label": "old", "role": "writer", "expiresAt": "2126-04-01T00:00:00.000Z"})["key"].(string)
	s.api("POST", "/v1/keys", ci, map[string]any{"label": "forgotten", "role": "writer", "expiresAt": "2126-05-01T00:00:00.000Z"})
	s.api("POST", "/v1/oauth/clients", ci, map[string]any{"role": "reader"})
	var asked atomic.Int64
	// the times that no test can wait for
	base := lie(t, s, func(path string, answer []byte) []byte {
		switch path {
		case "/v1/keys":
			asked.Add(1)
		case "/v1/credentials":
			text := strings.Replace(string(answer), `"expiresAt":"2126-04-01T`, `"expiresAt":"2026-03-01T`, 1)
			return []byte(strings.Replace(text, `"role":"writer","expiresAt":"2126-05-01T`, `"lastUsedAt":"2026-01-02T00:00:00.000Z","role":"writer","expiresAt":"2126-05-01T`, 1))
		}
		return answer
	})
	b := openBrowser(t, base)
	b.signIn(key)
	b.goTo("#/keys")
	b.shows(`[data-shown="5"]`)
	b.reads(`tr[data-key-label="bootstrap"]`, "in use here")
	b.reads(`tr[data-key-label="bootstrap"] [data-label="Derived"]`, "4")
	b.reads(`tr[data-key-label="old"] .badge.mark`, "expired")
	b.reads(`tr[data-key-label="old"] [data-label="Created"]`, "by ci")
	b.reads(`tr[data-key-label="forgotten"] .badge.mark`, "unused for 30 days")
	b.reads(`tr[data-kind="oauthClient"] [data-label="Last used"]`, "never used")
	if n := eval[int](b, `document.querySelectorAll('.credentials .ok').length`); n > 0 {
		t.Errorf("%d things that the server says are green", n)
	}
	if page := eval[string](b, `document.documentElement.outerHTML`); asked.Load() > 0 || strings.Contains(page, secret) || strings.Contains(page, key) {
		t.Error("the page has a secret before it is revealed")
	}
	names := func() string {
		return eval[string](b, `[...document.querySelectorAll('.credentials tbody tr')].map((tr) => tr.dataset.keyLabel ?? 'client').join(' ')`)
	}
	for _, step := range []struct{ field, value, want string }{
		{"sort", "use", "old client forgotten bootstrap ci"},
		{"sort", "expiry", "old forgotten bootstrap ci client"},
		{"sort", "role", "bootstrap ci old forgotten client"},
		{"maker", s.credential(key, "ci")["fingerprint"].(string), "old forgotten client"},
		{"state", "unused", "forgotten"},
		{"state", "expired", "old"},
		{"state", "", "old forgotten client"},
		{"byRole", "writer", "old forgotten"},
		{"kind", "oauthClient", ""},
	} {
		b.choose(step.field, step.value)
		b.wait(`[...document.querySelectorAll('.credentials tbody tr')].map((tr) => tr.dataset.keyLabel ?? 'client').join(' ') === ` + jsString(step.want))
		if got := names(); got != step.want {
			t.Errorf("%s=%s shows %q, want %q", step.field, step.value, got, step.want)
		}
	}
	b.goTo("#/keys?state=expired&role=writer")
	b.shows(`[data-shown="1"] `)
	eval[bool](b, `(document.querySelector('tr[data-key-label="old"] [aria-pressed="false"]').click(), true)`)
	b.reads(`tr[data-key-label="old"] .value`, secret)
	eval[bool](b, `(document.querySelector('tr[data-key-label="old"] [aria-pressed="true"]').click(), true)`)
	b.wait(`!document.body.innerHTML.includes(` + jsString(secret) + `)`)
	if address := eval[string](b, `location.href`); strings.Contains(address, secret) {
		t.Error("a secret is in the URL")
	}
}

// The page of a credential shows what it opened: the keys and clients that it made and that these
// made, and from the control log the agents, passports and webhooks that were made with it. Each
// control record is checked here; one that a server has changed is shown in red.
func TestBrowserKeysOpened(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	ci := s.api("POST", "/v1/keys", key, map[string]any{"label": "ci"})["key"].(string)
	inner := s.api("POST", "/v1/keys", ci, map[string]any{"label": "inner"})["key"].(string)
	s.api("POST", "/v1/keys", inner, map[string]any{"label": "innermost"})
	s.api("POST", "/v1/oauth/clients", ci, nil)
	s.api("POST", "/v1/agents/register", ci, map[string]any{"agentId": "bot"})
	s.api("POST", "/v1/agents/bot/passport", ci, nil)
	s.api("POST", "/v1/webhooks", ci, map[string]any{"url": "https://hooks.example.com/attestd"})
	s.api("POST", "/v1/agents/register", key, map[string]any{"agentId": "not-of-ci"})
	fingerprint := s.credential(key, "ci")["fingerprint"].(string)

	b := openBrowser(t, s.base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/keys/" + fingerprint)
	b.shows(`[data-tree="3"]`)
	b.wait(`document.querySelector('[data-made="` + s.credential(key, "inner")["fingerprint"].(string) + `"] [data-made="` + s.credential(key, "innermost")["fingerprint"].(string) + `"]')`)
	b.shows(`[data-opened="5"]`)
	got := eval[string](b, `[...document.querySelectorAll('[data-opened] [data-kind]')].map((e) => e.textContent).sort().join(', ')`)
	if want := "API key created 1, Agent registered 1, OAuth client created 1, Passport issued 1, Webhook created 1"; got != want {
		t.Errorf("it did %s, want %s", got, want)
	}
	b.wait(`document.querySelectorAll('[data-opened] .change-line[data-check="ok"]').length === 5`)
	b.reads(`[data-opened]`, "bot")
	if strings.Contains(eval[string](b, `document.querySelector('[data-opened]').innerText`), "not-of-ci") {
		t.Error("what another credential did stands there")
	}

	lied := openBrowser(t, lie(t, s, func(path string, answer []byte) []byte {
		if path == "/v1/records" {
			return []byte(strings.Replace(string(answer), `"agentId":"bot"`, `"agentId":"cat"`, 1))
		}
		return answer
	}))
	lied.signIn(key)
	lied.goTo("#/keys/" + fingerprint)
	lied.reads(`[data-opened] .change-line[data-check="bad"]`, "does not hash")
}

// The page with the company's keys shows the issuer of tokens for others, and the keys that verify
// them.
func TestBrowserTokenKeys(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.api("POST", "/v1/agents/register", key, map[string]any{"agentId": "bot"})
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.goTo("#/keys")
	for _, algorithm := range []string{"ES256", "RS256", "EdDSA"} {
		b.reads(`section[aria-label="Token keys"] dl`, algorithm)
	}
	b.reads(`section[aria-label="Token keys"]`, s.base+"/o/acme")
}
