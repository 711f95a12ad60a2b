package web_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/rewrite"
	"attestd/internal/testenv"
	"attestd/store"
)

// restart ends a service, lets its file be changed, and starts it again at the same address,
// without what the server itself remembers of its heads.
func (s *service) restart(address string, change func()) *service {
	s.t.Helper()
	s.stop()
	change()
	for _, name := range []string{s.db + "-wal", s.db + "-shm", s.db + ".heads"} {
		if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
			s.t.Fatal(err)
		}
	}
	return startService(s.t, s.db, address)
}

// reconnects does not wait for the page's next attempt, and returns once the condition holds.
func (b *browser) reconnects(condition string) {
	b.t.Helper()
	b.waitFor(time.Minute, `([...document.querySelectorAll('button')].find((e) => e.textContent === 'Reconnect now')?.click(), `+condition+`)`)
}

// If a server was set back to ten records and went on from there, every open page is red and says
// which records are gone and since when. So is Verify, although the present data of the server
// verifies by itself, and a page that is opened later. Only a user can end that.
func TestBrowserRollbackIsRed(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	address := freePort(t)
	s := startService(t, "", address)
	key := s.company("acme")
	s.attest(key, 10)
	var older []byte
	s = s.restart(address, func() {
		var err error
		older, err = os.ReadFile(s.db)
		must.OK(t, err)
	})
	s.attest(key, 10)
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/live")
	b.shows(`.pulse.ok`)
	b.reads(".pulse-sub", "20 records checked here")

	s = s.restart(address, func() { must.OK(t, os.WriteFile(s.db, older, 0o600)) })
	s.attest(key, 1)
	b.reconnects(`document.querySelector('.pulse.bad')`)
	b.reads(".pulse-word", "rewritten")
	b.reads(`[data-rewritten="actions"]`, "20 records; the server now has only 1")
	b.reads(`[data-rewritten="actions"]`, "Records before 10 are unchanged")
	b.look(look{1280, "light"})
	b.picture("live-rewritten-1280-light", "")
	b.goTo("#/verify")
	b.press("Verify the whole chain")
	b.shows(`[data-verdict="failed"][data-tone="bad"]`)
	b.reads(`.verdict-word`, "rewritten")

	s.attest(key, 30) // longer than it was: its length alone shows nothing any more
	b.goTo("#/start")
	b.reload()
	b.signIn(key)
	b.reads(`[data-rewritten="actions"]`, "the server’s log no longer starts with them")
	if green := eval[int](b, `document.querySelectorAll('.verified.ok, .pulse.ok').length`); green != 0 {
		t.Error("something is green beside a history that was rewritten")
	}
	b.acknowledge(`!document.querySelector('[data-rewritten]')`)
	b.goTo("#/live")
	b.shows(`.pulse.ok`)
}

// With the keys an attacker can write a history of the same length that verifies in every part. A
// page that has seen the earlier one shows where they differ.
func TestBrowserRewrittenHistoryIsRed(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	for _, log := range []store.LogName{store.Actions, store.Control} {
		address := freePort(t)
		s := startService(t, "", address)
		key := s.company("acme")
		s.api("POST", "/v1/agents/register", key, map[string]any{"agentId": "deploy-bot"})
		s.attest(key, 40)
		b := openBrowser(t, s.base)
		b.signIn(key)
		b.confirmKey(s, "acme")
		b.goTo("#/live")
		b.shows(`.pulse.ok`)

		index := int64(35)
		if log == store.Control {
			index = int64(slices.IndexFunc(s.api("GET", "/v1/chain?log=control", key, nil)["records"].([]any), func(record any) bool {
				return strings.Contains(fmt.Sprint(record), "deploy-bot")
			}))
		}
		schema, err := os.ReadFile("../schema.sql")
		must.OK(t, err)
		s = s.restart(address, func() {
			_, err := rewrite.Record(t.Context(), s.db, string(schema), store.Options{}, "acme", log, index, func(payload []byte) []byte {
				return []byte(strings.NewReplacer(`"amount"`, `"amounT"`, "deploy-bot", "deploy-bat").Replace(string(payload)))
			})
			must.OK(t, err)
		})
		b.reconnects(`document.querySelector('.pulse.bad')`)
		b.shows(`[data-rewritten="` + string(log) + `"]`)
		if log == store.Actions {
			b.reads(`[data-rewritten]`, "Records before 35 are unchanged")
		}
	}
}
