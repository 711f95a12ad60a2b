package web_test

import (
	"testing"

	"attestd/internal/testenv"
)

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
