package web_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
)

// A policy is written, its mistake found by line and column, tried on what is on record, put in
// force, edited and deleted. Which are in force and who put them comes from control records that
// were checked.
func TestBrowserPolicies(t *testing.T) {
	s := startService(t, "", "")
	key := s.company("acme")
	for _, command := range []string{"ls", "git push --force", "make"} {
		s.api("POST", "/v1/attest", key, map[string]any{
			"agentId": "bot", "actionType": "tool.requested",
			"payload": map[string]any{"tool": "Bash", "input": map[string]any{"command": command}},
		})
	}
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/policies")
	b.reads(`[data-policies="0"]`, "everything is allowed")
	b.press("New policy")
	b.fill(`[name=policyId]`, "rules")
	b.fill(`[name=cedar]`, "permit (principal,\n action resource);")
	b.press("Try the draft")
	b.reads(`[data-editor] [role=alert]`, "Line 2, column 9")
	b.wait(`document.activeElement.name === 'cedar' && document.activeElement.selectionStart === 27`)
	b.fill(`[name=cedar]`, "permit (principal, action, resource) unless { context.words.contains(\"git push --force\") };\n// <b>bold</b>")
	b.press("Try the draft")
	b.reads(`[data-tried="3"][data-different="1"]`, "record 1: not decided, becomes denied")
	b.reads(`[data-tried]`, "This browser has not")
	b.press("Put in force…")
	b.reads(`dialog.confirm`, "what no policy permits is denied")
	b.press("Put in force")
	b.reads(`[data-policies="1"]`, "revision 1")
	b.reads(`[data-policy=rules] pre`, "<b>bold</b>")
	b.shows(`[data-policy=rules] [data-action="policy.put"][data-check=ok]`)

	// What it names must exist, unless its author insists.
	b.press("Edit")
	b.fill(`[name=cedar]`, "permit (principal, action, resource) when { context.later };")
	b.press("Put in force…")
	b.press("Put in force")
	b.reads(`[data-editor] [role=alert]`, "Line 1, column 53")
	eval[bool](b, `(document.querySelector('[name=force]').click(), true)`)
	b.press("Put in force…")
	b.press("Put in force")
	b.reads(`[data-policies="1"]`, "revision 2")
	b.press("Delete")
	b.reads(`dialog.confirm`, "without it everything is allowed")
	b.press("Delete policy")
	b.shows(`[data-policies="0"]`)
	b.reads(`main`, "control record")
}

// Decisions are found by verdict and by policy; the histogram says how many were refused, and a
// record shows the text of the rule as it was, although it is another one now.
func TestBrowserFindsDecisions(t *testing.T) {
	s := startService(t, "", "")
	key := s.company("acme")
	put := func(id, cedar string) {
		s.api("PUT", "/v1/policies/"+id, key, map[string]any{"cedar": cedar})
	}
	put("all", "permit (principal, action, resource);")
	put("no-make", `forbid (principal, action, resource) when { context.programs.contains("make") };`)
	for _, command := range []string{"ls", "make", "pwd"} {
		s.api("POST", "/v1/attest", key, map[string]any{
			"agentId": "bot", "actionType": "tool.requested",
			"payload": map[string]any{"tool": "Bash", "input": map[string]any{"command": command}},
		})
	}
	put("no-make", `forbid (principal, action, resource) when { context.programs.contains("ls") };`)
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/start")
	b.reads(`[data-day]`, "1 request denied by the service")
	b.reads(`[aria-label="Incidents"] [href="#/records?decision=deny&last=24h"]`, "1 denied by the service")
	b.goTo("#/records")
	b.shows(`.histogram-bars .refused`)
	b.wait(`[...document.querySelectorAll('.histogram-bars button')].some((e) => / 1 denied$/.test(e.ariaLabel))`)
	b.goTo("#/records?decision=deny&policy=no-make")
	b.rows(1)
	b.wait(`document.querySelector('[name=decision]').value === 'deny' && document.querySelector('[name=policy]').value === 'no-make'`)
	b.goTo("#/records?policy=no-make%230")
	b.reads(`main`, "policy must be the ID of a policy")
	b.goTo("#/records/1")
	b.shows(`dialog [data-check="ok"]`)
	b.press("The policies that decided, as they were")
	b.reads(`[data-rules="1"] [data-rule="no-make"] pre`, `contains("make")`)
	b.shows(`[data-rule="no-make"] [data-action="policy.put"][data-check=ok]`)
}

// What the server says of the policies is compared with the control log. A set that it makes up is
// red, and no policy is shown of a control log from which a change was left out or in which a text
// was altered.
func TestBrowserPoliciesOfALiar(t *testing.T) {
	s := startService(t, "", "")
	key := s.company("acme")
	for i := range 3 {
		s.api("PUT", fmt.Sprintf("/v1/policies/p%d", i), key, map[string]any{"cedar": "permit (principal, action, resource);"})
	}
	var told atomic.Pointer[func(path string, answer []byte) []byte]
	tell := func(change func(path string, answer []byte) []byte) { told.Store(&change) }
	tell(func(_ string, answer []byte) []byte { return answer })
	b := openBrowser(t, lie(t, s, func(path string, answer []byte) []byte { return (*told.Load())(path, answer) }))
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/policies")
	b.shows(`[data-policies="3"] ~ *`)
	b.wait(`document.querySelectorAll('[data-policy] [data-check=ok]').length === 3 && !document.querySelector('main [role=alert]')`)
	tell(func(path string, answer []byte) []byte {
		if path == "/v1/policies" {
			return bytes.Replace(answer, []byte(`"revision":3`), []byte(`"revision":4`), 1)
		}
		return answer
	})
	b.press("Refresh")
	b.reads(`main [role=alert]`, "The server says that revision 4 is in force")
	tell(func(path string, answer []byte) []byte {
		var page map[string]json.RawMessage
		var records []json.RawMessage
		if path != "/v1/records" || json.Unmarshal(answer, &page) != nil || json.Unmarshal(page["records"], &records) != nil {
			return answer
		}
		page["records"] = []byte(jsonOf(t, slices.DeleteFunc(records, func(r json.RawMessage) bool {
			return bytes.Contains(r, []byte(`"policyId":"p1"`))
		})))
		return []byte(jsonOf(t, page))
	})
	b.press("Refresh")
	b.reads(`main [role=alert]`, "No control record has revision 2 of the policies")
	b.wait(`!document.querySelector('[data-policy]')`)
	tell(func(path string, answer []byte) []byte {
		if path == "/v1/records" {
			return bytes.ReplaceAll(answer, []byte(`"cedar":"permit`), []byte(`"cedar":"forbid`))
		}
		return answer
	})
	b.press("Retry")
	b.reads(`main .page [role=alert]`, "fails: its content")
	b.wait(`!document.querySelector('[data-policy]')`)
}
