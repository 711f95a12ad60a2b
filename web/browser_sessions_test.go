package web_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"

	"attestd/crypto/jose"
	"attestd/crypto/statement"
	"attestd/internal/testenv"
)

// toolCall is an attestation of an event of a tool call in a session.
func toolCall(agent, sid, action string, payload map[string]any) map[string]any {
	payload["source"], payload["sessionId"] = "claude-code", sid
	return map[string]any{"agentId": agent, "actionType": action, "payload": payload}
}

// hookSession records a session of hooks: a call of each outcome, one of them by delegation, one
// without an outcome, and texts that are no markup.
func (s *service) hookSession(key, agent, sid string) {
	s.t.Helper()
	send := func(action string, payload map[string]any) {
		s.t.Helper()
		s.api("POST", "/v1/attest", key, toolCall(agent, sid, action, payload))
	}
	const script = "\u202e<script>violations.push('script ran')</script>"
	send("tool.requested", map[string]any{"tool": "Bash", "callId": "c1", "input": script + " go test ./..."})
	send("tool.completed", map[string]any{"tool": "Bash", "callId": "c1", "output": "ok", "durationMs": 1234})
	send("tool.requested", map[string]any{"tool": "Write", "callId": "c2", "input": map[string]any{"path": "/etc/passwd"}})
	send("tool.denied", map[string]any{"tool": "Write", "callId": "c2", "reason": "no valid passport " + script})
	send("tool.requested", map[string]any{"tool": "Read", "callId": "c3", "input": map[string]any{"path": "x"}})
	send("tool.failed", map[string]any{"tool": "Read", "callId": "c3", "error": "no such file"})
	send("tool.requested", map[string]any{"tool": script, "callId": "c4"})
}

const sessionPage = "#/sessions/s-1?agent=coder&kind=hook"

// A session of hooks is shown as its calls, each checked here, and never as complete; what comes
// while it runs is added, its file is checked when it is saved, and its link leads to a call.
func TestBrowserSessionOfHooks(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.hookSession(key, "coder", "s-1")
	s.api("POST", "/v1/attest", key, toolCall("coder", "other", "tool.requested", map[string]any{"callId": "c1"}))
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.goTo("#/sessions")
	b.shows(`[data-sessions="2"]`)
	b.fill(`input[name="agent"]`, "nobody")
	eval[bool](b, `(document.querySelector('input[name="agent"]').form.requestSubmit(), true)`)
	b.reads(`[data-sessions="0"]`, "No session matches")
	b.goTo("#/sessions?agent=coder&kind=hook&since=2020-01-01T00%3A00%3A00.000Z")
	b.reads(`tr[data-session="s-1"][data-state="unproven"]`, "unproven, no end on record")
	eval[bool](b, `(document.querySelector('tr[data-session="s-1"] a').click(), true)`)
	b.shows(`[data-whole="unproven"][data-whole-tone=""]`)
	b.shows(`[data-call="0"][data-state="completed"][data-check="warn"]`)
	b.confirmKey(s, "acme")
	b.goTo(sessionPage)
	b.shows(`[data-whole="unproven"][data-whole-tone=""]`)
	b.shows(`[data-checked="7"]`)
	b.reads(`[data-call="0"][data-state="completed"][data-check="ok"]`, "1.2 s")
	b.reads(`[data-call="0"] .call-asked`, "go test ./...")
	b.reads(`[data-call="1"][data-state="denied"][data-check="ok"] .call-outcome`, "no valid passport")
	b.reads(`[data-call="2"][data-state="failed"]`, "no such file")
	b.reads(`[data-call="3"][data-state="none"]`, "no outcome yet")
	b.shows(`[data-calls="4"][data-denied="1"][data-failed="1"][data-open="1"]`)
	if green := eval[int](b, `document.querySelectorAll('.session-summary .badge.ok').length`); green != 0 {
		t.Error("a session that cannot be proven is green")
	}

	s.api("POST", "/v1/attest", key, toolCall("coder", "s-1", "tool.completed", map[string]any{"tool": "x", "callId": "c4"}))
	b.shows(`[data-call="3"][data-state="completed"][data-check="ok"]`)
	s.api("POST", "/v1/attest", key, toolCall("coder", "s-1", "session.ended", map[string]any{"reason": "exit"}))
	b.reads(`[data-call="4"][data-state="event"]`, "exit")
	b.reads(`.session-summary`, "ended")
	b.shows(`[data-checked="9"]`)

	if saved := b.download("Save file"); !strings.HasPrefix(saved, `{"format":"attestd-report/v1"`) || strings.Count(saved, `"sessionId":"s-1"`) != 9 {
		t.Errorf("the saved file is %.200q", saved)
	}
	b.reads(`[data-checked-session="ok"]`, "nothing is left out of its time")
	eval[bool](b, `(document.querySelector('[data-call="1"] a').click(), true)`)
	b.reads("[data-open-call]", "Record 2 in the log")
	b.reads("[data-open-call] .call-head", "Write /etc/passwd, then denied")
	b.press("tool.denied")
	b.reads("[data-open-call]", "Record 3 in the log")
	if hash := eval[string](b, `location.hash`); !strings.Contains(hash, "record=2") {
		t.Errorf("the link is %s", hash)
	}
	b.press("Close")
	b.goTo("#/agents/coder")
	b.shows(`[data-sessions="2"] tr[data-session="s-1"]`)
}

// What the policies decided of a call is beside it, in the rows of records and on the page of its
// record, and a call that they denied and that ran makes its session an exception.
func TestBrowserDecisions(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.api("PUT", "/v1/policies/all", key, map[string]any{"cedar": `permit (principal, action, resource);`})
	s.api("PUT", "/v1/policies/no-rm", key, map[string]any{"cedar": `forbid (principal, action, resource == Tool::"rm");`})
	for _, tool := range []string{"ls", "rm"} {
		s.api("POST", "/v1/attest", key, toolCall("coder", "s-1", "tool.requested", map[string]any{"tool": tool, "callId": tool, "input": map[string]any{"path": "x"}}))
	}
	s.api("POST", "/v1/attest", key, toolCall("coder", "s-1", "tool.completed", map[string]any{"tool": "rm", "callId": "rm"}))
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.goTo(sessionPage)
	b.reads(`[data-call="0"] .call-decision`, "allowed by all")
	b.reads(`[data-call="1"] .call-decision .warn-text`, "denied")
	b.reads(`[data-call="1"] .call-decision`, "by no-rm")
	b.shows(`[data-whole="disobeyed"][data-whole-tone="bad"]`)
	b.goTo("#/records/1")
	b.reads(`.decision`, "POLICY_DENIED")
	b.reads(`.decision`, "revision 2")
	b.goTo("#/records")
	b.reads(`main`, "denied by no-rm")
	b.goTo("#/control")
	b.reads(`main`, "The policy no-rm was put")
}

// A session of statements is green only where it is complete, each record holds, and the agent's
// key is confirmed by the reader.
func TestBrowserSessionOfStatements(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.api("POST", "/v1/agents/register", key, map[string]any{"agentId": "bot"})
	a := s.signer(key, "bot", jose.EdDSA)
	a.steps("run-1", true, 0, 1, 2)
	a.steps("run-2", false, 0, 1)
	a.steps("run-3", true, 1, 5)
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	of := func(sid string) string {
		return "#/sessions/" + sid + "?agent=bot&kind=statement&kid=" + a.thumbprint()
	}
	b.goTo(of("run-1"))
	// with an unconfirmed key
	b.reads(`[data-whole="complete"][data-whole-tone="warn"]`, "complete: 0 to 2")
	b.goTo(of("run-2"))
	b.reads(`[data-whole="open"][data-whole-tone=""]`, "open at 1")
	b.goTo(of("run-3"))
	b.reads(`[data-whole="missing"][data-whole-tone="bad"]`, "missing 0, 2–4")
	b.goTo("#/agents/bot")
	b.shows(`[data-keys="1"]`)
	b.fill(`input[name="thumbprint"]`, a.thumbprint())
	b.press("Confirm key")
	b.shows(fmt.Sprintf(`tr[data-key=%q][data-key-state="confirmed"]`, a.thumbprint()))
	b.goTo(of("run-1"))
	b.reads(`[data-whole="complete"][data-whole-tone="ok"]`, "complete: 0 to 2")
}

// A session says what of it the service has refused, and from which one it goes on.
func TestBrowserSessionThatGoesOn(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.api("POST", "/v1/agents/register", key, map[string]any{"agentId": "bot"})
	a := s.signer(key, "bot", jose.EdDSA)
	a.steps("run-1", false, 0)
	refused := strings.Repeat("ab", 32)
	a.states(2, func(c *statement.Claims) {
		c.Session, c.Seq, c.Previous, c.End = "run-1", 2, refused, true
		c.Refused = []statement.Refused{{Seq: 1, Hash: refused, Code: "AGENT_DISABLED"}}
	})
	last := a.last.Hash()
	a.states(3, func(c *statement.Claims) {
		c.Session, c.Continues = "run-2", &statement.Continues{Session: "run-1", KeyID: a.thumbprint(), Hash: last}
	})
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/sessions/run-1?agent=bot&kind=statement&kid=" + a.thumbprint())
	b.reads(`[data-whole="complete"]`, "complete: 0 to 2, sealed, 1 refused")
	b.reads("main", "A session that goes on from this one may exist elsewhere.")
	b.goTo("#/sessions/run-2?agent=bot&kind=statement&kid=" + a.thumbprint())
	b.reads(`[data-whole="open"]`, "open at 0")
	b.reads(`[data-continues="run-1"]`, last)
	b.press("session run-1")
	b.reads(`[data-whole="complete"]`, "1 refused")
	b.goTo("#/records/2")
	b.reads(`dialog [data-word="agent"]`, "Its session goes on from the session run-1 of the key "+a.thumbprint())
}

// A server that leaves an outcome out, changes a record, shows one of another session, or says that
// something is complete that is not, is found out.
func TestBrowserSessionOfALiar(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.hookSession(key, "coder", "s-1")
	s.api("POST", "/v1/agents/register", key, map[string]any{"agentId": "bot"})
	a := s.signer(key, "bot", jose.EdDSA)
	a.steps("run-1", true, 0, 1, 2, 3)
	const records, list = "/v1/sessions/coder/s-1/records", "/v1/sessions"
	signed := "#/sessions/run-1?agent=bot&kind=statement&kid=" + a.thumbprint()
	for _, c := range []struct {
		does, page string
		change     func(path, answer string) string
		shows      string
		reads      string
	}{
		{"leaves an outcome out", sessionPage, func(path, answer string) string {
			if path == records {
				return withoutRecord(answer, 1)
			}
			return answer
		}, `[data-whole="lacking"][data-whole-tone="bad"]`, "lists 7 records of this session, and returned 6"},
		{"leaves it out of the list too", sessionPage, func(path, answer string) string {
			if path == records {
				return withoutRecord(answer, 1)
			}
			return strings.Replace(answer, `"records":7`, `"records":6`, 1)
		}, `[data-whole="lacking"][data-whole-tone="bad"]`, "Without an outcome 2"},
		{"changes a record", sessionPage, func(path, answer string) string {
			if path == records {
				return strings.Replace(answer, "no such file", "no such fire", 1)
			}
			return answer
		}, `[data-whole="fails"][data-whole-tone="bad"]`, "a record fails"},
		{"shows a record of another session", sessionPage, func(path, answer string) string {
			if path == records {
				return strings.Replace(answer, `"sessionId":"s-1"`, `"sessionId":"s-2"`, 1)
			}
			return answer
		}, `[data-whole="fails"][data-whole-tone="bad"]`, "a record fails"},
		{"calls a session of hooks sealed", sessionPage, func(path, answer string) string {
			if path == list {
				return strings.Replace(answer, `"unproven"`, `"sealed"`, 1)
			}
			return answer
		}, `.notice.bad`, "it calls a session of hook sealed"},
		{"leaves a step out", signed, func(path, answer string) string {
			if path == "/v1/sessions/bot/run-1/records" {
				return withoutRecord(answer, 9)
			}
			return strings.Replace(answer, `"records":4`, `"records":3`, 1)
		}, `[data-whole="lacking"][data-whole-tone="bad"]`, "record 9 came over the stream, and is left out here"},
		{"leaves a step out, and shows no other record", signed, func(path, answer string) string {
			switch path {
			case "/v1/chain":
				return `{"records":[]}`
			case "/v1/sessions/bot/run-1/records":
				return withoutRecord(answer, 9)
			}
			return strings.Replace(answer, `"records":4`, `"records":3`, 1)
		}, `[data-whole="missing"][data-whole-tone="bad"]`, "missing 2, though the server says that it is sealed"},
		{"leaves the end out", signed, func(path, answer string) string {
			if path == "/v1/sessions/bot/run-1/records" {
				return withoutRecord(answer, 10)
			}
			return strings.Replace(answer, `"records":4`, `"records":3`, 1)
		}, `[data-whole="lacking"][data-whole-tone="bad"]`, "record 10 came over the stream, and is left out here"},
	} {
		t.Run(c.does, func(t *testing.T) {
			b := openBrowser(t, lie(t, s, func(path string, answer []byte) []byte { return []byte(c.change(path, string(answer))) }))
			b.signIn(key)
			b.confirmKey(s, "acme")
			b.goTo(c.page)
			b.shows(c.shows)
			b.reads(".page", c.reads)
			if eval[int](b, `document.querySelectorAll('.session-summary .badge.ok').length`) != 0 {
				t.Error("it is green")
			}
		})
	}
}

// withoutRecord takes the record with an index out of a page of records.
func withoutRecord(answer string, index int) string {
	var page map[string]json.RawMessage
	var records []json.RawMessage
	if json.Unmarshal([]byte(answer), &page) != nil || json.Unmarshal(page["records"], &records) != nil {
		return answer
	}
	records = slices.DeleteFunc(records, func(r json.RawMessage) bool { return bytes.HasPrefix(r, fmt.Appendf(nil, `{"index":%d,`, index)) })
	stored := []byte("[")
	for i, r := range records {
		if i > 0 {
			stored = append(stored, ',')
		}
		stored = append(stored, r...)
	}
	return `{"records":` + string(stored) + `]}`
}

// A session of 5,000 calls opens at once, scrolls without a gap, and is checked to its end.
func TestBrowserLongSession(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	const calls, part = 5000, 250
	for from := 0; from < calls; from += part {
		var records []any
		for i := from; i < from+part; i++ {
			name := fmt.Sprint("c", i)
			records = append(records, toolCall("coder", "s-1", "tool.requested", map[string]any{"tool": "Bash", "callId": name, "input": map[string]any{"command": strings.Repeat("x", 200), "n": i}}),
				toolCall("coder", "s-1", "tool.completed", map[string]any{"tool": "Bash", "callId": name, "output": strings.Repeat("y", 200)}))
		}
		s.api("POST", "/v1/attest/batch", key, map[string]any{"records": records})
	}
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/sessions")
	b.shows(`[data-sessions="1"]`)
	// how many requests for its records it takes from the click until the first calls are shown,
	// and until all are there
	took := eval[[]int](b, `new Promise((done) => {
		const took = [], asked = () => performance.getEntriesByType('resource').filter((e) => new URL(e.name).pathname.endsWith('/records')).length;
		const began = asked();
		const look = () => {
			if (!took.length && document.querySelector('[data-call="0"]')) took.push(asked() - began);
			if (took.length && document.querySelector('[data-calls="5000"]')) return done([...took, asked() - began]);
			requestAnimationFrame(look);
		};
		document.querySelector('tr[data-session="s-1"] a').click();
		look();
	})`)
	t.Logf("the first calls are shown after %d requests, all after %d", took[0], took[1])
	if took[0] > 2 || took[1] < 10 {
		t.Errorf("it opens after %d of %d requests", took[0], took[1])
	}
	if gaps := eval[[]int](b, `(async () => {
		const list = document.querySelector('.vlist'), gaps = [];
		const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
		for (let i = 0; i <= 60; i++) {
			list.scrollTop = (list.scrollHeight - list.clientHeight) * i / 60;
			await frame();
			const box = list.getBoundingClientRect();
			const shown = [...list.querySelectorAll('[data-call]')].map((e) => e.getBoundingClientRect()).filter((r) => r.bottom > box.top && r.top < box.bottom).sort((a, b) => a.top - b.top);
			if (!shown.length || shown[0].top > box.top + 1 || shown.at(-1).bottom < box.bottom - 40 || shown.some((r, j) => j && Math.abs(r.top - shown[j - 1].bottom) > 1)) gaps.push(i);
		}
		return gaps;
	})()`); len(gaps) > 0 {
		t.Errorf("there are gaps at %d sixtieths of the list", gaps)
	}
	b.shows(`[data-call="4999"][data-state="completed"]`)
	b.waitFor(120*time.Second, `document.querySelector('[data-checked="10000"]') && document.querySelector('[data-call="4999"][data-check="ok"]')`)
	b.shows(`[data-whole="unproven"]`)
}

// The page of a session and an open call of it are free of what axe-core finds wrong, fit windows
// of any width in both schemes, and are complete on paper.
func TestBrowserSessionLooks(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.hookSession(key, "coder", "s-1")
	b := openBrowser(t, s.base)
	b.loadAxe()
	b.signIn(key)
	b.confirmKey(s, "acme")
	for _, l := range looks(360, 1280, 1920) {
		b.look(l)
		for _, p := range []struct{ name, hash, ready string }{
			{"hooks-sessions", "#/sessions", `[data-sessions="1"]`},
			{"hooks-session", sessionPage, `[data-call="3"][data-check="ok"]`},
			{"hooks-session-call", sessionPage + "&record=0", `[data-open-call] [data-check="ok"]`},
		} {
			b.goTo(p.hash)
			b.shows(p.ready)
			name := fmt.Sprint(p.name, "-", l)
			b.picture(name, "")
			b.audit(name)
			b.fits(name)
		}
		b.goTo(sessionPage)
		b.wait(`!document.querySelector('[data-open-call]')`)
	}
	b.look(look{794, "dark"})
	b.shows(`[data-call="3"][data-check="ok"]`)
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print", Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}})
	b.settle()
	if cut := eval[[]string](b, notWhole); len(cut) > 0 {
		t.Errorf("cut off on paper: %q", cut)
	}
	for _, text := range []string{"go test ./...", "no valid passport", "no such file", "completeness cannot be proven"} {
		b.reads("main", text)
	}
	if shown := eval[int](b, `[...document.querySelectorAll('[data-call]')].filter((e) => e.checkVisibility()).length`); shown != 4 {
		t.Errorf("%d calls are printed", shown)
	}
	b.fits("a session on paper")
	b.picture("hooks-session-print", "")
}

// A call is read in words: the command, the path, an edit as removed and added lines, and why it
// was denied. Its JSON is behind a click; that of a record of no call is not.
func TestBrowserCallInWords(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	for _, step := range []struct {
		action  string
		payload map[string]any
	}{
		{"tool.requested", map[string]any{"tool": "Edit", "callId": "c1", "input": map[string]any{"file_path": "/shop/src/prices.ts", "old_string": "a\nround(x)", "new_string": "a\nroundOnce(x)"}}},
		{"tool.requested", map[string]any{"tool": "Bash", "callId": "c2", "input": map[string]any{"command": "git push --force origin main"}}},
		{"tool.denied", map[string]any{"tool": "Bash", "callId": "c2", "reason": "needs a passport"}},
		{"deploy", map[string]any{"version": "1.4.2"}},
	} {
		s.api("POST", "/v1/attest", key, toolCall("coder", "s-1", step.action, step.payload))
	}
	b := openBrowser(t, s.base)
	b.signIn(key)
	for _, width := range []int64{1280, 390} {
		b.look(look{width, "light"})
		b.goTo("#/records")
		b.reads(`[data-index="0"] .asked-file .asked-folder`, "/shop/src/")
		b.reads(`[data-index="1"] .asked-command`, "git push --force origin main")
		b.reads(`[data-index="2"] .row-text`, "Bash, then denied: needs a passport")
		if shown := eval[bool](b, `document.querySelector('[data-index="1"] .asked').checkVisibility()`); !shown {
			t.Errorf("at %d px the list does not show what was asked", width)
		}
		b.fits("records")
		b.goTo("#/records/0")
		b.reads("dialog .diff del", "round(x)")
		b.reads("dialog .diff ins", "roundOnce(x)")
		b.shows("dialog details.payload:not([open])")
		b.goTo("#/records/3")
		b.shows("dialog details.payload[open]")
		b.press("Close")
		b.goTo(sessionPage)
		b.reads(`h1[data-task="command"]`, "Bash git push --force origin main")
		b.wait(`document.querySelector('[data-denied="1"]')`)
		eval[bool](b, `(document.querySelector('.session-facts a.outcome-denied').click(), true)`)
		b.reads(`[data-open-call="1"] .call-head`, "denied: needs a passport")
		if over := eval[bool](b, `Boolean(document.querySelector('dialog[open]'))`); over != (width < 1200) {
			t.Errorf("at %d px the open call is over the list: %v", width, over)
		}
		b.fits("a session with an open call")
		b.press("Close")
		b.wait(`!document.querySelector('[data-open-call]')`)
	}
}

// A session is found by its ID. A long list has only the rows in view, and is read on as it is
// scrolled.
func TestBrowserManySessions(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	const sessions = 230
	var records []any
	for i := range sessions {
		records = append(records, toolCall("coder", fmt.Sprint("run-", i), "tool.requested", map[string]any{"tool": "Bash", "callId": "c", "input": map[string]any{"command": "ls"}}))
	}
	s.api("POST", "/v1/attest/batch", key, map[string]any{"records": records})
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.goTo("#/sessions")
	b.shows(`table [data-session="run-229"]`)
	b.press("Show more")
	b.shows(`[data-sessions="100"]`)
	b.press("Show more")
	b.wait(`document.querySelectorAll('[role=grid] [data-session]').length > 5`)
	b.waitFor(time.Minute, fmt.Sprintf(`(() => {
		const list = document.querySelector('.vlist');
		list.scrollTop = list.scrollHeight;
		return document.querySelector('[data-sessions="%d"]') && document.querySelector('[role=grid] [data-session="run-0"]');
	})()`, sessions))
	if shown := eval[int](b, `document.querySelectorAll('[role=grid] [data-session]').length`); shown > 100 {
		t.Errorf("%d rows exist", shown)
	}
	b.fill(`input[name="sid"]`, "run-77")
	eval[bool](b, `(document.querySelector('input[name="sid"]').form.requestSubmit(), true)`)
	b.shows(`[data-sessions="1"] tr[data-session="run-77"]`)
	if hash := eval[string](b, `location.hash`); hash != "#/sessions?sid=run-77" {
		t.Errorf("the search is at %s", hash)
	}
	eval[bool](b, `(document.querySelector('tr[data-session="run-77"] a').click(), true)`)
	b.reads(`h1[data-task="command"]`, "Bash ls")
}

// A call that was refused and ran all the same needs a look, is red in the list of sessions, and is
// found here from the records of its session, whatever the server says of it.
func TestBrowserCallThatDisobeyed(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	for _, step := range []struct{ action, call string }{
		{"tool.requested", "a"}, {"tool.denied", "a"}, {"tool.requested", "b"}, {"tool.denied", "b"}, {"tool.completed", "b"},
	} {
		s.api("POST", "/v1/attest", key, toolCall("coder", "s-1", step.action, map[string]any{"tool": "Bash", "callId": step.call}))
	}
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	// the service notes it some moments after the record
	for deadline := time.Now().Add(time.Minute); ; {
		b.goTo("#/sessions")
		b.shows(`[data-sessions="1"]`)
		if eval[int](b, `document.querySelectorAll('tr[data-session="s-1"][data-state="disobeyed"]').length`) == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the list of sessions never says it")
		}
		b.goTo("#/keys")
	}
	b.reads(`tr[data-session="s-1"] .badge.bad`, "disobeyed: refused at record 3, done at record 4; unproven")
	b.goTo(sessionPage)
	b.reads(`[data-whole="disobeyed"][data-whole-tone="bad"]`, "disobeyed: refused at record 3, done at record 4; completeness cannot be proven")
	b.goTo("#/start")
	b.reads(`[data-incident="disobeyed"]`, "was refused, and ran all the same")
	b.press("Show the call")
	b.reads("dialog h2", "Record 4")
}
