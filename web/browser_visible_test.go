package web_test

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"attestd/internal/testenv"
)

// unseenIn is all text of the page, and all attributes that are read or shown, with a character
// that a reader cannot see.
const unseenIn = `(() => {
	const unseen = /(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u;
	const found = [];
	const texts = document.createTreeWalker(document.querySelector('#app'), NodeFilter.SHOW_TEXT);
	while (texts.nextNode()) if (unseen.test(texts.currentNode.data) && !texts.currentNode.parentNode.closest('textarea')) found.push(texts.currentNode.parentNode.outerHTML.slice(0, 200));
	for (const e of document.querySelectorAll('#app *')) for (const { name, value } of e.attributes) if (name !== 'value' && unseen.test(value)) found.push(name + '=' + JSON.stringify(value).slice(0, 200));
	return found.concat(unseen.test(document.title) ? ['title'] : []);
})()`

// Characters that turn the order of a text, or are not seen at all, are shown by their numbers on
// every page, wherever the text comes from; what is copied is the text as it is, and names written
// from right to left stay readable.
func TestBrowserInvisibleCharacters(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	const hidden = "pay\u202eeb\u200bot\u2066\U000E0041"
	s := startService(t, "", "")
	key := furnish(s)
	payload := fmt.Sprintf(`{"note":"%[1]s","%[1]s":["%[1]s"]}`, hidden)
	s.api("POST", "/v1/attest", key, fmt.Sprintf(`{"agentId":%s,"actionType":%s,"payload":%s}`, jsString(hidden), jsString("do "+hidden), payload))
	s.api("POST", "/v1/attest", key, fmt.Sprintf(`{"agentId":%s,"actionType":"read","payload":%s}`, jsString("שרת \u200f1"), jsString(strings.Repeat(hidden, 4000))))
	s.api("POST", "/v1/attest", key, `{"agentId":"سارة","actionType":"read","payload":1}`)
	s.api("POST", "/v1/agents/register", key, map[string]any{"agentId": "agent-1", "metadata": map[string]any{hidden: hidden}})
	s.api("POST", "/v1/keys", key, map[string]any{"label": hidden})
	jti := s.api("GET", "/v1/passports", key, nil)["passports"].([]any)[0].(map[string]any)["jti"].(string)
	s.api("POST", "/v1/passports/"+jti+"/revoke", key, map[string]any{"reason": hidden})

	b := openBrowser(t, s.base)
	eval[bool](b, `(window.copied = [], Object.defineProperty(navigator, 'clipboard', { value: { writeText: async (text) => copied.push(text) } }), true)`)
	b.signIn(key)
	check := func(where string) {
		t.Helper()
		b.settle()
		for _, found := range eval[[]string](b, unseenIn) {
			t.Errorf("%s has a character that nobody sees: %s", where, found)
		}
	}
	for _, hash := range eval[[]string](b, `[...document.querySelectorAll('nav a')].map((a) => a.getAttribute('href'))`) {
		b.goTo(hash)
		b.settle()
		check(hash)
	}
	b.goTo("#/live")
	b.reads(`li[data-index="15"]`, "do pay⟨U+202E⟩eb⟨U+200B⟩ot⟨U+2066⟩⟨U+E0041⟩")
	b.wait(`document.querySelectorAll('li[data-index="15"] bdi .unseen').length === 20`)
	b.wait(`document.querySelector('li[data-index="17"] bdi')?.textContent === 'سارة'`)
	check("#/live")
	for _, index := range []int{15, 16} {
		b.goTo(fmt.Sprintf("#/records/%d", index))
		b.shows(`dialog pre .unseen`)
		check(fmt.Sprintf("record %d", index))
	}
	b.goTo("#/records/15")
	b.reads("dialog h2", "Record 15")
	b.press("Copy as sent")
	b.wait(`copied.length`)
	if got := eval[string](b, `copied[0]`); got != payload {
		t.Errorf("copied is %q", got)
	}
	b.press("Verification steps")
	check("the steps of a record")

	b.goTo("#/records")
	b.shows(`main .unseen`)
	check("#/records")
	b.wait(`[...document.querySelectorAll('main bdi')].some((e) => e.textContent === 'سارة')`)
	for _, page := range []string{"#/records?agent=", "#/records?action=", "#/records?q=", "#/records?delegatedBy=", "#/agents?q=", "#/control?q=", "#/control?subject=", "#/report?since=", "#/checkpoints/", "#/records/", "#/"} {
		b.goTo(page + url.PathEscape(hidden))
		check(page)
	}
	b.goTo("#/keys")
	b.wait(`document.querySelector('.table .unseen')`)
	check("#/keys")
	b.goTo("#/passports")
	b.wait(`document.querySelector('.table .unseen')`)
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"sub":` + jsString("spiffe://d/company/"+hidden) + `,"iss":` + jsString(hidden) + `,"act":{"sub":` + jsString(hidden) + `}}`))
	b.enter(`textarea[name="token"]`, base64.RawURLEncoding.EncodeToString([]byte(`{"alg":`+jsString(hidden)+`,"typ":"JWT"}`))+"."+claims+".AAAA")
	b.shows(`[data-token] .principals .unseen`)
	b.press("Header and claims")
	check("a token")
	b.goTo("#/agents/agent-1")
	b.shows(`main pre .unseen, dialog pre .unseen`)
	check("an agent")
	b.goTo("#/agents/" + hidden)
	b.shows(`h1 .unseen, dialog h2 .unseen`)
	check("an agent that is none")

	b.goTo("#/proof/15")
	b.shows(`[data-evidence]`)
	b.press("Record")
	check("a proof")
	for _, file := range []string{evidenceOf(s, key, "/v1/evidence/15"), jsonOf(t, savedOf(s, key, "acme", 15)), hidden, `{"` + hidden + `":1}`} {
		b.drop(hidden+".json", file)
		b.wait(`document.querySelector('h2 .unseen, [role="alert"] .unseen')`)
		check("a dropped file")
	}
}
