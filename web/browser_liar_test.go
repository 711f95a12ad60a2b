package web_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"attestd/internal/testenv"
)

// alteration is a text of JSON of which one value was altered, and what it is now; "" where it
// was left out or is no text.
type alteration struct{ text, now string }

// alterations returns a text with one alteration each: a text with another character in it, so that
// it is nowhere in what was heard, a number that is one more, a truth turned round, a member or an
// element left out, and null.
func alterations(t *testing.T, text, heard string) (changed []alteration) {
	t.Helper()
	placesOf(t, text, func(v any, with func(any) string) {
		for _, to := range othersThan(v, heard) {
			now, _ := to.(string)
			changed = append(changed, alteration{with(to), now})
		}
	})
	return changed
}

// othersThan returns what may stand in place of a value.
func othersThan(v any, heard string) (others []any) {
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		others = append(others, otherText(v, heard))
	case json.Number:
		if n, err := v.Int64(); err == nil {
			others = append(others, n+1)
		}
	case bool:
		others = append(others, !v)
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			rest := maps.Clone(v)
			delete(rest, name)
			others = append(others, rest)
		}
	case []any:
		for i := range v {
			others = append(others, slices.Delete(slices.Clone(v), i, i+1))
		}
	}
	return append(others, nil)
}

// otherText changes one character of a text, from its middle on, a digit or letter into the next
// one, or makes it longer, until it is nowhere in what was heard.
func otherText(text, heard string) string {
	for i := len(text) / 2; i < len(text); i++ {
		switch c := text[i]; {
		case c >= '0' && c < '9', c >= 'a' && c < 'z', c >= 'A' && c < 'Z':
			if now := text[:i] + string(c+1) + text[i+1:]; !strings.Contains(heard, now) {
				return now
			}
		}
	}
	for text += "x"; strings.Contains(heard, text); text += "x" {
	}
	return text
}

// greenUnits are what is green on a page: of each green mark what it stands beside, as it reads.
const greenUnits = `window.greenUnits = () => [...new Set([...document.querySelectorAll('#app .ok, #app [data-check="ok"], #app [data-tone="ok"], #app [data-verified="ok"]')]
	.filter((e) => e.checkVisibility())
	.map((e) => (e.closest('[data-check], tr, li, [role=row], .verified, .card-head, dd, p') ?? e).textContent.replace(/\s+/g, ' ').trim()))]; true`

// A server changes one value of one answer. Whatever it is, no page breaks, and nothing that it has
// written stands in anything green.
func TestBrowserLyingServer(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := furnish(s)
	s.hookSession(key, "agent-2", "s-1")
	driver := fmt.Sprintf(fuzzDriver, jsonOf(t, ownNames(t)))
	begin := func(b *browser) {
		t.Helper()
		b.reload()
		b.signIn(key)
		eval[bool](b, driver)
		eval[bool](b, greenUnits)
	}
	open := func() *browser {
		t.Helper()
		b := openBrowser(t, s.base, chromedp.Flag("disable-frame-rate-limit", true), chromedp.Flag("disable-gpu-vsync", true))
		call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: fuzzHooks})
		b.signIn(key)
		b.confirmKey(s, "acme")
		b.tall() // so that no row that is green is out of sight
		begin(b)
		return b
	}
	b := open()

	type lie struct {
		alteration
		hash, path string
	}
	var lies []lie
	type answer struct{ hash, path, text string }
	var answers []answer
	var heard strings.Builder
	hashes := append(b.allPages(), "#/agents/agent-1", "#/proof/5", "#/records/8", "#/control/3",
		"#/sessions/run-1?agent=agent-1&kind=statement", "#/sessions/s-1?agent=agent-2&kind=hook")
	for _, hash := range hashes {
		asked := map[string]bool{}
		for _, got := range eval[[][2]string](b, fmt.Sprintf(`visit(%q)`, hash)) {
			heard.WriteString(got[1])
			// longer is the API's description, which claims nothing
			if !asked[got[0]] && len(got[1]) <= 100_000 {
				answers = append(answers, answer{hash, got[0], got[1]})
			}
			asked[got[0]] = true
		}
		heard.WriteString(eval[string](b, `document.body.textContent`))
	}
	for _, a := range answers {
		for _, one := range alterations(t, a.text, heard.String()) {
			lies = append(lies, lie{one, a.hash, a.path})
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	r.Shuffle(len(lies), func(i, j int) { lies[i], lies[j] = lies[j], lies[i] })
	total := len(lies)
	most := 40
	if testenv.Night() {
		most = 1600
	}
	lies = lies[:min(len(lies), most)]
	slices.SortStableFunc(lies, func(a, b lie) int { return strings.Compare(a.hash, b.hash) })
	green, missed := 0, 0
	for i, lie := range lies {
		if i%200 == 0 { // no browser is used for longer than it may be
			b = open()
		}
		before := eval[int](b, `missed`)
		eval[any](b, fmt.Sprintf(`feedAsked(%s).then(() => true)`, jsonOf(t, []string{lie.hash, lie.path, lie.text})))
		missed += eval[int](b, `missed`) - before
		for _, unit := range eval[[]string](b, `greenUnits()`) {
			green++
			if lie.now != "" && strings.Contains(unit, lie.now) {
				t.Errorf("%s: %q is green, with %s answering %.2000s", lie.hash, unit, lie.path, lie.text)
			}
		}
		if broken := eval[string](b, `document.querySelector('[data-broken]')?.textContent ?? ''`); broken != "" {
			t.Errorf("%s: %s breaks the page, %s: %.2000s", lie.hash, lie.path, broken, lie.text)
			begin(b)
		}
	}
	if green == 0 || missed > len(lies)/3 {
		t.Errorf("of %d lies %d were not asked for, and %d things were green: this tests nothing", len(lies), missed, green)
	}
	t.Logf("%d of %d lies, over %d pages; %d were not asked for again", len(lies), total, len(hashes), missed)
}
