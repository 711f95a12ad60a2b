package web_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"attestd/internal/testenv"
)

// Every state of the Proof page is free of what axe-core finds wrong and does not scroll sideways,
// narrow and wide, light and dark.
func TestBrowserEvidenceIsAccessible(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := furnish(s)
	axe, err := os.ReadFile("testdata/axe/axe.min.js")
	must(t, err)
	b := openBrowser(t, s.base)
	eval[bool](b, string(axe)+"; true")
	b.signIn(key)
	shots := func(name string) {
		t.Helper()
		for _, l := range looks(360, 1280, 1920) {
			b.look(l)
			at := fmt.Sprintf("%s-%s", name, l)
			b.audit(at)
			b.fits(at)
			b.picture(at, "")
			if eval[bool](b, `document.querySelector('[data-walk]') !== null`) {
				b.picture(at+"-walk", "[data-walk]")
			}
		}
	}
	whole := sample(t, "whole.json")
	b.goTo("#/proof")
	b.reads("h1", "Proof")
	shots("evidence-empty")
	b.goTo("#/proof/7")
	b.shows(`[data-evidence="warn"]`)
	shots("evidence-unconfirmed")
	b.look(look{1280, "light"})
	b.judged("whole.json", whole, "bad") // of another acme
	b.drop("policy.txt", sample(t, "policy"))
	b.shows(`[data-policy="met"]`)
	shots("evidence-another-key")
	b.look(look{1280, "light"})
	b.judged("changed.json", strings.Replace(whole, "Grüße", "Gruesse", 1), "bad")
	shots("evidence-fails")
	b.look(look{1280, "light"})
	b.enter(`textarea[name="policy"]`, "")
	b.confirmKey(s, "acme")
	b.goTo("#/proof/8")
	b.shows(`[data-evidence="ok"]`)
	shots("evidence-holds")
}
