package web_test

import (
	"strings"
	"testing"
)

// A federation is made from an example, shown with its rules and the state of its keys, and deleted
// after a question. The service's refusals are shown, and nothing of a federation is markup.
func TestBrowserFederation(t *testing.T) {
	s := startService(t, "", "")
	key := s.company("acme")
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.goTo("#/federation")
	b.shows(`[data-federations="0"]`)
	b.press("GitHub Actions")
	b.wait(`document.querySelector('[name=audience]').value === location.origin + '/o/acme'`)
	b.fill(`[name=rules]`, `[{"match":{"sub":"repo:*"},"agentId":"ci"}]`)
	b.press("Create federation")
	b.reads(`[role=alert]`, "must match a claim that only the workload has")
	b.fill(`[name=rules]`, `[{"match":`)
	b.press("Create federation")
	b.reads(`[role=alert]`, "Rules is not JSON")
	b.fill(`[name=rules]`, `[{"match":{"repository":"octo-org/octo-repo","ref":"<script>violations.push('script ran')</script>"},"agentId":"ci-{repository}","register":true}]`)
	b.fill(`[name=jwks]`, pinnedKeys)
	b.press("Create federation")
	b.shows(`[data-federation="github"] [data-rule="0"]`)
	b.reads(`[data-federation="github"]`, "registered at its first use")
	b.reads(`[data-federation="github"]`, "pinned")
	if all := s.api("GET", "/v1/federation", key, nil)["federations"].([]any); len(all) != 1 || !strings.Contains(all[0].(map[string]any)["issuer"].(string), "githubusercontent") {
		t.Errorf("%v", all)
	}
	b.press("Delete")
	b.shows(`dialog.confirm`)
	b.press("Delete federation")
	b.shows(`[data-federations="0"]`)
	if all := s.api("GET", "/v1/federation", key, nil)["federations"].([]any); len(all) != 0 {
		t.Errorf("%v", all)
	}
}
