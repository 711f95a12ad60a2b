package web_test

import (
	"testing"

	"attestd/internal/testenv"
)

// The page with the company's keys shows the issuer of tokens for others, and the keys that verify
// them once there are any.
func TestBrowserTokenKeys(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.api("POST", "/v1/agents/register", key, map[string]any{"agentId": "bot"})
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.goTo("#/keys")
	b.reads(`section[aria-label="Token keys"]`, "No token was asked for yet")
	s.api("POST", "/v1/agents/bot/token", key, map[string]any{"audience": "https://mcp.example", "alg": "RS256"})
	b.goTo("#/agents")
	b.goTo("#/keys")
	b.reads(`section[aria-label="Token keys"] dt`, "RS256")
	b.reads(`section[aria-label="Token keys"]`, s.base+"/o/acme")
}
