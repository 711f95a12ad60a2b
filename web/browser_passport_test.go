package web_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"attestd/internal/must"
)

// verdict waits for the verdict on the token that is shown, and for its tone.
func (b *browser) verdict(is, tone string) {
	b.t.Helper()
	b.shows(fmt.Sprintf(`[data-token=%q] [data-verdict=%q]`, tone, is))
	if tone == "ok" {
		b.shows(`[data-token] .ok`)
		return
	}
	if green := eval[int](b, `document.querySelectorAll('[data-token] .ok').length`); green > 0 {
		b.t.Errorf("%s: %d things are green", is, green)
	}
}

// inspects puts a token into the page of passports.
func (b *browser) inspects(token string) {
	b.t.Helper()
	b.goTo("#/start")
	b.wait(`!document.querySelector('.drop')`)
	b.goTo("#/passports")
	b.shows(`.drop`)
	b.drop("token.txt", token)
}

// furnishTokens makes an agent that holds one of each kind of token.
func furnishTokens(s *service, key string) (passport, svid, delegation string) {
	s.api("POST", "/v1/agents/register", key, `{"agentId":"bot"}`)
	s.api("POST", "/v1/agents/register", key, `{"agentId":"helper"}`)
	passport = s.api("POST", "/v1/agents/bot/passport", key, nil)["passport"].(string)
	svid = s.api("GET", "/v1/agents/bot/svid", key, nil)["svid"].(string)
	delegation = s.api("POST", "/v1/token-exchange", key, map[string]any{"agentId": "helper", "actingOn": "acme", "scope": "pay"})["token"].(string)
	return passport, svid, delegation
}

// A token has one verdict, above all else, and green is only what can be used now: confirmed,
// current, and asked about.
func TestBrowserVerdictOnTokens(t *testing.T) {
	s := startService(t, "", "")
	key := s.company("acme")
	passport, svid, delegation := furnishTokens(s, key)
	b := openBrowser(t, s.base)

	b.inspects(passport) // signed out: the key is published, the revocation is not
	b.verdict("revocation not checked", "unknown")
	b.inspects(svid)
	b.verdict("usable now", "warn")
	b.goTo("#/start")
	b.signIn(key)
	b.inspects(passport)
	b.verdict("usable now", "warn")
	b.reads(`[data-verdict]`, "you haven’t confirmed the key")
	b.confirmKey(s, "acme")
	for _, token := range []string{passport, svid, delegation} {
		b.inspects(token)
		b.verdict("usable now", "ok")
	}
	if eval[string](b, `document.querySelector('[data-token]').firstElementChild.dataset.verdict`) == "" {
		t.Error("something stands above the verdict")
	}

	parts := strings.Split(passport, ".")
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	must.OK(t, err)
	parts[1] = base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(claims), `"agentId":"bot"`, `"agentId":"bat"`, 1)))
	b.inspects(strings.Join(parts, "."))
	b.verdict("forged, or signed by another key", "bad")
	b.inspects(passport[:40])
	b.shows(`[data-verdict="no token"]`)

	other := startService(t, "", "")
	otherKey := other.company("acme")
	foreign, _, _ := furnishTokens(other, otherKey)
	b.inspects(foreign)
	b.verdict("forged, or signed by another key", "bad")

	b.inspects(passport)
	b.verdict("usable now", "ok")
	var c struct {
		ID string `json:"jti"`
	}
	must.OK(t, json.Unmarshal(claims, &c))
	s.api("POST", "/v1/passports/"+c.ID+"/revoke", key, map[string]any{"reason": "left the team"})
	b.inspects(passport)
	b.verdict("revoked", "bad")
	b.reads(`[data-verdict]`, "left the team")

	s.api("POST", "/v1/agents/bot/disable", key, nil)
	b.inspects(svid)
	b.verdict("agent disabled", "bad")
}

// Times are compared with two clocks. A time that both find too late or too early has that verdict;
// if the clocks disagree, nothing is green, and the difference is shown.
func TestBrowserVerdictsOfTime(t *testing.T) {
	s := startService(t, "", "")
	key := s.company("acme")
	passport, _, _ := furnishTokens(s, key)
	var ahead atomic.Int64 // of the server's clock, in its header alone
	base := between(t, s, nil, func(h http.Header) {
		if by := time.Duration(ahead.Load()); by != 0 {
			h.Set("Date", time.Now().Add(by).UTC().Format(http.TimeFormat))
		}
	})
	b := openBrowser(t, base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.inspects(passport)
	b.verdict("usable now", "ok")

	for by, message := range map[time.Duration]string{
		10 * time.Minute:  "Your clock differs by 10 minutes: it is behind the server’s.",
		-10 * time.Minute: "Your clock differs by 10 minutes: it is ahead of the server’s.",
		2 * time.Hour:     "By your clock it is usable now; by the server’s, expired.",
	} {
		ahead.Store(int64(by))
		b.inspects(passport)
		if by == 2*time.Hour {
			b.verdict("your clock differs by 2 hours", "unknown")
		} else {
			b.verdict("your clock differs by 10 minutes", "unknown")
		}
		b.reads(`[data-verdict]`, message)
		b.reads(`[data-clock]`, "Your clock differs")
	}
	ahead.Store(int64(20 * time.Second)) // as two clocks may
	b.inspects(passport)
	b.verdict("usable now", "ok")
	b.wait(`!document.querySelector('[data-clock]')`)
	ahead.Store(0)

	// Now this computer's clock moves, and the server's with it.
	shift := func(by time.Duration) {
		ahead.Store(int64(by))
		eval[bool](b, fmt.Sprintf(`(Date.now = ((real) => () => real() + %d)(window.realNow ??= Date.now.bind(Date)), true)`, by.Milliseconds()))
		b.inspects(passport)
	}
	shift(2 * time.Hour)
	b.verdict("expired", "bad")
	shift(-2 * time.Hour)
	b.verdict("not yet", "bad")

	// A token that is looked at while its time runs out is not usable any more.
	shift(0)
	b.verdict("usable now", "ok")
	ahead.Store(int64(2 * time.Hour))
	eval[bool](b, `(Date.now = () => realNow() + 7200000, true)`)
	b.shows(`[data-token="unknown"] [data-verdict="your clock differs by 2 hours"], [data-verdict="expired"]`)
	if green := eval[int](b, `document.querySelectorAll('[data-token] .ok').length`); green > 0 {
		t.Errorf("%d things are green", green)
	}
}

// If the server cannot be asked about revocation, or its answer is worthless, that is the verdict;
// another request may change it. A revoked passport stays revoked, however old the statement is and
// whatever the clocks show.
func TestBrowserVerdictWithoutAStatement(t *testing.T) {
	s := startService(t, "", "")
	key := s.company("acme")
	passport, _, _ := furnishTokens(s, key)
	jti := s.api("GET", "/v1/passports", key, nil)["passports"].([]any)[0].(map[string]any)["jti"].(string)
	valid := jsonOf(t, s.api("GET", "/v1/ocsp/"+jti, key, nil))
	var mode atomic.Value
	mode.Store("away")
	var ahead atomic.Int64
	date := func(h http.Header) {
		h.Set("Date", time.Now().Add(time.Duration(ahead.Load())).UTC().Format(http.TimeFormat))
	}
	base := between(t, s, func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/v1/ocsp/") || mode.Load() == "" {
			return false
		}
		date(w.Header())
		w.Header().Set("Content-Type", "application/json")
		switch mode.Load() {
		case "away":
			panic(http.ErrAbortHandler)
		case "forged":
			fmt.Fprint(w, strings.Replace(valid, jti, "another", 1))
		case "old":
			fmt.Fprint(w, valid)
		}
		return true
	}, date)
	b := openBrowser(t, base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.inspects(passport)
	b.verdict("revocation not checked", "unknown")
	b.reads(`[data-verdict]`, "The server could not be asked: The server does not answer.")
	mode.Store("forged")
	b.press("Refresh")
	b.verdict("revocation unknown", "bad")
	mode.Store("")
	b.press("Refresh")
	b.verdict("usable now", "ok")

	// Ten minutes later the server repeats its answer, by both clocks.
	mode.Store("old")
	ahead.Store(int64(10 * time.Minute))
	eval[bool](b, `(Date.now = ((real) => () => real() + 600000)(Date.now.bind(Date)), true)`)
	b.shows(`[data-verdict="revocation not checked"], [data-verdict="your clock differs by 10 minutes"]`)
	b.inspects(passport)
	b.verdict("revocation not checked", "unknown")
	b.reads(`[data-verdict]`, "may have been revoked since")

	s.api("POST", "/v1/passports/"+jti+"/revoke", key, nil)
	mode.Store("") // of ten minutes ago, as the page takes it
	b.press("Refresh")
	b.verdict("revoked", "bad")
}
