package web_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// Records are found by members of their payload; what is no condition is reported at the field,
// before anything is asked.
func TestBrowserSearchMembers(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key, _ := explorable(t, s)
	b := openBrowser(t, s.base)
	b.tall()
	b.signIn(key)
	b.goTo("#/records")
	b.fill(`.records-filters input[name="payload"]`, "order=20.0")
	b.press("Search")
	b.rows(20)
	b.wait(`location.hash === '#/records?payload=order%3D20.0'`)
	b.fill(`.records-filters input[name="payload"]`, `order="20"`)
	b.press("Search")
	b.reads(`.records-count[data-done="yes"]`, "0 records found")
	b.fill(`.records-filters input[name="payload"]`, "order")
	b.press("Search")
	b.reads(`.records-filters .hint`, "an equals sign and a value are missing")
	b.wait(`document.activeElement.name === 'payload' && document.activeElement.getAttribute('aria-invalid') === 'true' && location.hash.includes('%22')`)
	b.loadAxe()
	b.audit("members")
}

// A record without the member, which a server says has it, is refused.
func TestBrowserRejectsOtherMembers(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key, _ := explorable(t, s)
	ask, err := http.NewRequestWithContext(t.Context(), "GET", s.base+"/v1/records?payload=order%3D5", nil)
	must.OK(t, err)
	ask.Header = http.Header{"Accept": {"text/event-stream"}, "Authorization": {"Bearer " + key}}
	other, err := http.DefaultClient.Do(ask)
	must.OK(t, err)
	defer other.Body.Close()
	found, err := io.ReadAll(other.Body)
	must.OK(t, err)
	base := lie(t, s, func(path string, answer []byte) []byte {
		if path == "/v1/records" && bytes.Contains(answer, []byte(`{"order":4}`)) {
			return found
		}
		return answer
	})
	b := openBrowser(t, base)
	b.signIn(key)
	b.goTo("#/records?payload=order%3D4")
	b.reads(`.row-text.bad-text`, "record 5 is not one that was asked for")
}

// The fields for agents and actions offer names that the server knows, a bounded number, and none
// that reads otherwise than it is.
func TestBrowserCompletion(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key, _ := explorable(t, s)
	for i := range 30 {
		s.api("POST", "/v1/agents/register", key, map[string]any{"agentId": fmt.Sprintf("helper-%02d", i)})
	}
	s.api("POST", "/v1/attest", key, map[string]any{"agentId": "bot-\u202e1",
		"actionType": "<img src=x onerror=\"violations.push('script ran')\">", "payload": nil})
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.goTo("#/records")
	offered := func(field string) string {
		return fmt.Sprintf(`[...document.querySelector('input[name="%s"]').list.options].map((o) => o.value).join(' ')`, field)
	}
	b.shows(`.records-filters datalist`)
	b.wait(offered("agent") + ` === ''`) // nothing is asked before the field is used
	b.fill(`.records-filters input[name="agent"]`, "ot")
	b.wait(offered("agent") + ` === 'bot-0 bot-1 bot-2'`)
	b.fill(`.records-filters input[name="agent"]`, "helper")
	b.wait(offered("agent") + `.split(' ').length === 20`)
	b.fill(`.records-filters input[name="action"]`, "M")
	b.wait(offered("action") + ` === "mail.send payment.send <img src=x onerror=\"violations.push('script ran')\">"`)
	b.goTo("#/sessions")
	b.shows(`#sessions-agent`)
	b.fill(`input[name="agent"]`, "bot-")
	b.wait(offered("agent") + ` === 'bot-0 bot-1 bot-2'`)
	b.loadAxe()
	b.audit("completion")
}

// A search is saved under a name in this browser, opened from the page and by Ctrl-K, and removed;
// what else is in the storage is not used.
func TestBrowserSavedSearches(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key, _ := explorable(t, s)
	other := s.company("globex")
	b := openBrowser(t, s.base)
	b.tall()
	b.loadAxe()
	b.signIn(key)
	b.goTo("#/records?payload=order%3D20&agent=bot-2")
	b.rows(20)
	b.press("Save this search")
	b.wait(`document.activeElement.name === 'name'`)
	b.press("Save")
	b.reads(`.saved .hint`, "Give it a name")
	b.fill(`.saved input[name="name"]`, `Twenty <b>`)
	b.press("Save")
	b.reads(`.saved a[aria-current]`, "Twenty <b>")
	b.wait(`document.activeElement.matches('.saved')`)
	b.audit("saved searches")
	stored := eval[string](b, `localStorage.getItem('attestd.searches')`)
	if strings.Contains(stored, key) || !strings.Contains(stored, `"companyId":"acme"`) {
		t.Errorf("the storage has %s", stored)
	}
	b.goTo("#/records")
	b.wait(`document.querySelectorAll('.vlist-row').length > 20`)
	b.press("Twenty <b>")
	b.rows(20)
	b.goTo("#/start")
	eval[bool](b, `document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'k', ctrlKey: true, bubbles: true, cancelable: true})) || true`)
	b.fill(`.palette input`, "twen")
	b.reads(`.palette [aria-selected=true]`, "Search Twenty <b>")
	eval[bool](b, `document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true, cancelable: true})) || true`)
	b.rows(20)
	eval[bool](b, `(document.querySelector('.saved button[aria-label^="Remove"]').click(), true)`)
	b.wait(`!document.querySelector('.saved ul')`)

	eval[bool](b, `(localStorage.setItem('attestd.searches', JSON.stringify([{companyId: 'acme', name: 'bad', query: {page: 'keys'}}])), true)`)
	b.goTo("#/start")
	b.goTo("#/records?q=needle")
	b.rows(17)
	b.wait(`document.querySelector('.saved[data-saved="0"]')`)
	b.press("Save this search")
	b.fill(`.saved input[name="name"]`, "Needle")
	b.press("Save")
	b.reads(`.saved a`, "Needle")
	b.goTo("#/start")
	b.press("Sign out")
	b.signIn(other)
	b.goTo("#/records?q=needle")
	b.wait(`document.querySelector('.saved[data-saved="0"]')`)
}
