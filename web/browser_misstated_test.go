package web_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"attestd/crypto/jose"
	"attestd/internal/must"
	"attestd/internal/testenv"
)

// What a signed record says is shown from that record. A list of the server that says otherwise
// changes nothing of it, and is named in red: an agent that was disabled, its metadata, a key that
// was revoked, and when a session ran and what recorded it. An honest server is contradicted in
// nothing, however the metadata were spelled.
func TestBrowserListAgainstControlLog(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.api("POST", "/v1/agents/register", key, `{"agentId": "coder", "metadata": { "team" : "payments",  "n": 1.0 }}`)
	stolen := s.signer(key, "coder", jose.EdDSA, "label", "laptop")
	s.api("DELETE", "/v1/agents/coder/keys/"+stolen.key.Key().Thumbprint, key, map[string]any{"reason": "lost with the laptop"})
	s.hookSession(key, "coder", "s-1")
	s.api("POST", "/v1/agents/coder/disable", key, nil)

	var lying, malformed atomic.Bool
	revoked, disabled := regexp.MustCompile(`"revokedAt":"[^"]*"`), regexp.MustCompile(`,"disabledAt":"[^"]*"`)
	first := regexp.MustCompile(`"firstAt":"20`)
	base := lie(t, s, func(path string, answer []byte) []byte {
		switch {
		case malformed.Load() && path == "/v1/agents/coder":
			answer = bytes.Replace(answer, []byte(`"metadataAsSent":"{`), []byte(`"metadataAsSent":"`), 1)
		case !lying.Load():
		case path == "/v1/agents/coder":
			answer = disabled.ReplaceAll(answer, nil)
			answer = bytes.ReplaceAll(answer, []byte(`payments`), []byte(`platform`))
		case path == "/v1/agents/coder/keys":
			answer = revoked.ReplaceAll(answer, []byte(`"revokedAt":null`))
			answer = bytes.ReplaceAll(answer, []byte(`"laptop"`), []byte(`"desktop"`))
		case path == "/v1/sessions":
			answer = first.ReplaceAll(answer, []byte(`"firstAt":"19`))
			answer = bytes.ReplaceAll(answer, []byte(`"source":"claude-code"`), []byte(`"source":"codex"`))
		}
		return answer
	})
	b := openBrowser(t, base)
	b.signIn(key)
	b.confirmKey(s, "acme")

	b.goTo("#/agents/coder")
	b.shows(`[data-agent-status="disabled"]`)
	b.shows(`[data-revoked="yes"]`)
	b.goTo(sessionPage)
	b.reads(`.session-summary`, "coder")
	b.reads(`.session-summary`, "claude-code")
	b.wait(`document.querySelector('[data-checked="7"]')`)
	b.wait(`!document.querySelector('[data-misstated]')`)

	lying.Store(true)
	b.goTo("#/agents/coder")
	b.shows(`[data-agent-status="disabled"]`)
	b.reads(`[data-misstated="2"]`, "lists the agent as active")
	b.reads(`[data-misstated="2"]`, "metadata that the server lists are not those")
	b.shows(`[data-revoked="yes"]`)
	b.reads(`[data-revoked="yes"]`, "lost with the laptop")
	b.reads(`[data-revoked="yes"]`, "laptop")
	b.reads(`[data-revoked="yes"] [data-misstated]`, "lists the label desktop; the control log has laptop")
	b.goTo(sessionPage)
	b.reads(`.session-summary [data-misstated]`, "lists that it began at 19")
	b.reads(`.session-summary`, "lists the source codex; record")
	if text := eval[string](b, `[...document.querySelectorAll('.session-summary dt')].find((e) => e.textContent === 'Began').nextElementSibling.innerText`); !strings.HasPrefix(text, "20") {
		t.Errorf("the session is shown as of %s", text)
	}

	malformed.Store(true)
	b.goTo("#/agents/coder")
	b.reads(`.page .notice.bad`, "metadataAsSent")
	b.wait(`!document.querySelector('[data-broken]')`)
}

// The first page shows the newest permission changes, of which the newest is the last of the
// control log: a server that leaves it out is found out.
func TestBrowserNewestChangeIsThere(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	for _, agent := range []string{"one", "two", "three"} {
		s.api("POST", "/v1/agents/register", key, map[string]any{"agentId": agent})
	}
	var page struct {
		Records []json.RawMessage `json:"records"`
		Size    int               `json:"size"`
		Read    struct{ From, To int }
		Next    string `json:"next,omitempty"`
	}
	hide := func(answer []byte) []byte {
		if json.Unmarshal(answer, &page) != nil || len(page.Records) < 2 {
			return answer
		}
		text, err := json.Marshal(map[string]any{
			"records": page.Records[1:], "size": page.Size, "next": page.Next, "read": map[string]int{"from": page.Read.From, "to": page.Read.To},
		})
		must.OK(t, err)
		return text
	}
	b := openBrowser(t, lie(t, s, func(path string, answer []byte) []byte {
		if path == "/v1/records" && bytes.Contains(answer, []byte(`"log":"control"`)) {
			return hide(answer)
		}
		return answer
	}))
	b.signIn(key)
	b.reads(`[role="alert"]`, "the newest that the server shows is")
}
