package web_test

import (
	"strings"
	"sync/atomic"
	"testing"
)

// An admin changes the company's key on the page of keys: after a question that says what happens, the new fingerprint is shown with what
// those must do who pinned the old one; and tokens of before stand, or fall where the key was declared compromised.
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
	b.reads(`[aria-label="Signing key"] .notice`, "From record 2 on a new key signs. Whoever pinned the fingerprint of the old key must pin the new one.")
	b.reads(`[aria-label="Signing key"] .badge`, "confirmed by you") // for it follows from the one that was
	s.api("POST", "/v1/passport/verify", key, passport)

	b.press("Declare it compromised")
	b.reads(`dialog[open]`, "is refused at once")
	b.press("Rotate and refuse its tokens")
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

// A reader is offered no rotation, and who may rotate is not told of a key that the server does not prove.
func TestBrowserRotationOfOthers(t *testing.T) {
	s := startService(t, "", "")
	key := s.company("acme")
	reader := s.api("POST", "/v1/keys", key, map[string]any{"label": "audit", "role": "reader"})["key"].(string)
	b := openBrowser(t, s.base)
	b.signIn(reader)
	b.goTo("#/keys")
	b.shows(`[role="alert"]`)
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
