package web_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"attestd/crypto/dpop"
	"attestd/crypto/jose"
	"attestd/crypto/statement"
	"attestd/internal/must"
	"attestd/internal/testenv"
)

// signer is an agent of the company acme with a key of its own.
type signer struct {
	*service
	credential string
	agentID    string
	log        string // that its statements name
	key        *jose.PrivateKey
	last       *statement.Statement // of its session
}

// signer makes a key for an agent, and enrols it with a credential.
func (s *service) signer(credential, agentID, algorithm string, members ...any) *signer {
	s.t.Helper()
	key, err := jose.GenerateKey(algorithm)
	must.OK(s.t, err)
	a := &signer{service: s, credential: credential, agentID: agentID, key: key}
	body := map[string]any{"jwk": json.RawMessage(key.Key().JWK())}
	for i := 0; i < len(members); i += 2 {
		body[members[i].(string)] = members[i+1]
	}
	path := "/v1/agents/" + agentID + "/keys"
	body["proof"], err = dpop.Make(s.t.Context(), key, dpop.Request{Method: http.MethodPost, URL: s.base + path}, s.now())
	must.OK(s.t, err)
	a.log = s.api("POST", path, credential, body)["log"].(string)
	return a
}

// next enrols the key after the agent's present one, which signs for it.
func (a *signer) next() *signer {
	a.t.Helper()
	key, err := jose.GenerateKey(jose.EdDSA)
	must.OK(a.t, err)
	e, err := statement.MakeEndorsement(a.t.Context(), a.key, statement.EndorsementClaims{
		Issuer: acmeID + "/agent/" + a.agentID, Audience: acmeID, IssuedAt: a.now().Unix(), Next: key.Key().Thumbprint,
	})
	must.OK(a.t, err)
	n := &signer{service: a.service, credential: a.credential, agentID: a.agentID, log: a.log, key: key}
	path := "/v1/agents/" + a.agentID + "/keys"
	proof, err := dpop.Make(a.t.Context(), key, dpop.Request{Method: http.MethodPost, URL: a.base + path}, a.now())
	must.OK(a.t, err)
	a.api("POST", path, a.credential, map[string]any{"jwk": json.RawMessage(key.Key().JWK()), "proof": proof, "endorsement": e.Compact})
	return n
}

const acmeID = "spiffe://attestd.local/company/acme"

func (a *signer) thumbprint() string { return a.key.Key().Thumbprint }

// states appends a record that the agent has signed; change, if any, changes what it signs.
func (a *signer) states(n int, change func(*statement.Claims)) {
	a.t.Helper()
	hash, err := statement.HashAction("note", a.agentID, "acme", []byte(fmt.Sprint(n)))
	must.OK(a.t, err)
	c := statement.Claims{Issuer: acmeID + "/agent/" + a.agentID, Audience: acmeID, Log: a.log, IssuedAt: a.now().Unix(), ActionHash: hash}
	if change != nil {
		change(&c)
	}
	s, err := statement.Make(a.t.Context(), a.key, c)
	must.OK(a.t, err)
	a.api("POST", "/v1/attest", a.credential, map[string]any{"agentId": a.agentID, "actionType": "note", "payload": n, "statement": s.Compact})
	a.last = s
}

// steps appends the steps of a session.
func (a *signer) steps(sid string, end bool, places ...int64) {
	a.t.Helper()
	for i, seq := range places {
		a.states(int(seq), func(c *statement.Claims) {
			c.Session, c.Seq, c.End = sid, seq, end && i == len(places)-1
			if seq > 0 {
				c.Previous = strings.Repeat("0", 64)
				if i > 0 && places[i-1] == seq-1 {
					c.Previous = a.last.Hash()
				}
			}
		})
	}
}

// word waits until the record that is open is judged.
func (b *browser) word(index int, is, tone, text string) {
	b.t.Helper()
	b.goTo(fmt.Sprintf("#/records/%d", index))
	b.shows(fmt.Sprintf(`dialog [data-word=%q][data-word-tone=%q]`, is, tone))
	b.reads(`dialog [data-word]`, text)
	b.goTo("#/records")
	b.shows(fmt.Sprintf(`[data-index="%d"] .word[data-word=%q][data-word-tone=%q]`, index, is, tone))
}

// Each record shows who signed it. What an agent's key signed is green only when the reader has
// confirmed that key, or one from which it follows; a key that the company enrolled too is red
// then.
func TestBrowserSignedBy(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.api("POST", "/v1/agents/register", key, map[string]any{"agentId": "bot"})
	a := s.signer(key, "bot", jose.EdDSA, "label", "laptop <b>")
	a.states(0, nil)
	after := a.next()
	after.states(1, nil)
	impostor := s.signer(key, "bot", jose.ES256)
	impostor.states(2, nil)
	s.api("POST", "/v1/attest", key, map[string]any{"agentId": "bot", "actionType": "note", "payload": 3})

	b := openBrowser(t, s.base)
	b.signInForTab(key)
	const company = "the holder of any company key can record it"
	for i := range 3 {
		b.word(i, "agent", "warn", "A key that the company enrolled for this agent signed this")
	}
	b.word(3, "company", "", company)
	b.confirmKey(s, "acme")
	b.word(0, "agent", "warn", "The company can enrol a key for any agent")

	b.goTo("#/agents/bot")
	b.shows(`[data-keys="3"]`)
	b.reads(fmt.Sprintf(`tr[data-key=%q]`, a.thumbprint()), "laptop <b>")
	b.reads(fmt.Sprintf(`tr[data-key=%q]`, after.thumbprint()), "by the key before it, "+a.thumbprint())
	b.reads(fmt.Sprintf(`tr[data-key=%q]`, impostor.thumbprint()), "by a credential")
	b.fill(`input[name="thumbprint"]`, strings.Repeat("A", 43))
	b.press("Confirm key")
	b.reads(`[aria-label="Keys of this agent"] [role="alert"]`, "No key that is enrolled for this agent")
	b.fill(`input[name="thumbprint"]`, a.thumbprint())
	b.press("Confirm key")
	b.shows(fmt.Sprintf(`tr[data-key=%q][data-key-state="confirmed"]`, a.thumbprint()))
	b.reads(fmt.Sprintf(`tr[data-key=%q][data-key-state="confirmed"]`, after.thumbprint()), "follows from a confirmed key")
	b.shows(fmt.Sprintf(`tr[data-key=%q][data-key-state="other"]`, impostor.thumbprint()))
	b.shows(`[aria-label="Records of this agent"] li[data-index="0"] .word.ok`)
	b.shows(`[aria-label="Records of this agent"] li[data-index="2"] .word.bad`)
	for range 2 {
		b.word(0, "agent", "ok", "The agent’s own key signed this")
		b.word(1, "agent", "ok", "enrolled at")
		b.word(2, "agent", "bad", "none of the keys of this agent that you confirmed")
		b.word(3, "company", "", company)
		b.goTo("#/live")
		a.service.api("POST", "/v1/attest", key, map[string]any{"agentId": "bot", "actionType": "note", "payload": "live"})
		b.shows(`.entry .word[data-word="company"]`)
		b.reload() // what was confirmed stays
	}
	b.goTo("#/agents/bot")
	b.press("Remove confirmation")
	b.shows(fmt.Sprintf(`tr[data-key=%q][data-key-state="unconfirmed"]`, a.thumbprint()))
	b.word(1, "agent", "warn", "The company can enrol a key for any agent")
}

// A server that leaves out what enrolled a key shows no record of that key as the agent's; one that
// leaves out a policy's end, or a part of the answer about it, is none that makes anything green.
func TestBrowserSignedByLies(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.api("POST", "/v1/agents/register", key, map[string]any{"agentId": "bot"})
	a := s.signer(key, "bot", jose.EdDSA)
	a.states(0, nil)
	records := regexp.MustCompile(`"records":\[.*\]`)
	for name, change := range map[string]func([]byte) []byte{
		"fails":   func(answer []byte) []byte { return records.ReplaceAll(answer, []byte(`"records":[]`)) },
		"unknown": func(answer []byte) []byte { return bytes.ReplaceAll(answer, []byte(`"by":"`), []byte(`"by":"x`)) },
	} {
		b := openBrowser(t, lie(t, s, func(path string, answer []byte) []byte {
			if path == "/v1/records" && bytes.Contains(answer, []byte("agent-key.enrolled")) {
				return change(answer)
			}
			return answer
		}))
		b.signIn(key)
		b.goTo("#/records/0")
		b.shows(fmt.Sprintf(`dialog [data-word=%q]`, name))
		if green := eval[int](b, `document.querySelectorAll('dialog .ok').length`); green > 0 {
			t.Errorf("%s: %d things are green", name, green)
		}
	}
}

// An admin makes a token in the console, and the line that is shown enrols a key on a machine; the
// key is revoked there, and the policy is switched on after its dry run.
func TestBrowserAgentKeys(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.api("POST", "/v1/agents/register", key, map[string]any{"agentId": "bot"})
	for range 3 {
		s.api("POST", "/v1/attest", key, map[string]any{"agentId": "bot", "actionType": "note", "payload": 0})
	}
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.goTo("#/agents/bot")
	b.shows(`[data-keys="0"]`)
	b.press("Enrol a key")
	b.fill(`[aria-label="Keys of this agent"] input[name="label"]`, "build machine")
	b.press("Create enrolment token")
	b.shows(`[data-enrol-line] code`)
	line := eval[string](b, `document.querySelector('[data-enrol-line] code').textContent`)
	token, ok := strings.CutPrefix(line, "attestd agent-key enrol --url "+s.base+" --token ")
	if !ok || !strings.Contains(token, "enr_") {
		t.Fatalf("the line is %q", line)
	}
	machine := s.signer(token, "bot", jose.EdDSA)
	b.wait(`(() => { const b = document.querySelector('[data-keys] .card-head button:not([disabled])'); b?.click(); return b; })()`)
	b.reads(fmt.Sprintf(`tr[data-key=%q]`, machine.thumbprint()), "by the enrolment token")
	b.reads(`[aria-label="Changes of this agent"]`, "was enrolled with the enrolment token")

	b.shows(`[aria-label="Policy"][data-policy="any"]`)
	b.press("Require the agent’s key…")
	b.reads(`dialog [data-refused="3"]`, "3 of the 3 records of the last 24 hours would have been refused.")
	if _, err := s.try("POST", "/v1/attest", key, map[string]any{"agentId": "bot", "actionType": "note", "payload": 0}); err != nil {
		t.Errorf("before the policy is switched on: %v", err)
	}
	b.press("Require the key")
	b.shows(`[aria-label="Policy"][data-policy="key"]`)
	b.reads(`[aria-label="Changes of this agent"]`, "only a key of the agent may speak from then on")
	if _, err := s.try("POST", "/v1/attest", key, map[string]any{"agentId": "bot", "actionType": "note", "payload": 0}); err == nil {
		t.Error("what nobody signed is recorded")
	}
	b.press("Allow any credential…")
	b.press("Allow any credential")
	b.shows(`[aria-label="Policy"][data-policy="any"]`)

	b.press("Revoke")
	b.fill(`dialog[open] input[name="reason"]`, "the laptop is lost")
	b.press("Revoke key")
	b.reads(fmt.Sprintf(`tr[data-key=%q][data-revoked="yes"]`, machine.thumbprint()), "the laptop is lost")
	b.reads(`[aria-label="Changes of this agent"]`, "was revoked: the laptop is lost")

	b.goTo("#/policy")
	b.shows(`[aria-label="Policy"][data-policy="any"]`)
	b.press("Require the agent’s key…")
	b.reads(`dialog [data-refused]`, "bot: 4")
	b.press("Require the key")
	b.shows(`[aria-label="Policy"][data-policy="key"]`)
	b.reads(`[aria-label="Exchanges for others"][data-audiences="0"]`, "exchanged for this service alone")
	b.fill(`[aria-label="Exchanges for others"] input[name="audience"]`, "https://mcp.example/")
	b.press("Name it…")
	b.reads("dialog", "to them the agent is the other one")
	b.press("Name the audience")
	b.reads(`[aria-label="Exchanges for others"][data-audiences="1"]`, "https://mcp.example/")
	b.fill(`[aria-label="Exchanges for others"] input[name="audience"]`, "vault")
	b.press("Name it…")
	b.press("Name the audience")
	b.shows(`[aria-label="Exchanges for others"][data-audiences="2"]`)
	b.press("Remove") // the first of them
	b.reads(`[aria-label="Exchanges for others"][data-audiences="1"]`, "vault")
	b.shows(`[aria-label="Policy"][data-policy="key"]`) // which is another decision
	b.goTo("#/agents/bot")
	b.reads(`[aria-label="Policy"]`, "The policy of the company demands")
	b.goTo("#/control")
	b.reads("main", "Tokens are exchanged for vault from then on")
	b.reads("main", "In the name of every agent, only a key of the agent may speak from then on")
	b.reads("main", "The enrolment token")
}

// The revoker of a key is asked since when it was in other hands, then and later. What was recorded
// from then on is never green, with the reader's confirmation of the key too, and what a statement
// was made for is shown with each record.
func TestBrowserStolenAgentKey(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.api("POST", "/v1/agents/register", key, map[string]any{"agentId": "bot"})
	a := s.signer(key, "bot", jose.EdDSA)
	a.states(0, nil)
	first := s.api("GET", "/v1/chain?from=0&limit=1", key, nil)["records"].([]any)[0].(map[string]any)["timestamp"].(string)
	at, err := time.Parse(time.RFC3339, first)
	must.OK(t, err)
	stolen := at.Truncate(time.Second).Add(time.Second)
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.wait(fmt.Sprintf(`Date.now() >= %d`, stolen.UnixMilli()))
	a.states(1, nil)
	b.goTo("#/agents/bot")
	b.fill(`input[name="thumbprint"]`, a.thumbprint())
	b.press("Confirm key")
	row := fmt.Sprintf(`tr[data-key=%q]`, a.thumbprint())
	b.shows(row + `[data-key-state="confirmed"]`)
	b.press("Revoke")
	b.press("Revoke key")
	b.shows(row + `[data-revoked="yes"]`)
	b.word(1, "agent", "ok", "and its log "+a.log)

	b.goTo("#/agents/bot")
	b.press("Report theft")
	b.fill(`dialog[open] input[name="reason"]`, "stolen")
	b.shows(`dialog[open] input[name="since"][required]`)
	eval[bool](b, fmt.Sprintf(`((field) => { field.value = %q; field.dispatchEvent(new Event('change', { bubbles: true })); return true; })(
		document.querySelector('dialog[open] input[name="since"]'))`, stolen.UTC().Format("2006-01-02T15:04:05")))
	eval[bool](b, `(document.querySelector('dialog[open] button.danger').click(), true)`)
	b.reads(row+` [data-since]`, "in other hands since")
	b.reads(`[aria-label="Changes of this agent"]`, "it was in other hands since")
	b.goTo("#/")
	b.reload() // what was known of the key is read again
	b.signIn(key)
	b.word(1, "agent", "warn", "signed while the key was in other hands")
	b.word(1, "agent", "warn", "says its revocation (stolen)")
	b.word(0, "agent", "ok", "signed by the agent")
}

// Sessions are listed with what is missing of them, and saved as files that are checked on the way.
func TestBrowserAgentSessions(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.api("POST", "/v1/agents/register", key, map[string]any{"agentId": "bot"})
	a := s.signer(key, "bot", jose.EdDSA)
	a.steps("run-1", true, 0, 1, 2)
	a.steps("run-2", false, 0, 1)
	a.steps("run-3", false, 1, 5)
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.goTo("#/agents/bot")
	b.shows(`[data-sessions="3"]`)
	b.reads(`tr[data-session="run-1"][data-state="sealed"]`, "sealed")
	b.reads(`tr[data-session="run-2"][data-state="open"]`, "open at 1")
	b.reads(`tr[data-session="run-3"][data-state="gap"] .badge.bad`, "missing 0, 2–4")
	for _, c := range []struct{ session, tone, state string }{
		{"run-1", "warn", "complete: 0 to 2, sealed"},
		{"run-2", "", "open at 1"},
		{"run-3", "bad", "missing 0, 2–4, open at 5"},
	} {
		eval[bool](b, fmt.Sprintf(`(document.querySelector('tr[data-session=%q] button').click(), true)`, c.session))
		b.reads(fmt.Sprintf(`tr[data-session=%q] [data-checked-session=%q]`, c.session, c.tone), c.state)
	}
	// the newest session is first
	want := s.raw(key, "/v1/sessions/bot/run-3?kid="+a.thumbprint(), "application/jsonl")
	if saved := b.download("Save file"); strings.Count(saved, "\n") != 3 || !strings.HasPrefix(saved, string(want[:100])) {
		t.Errorf("the saved file is %.300q, want %.300q", saved, want)
	}

	// A file that lacks a record is none.
	other := openBrowser(t, lie(t, s, func(path string, answer []byte) []byte {
		if strings.HasPrefix(path, "/v1/sessions/bot/") {
			lines := bytes.SplitAfter(answer, []byte("\n"))
			return bytes.Join(append(lines[:2:2], lines[3:]...), nil)
		}
		return answer
	}))
	other.signIn(key)
	other.goTo("#/agents/bot")
	other.shows(`[data-sessions="3"]`)
	eval[bool](other, `(document.querySelector('tr[data-session="run-1"] button').click(), true)`)
	other.shows(`tr[data-session="run-1"] [data-checked-session="bad"]`)
}
