package web_test

import (
	"bytes"
	"testing"
)

// Ctrl-K goes to a page, a record or an agent by the keyboard alone; what the server names is no
// markup, and Escape leaves everything as it was.
func TestBrowserPalette(t *testing.T) {
	s := startService(t, "", "")
	key := s.company("acme")
	s.api("POST", "/v1/agents/register", key, map[string]any{"agentId": "img-bot"})
	s.attest(key, 3)
	base := lie(t, s, func(path string, answer []byte) []byte {
		if path != "/v1/agents" {
			return answer
		}
		return bytes.ReplaceAll(answer, []byte(`img-bot"`), []byte(`<img src=x onerror=\"violations.push('script ran')\">"`))
	})
	b := openBrowser(t, base)
	b.signIn(key)
	press := func(keys string, ctrl bool) {
		eval[bool](b, `document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: `+jsString(keys)+`, ctrlKey: `+map[bool]string{true: "true", false: "false"}[ctrl]+`, bubbles: true, cancelable: true})) || true`)
	}
	b.loadAxe()
	press("k", true)
	b.shows(`dialog.palette [role=option]`)
	b.audit("palette")
	b.fill(`.palette input`, "contr")
	b.reads(`.palette [aria-selected=true]`, "Control log")
	press("Enter", false)
	b.reads(`h1`, "Control log")
	b.wait(`!document.querySelector('.palette')`)

	press("k", true)
	b.fill(`.palette input`, "img")
	b.reads(`.palette [aria-selected=true]`, "Agent <img src=x")
	press("ArrowDown", false)
	b.reads(`.palette [aria-selected=true]`, "Records whose payload contains img")
	press("Enter", false)
	b.reads(`h1`, "Records")
	b.wait(`location.hash === '#/records?q=img'`)

	press("k", true)
	b.fill(`.palette input`, "#2")
	press("Enter", false)
	b.shows(`dialog [data-check]`)
	b.wait(`location.hash === '#/records/2'`)
	press("k", true) // an open dialog prevents a second one
	b.wait(`!document.querySelector('.palette')`)
}
