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

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// alteration is a text of JSON of which one value was altered, and what it is now; "" where it
// was left out or is no text.
type alteration struct{ text, now string }

// alterations returns a text with one alteration each: a text with another character in it, a
// number that is one more, a truth turned round, a member or an element left out, and null.
func alterations(t *testing.T, text string) (changed []alteration) {
	t.Helper()
	read := func() (root any) {
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		must.OK(t, decoder.Decode(&root))
		return root
	}
	// Each place is visited by its number, in a fresh copy.
	for place := 0; ; place++ {
		done := true
		for kind := range 3 {
			root, at := read(), 0
			altered, now := false, ""
			var visit func(v any, set func(any), remove func())
			visit = func(v any, set func(any), remove func()) {
				if at == place {
					done = false
					altered = alter(v, kind, func(to any) { now, _ = to.(string); set(to) }, remove)
				}
				at++
				switch v := v.(type) {
				case map[string]any:
					for _, name := range slices.Sorted(maps.Keys(v)) {
						visit(v[name], func(to any) { v[name] = to }, func() { delete(v, name) })
					}
				case []any:
					for i := range v {
						visit(v[i], func(to any) { v[i] = to }, func() { set(slices.Delete(v, i, i+1)) })
					}
				}
			}
			visit(root, func(to any) { root = to }, nil)
			if altered {
				changed = append(changed, alteration{jsonOf(t, root), now})
			}
		}
		if done {
			return changed
		}
	}
}

// alter makes one of three alterations at a place, and returns false where it has none of the kind.
func alter(v any, kind int, set func(any), remove func()) bool {
	switch kind {
	case 0:
		switch v := v.(type) {
		case string:
			set(otherText(v))
		case json.Number:
			n, err := v.Int64()
			if err != nil {
				return false
			}
			set(n + 1)
		case bool:
			set(!v)
		default:
			return false
		}
		return true
	case 1:
		if remove == nil {
			return false
		}
		remove()
		return true
	}
	set(nil)
	return v != nil
}

// otherText changes one character in the middle of a text, a digit or letter into the next one.
func otherText(text string) string {
	b := []byte(text)
	for i := len(b) / 2; i < len(b); i++ {
		switch c := b[i]; {
		case c >= '0' && c < '9', c >= 'a' && c < 'z', c >= 'A' && c < 'Z':
			b[i]++
			return string(b)
		}
	}
	return text + "x"
}

// greenUnits are what is green on a page: of each green mark what it stands beside, as it reads.
const greenUnits = `window.greenUnits = () => [...new Set([...document.querySelectorAll('#app .ok, #app [data-check="ok"], #app [data-tone="ok"], #app [data-verified="ok"]')]
	.filter((e) => e.checkVisibility())
	.map((e) => (e.closest('[data-check], tr, li, [role=row], .verified, .card-head, dd, p') ?? e).textContent.replace(/\s+/g, ' ').trim()))]; true`

// A server changes one value of one answer. Whatever it is, no page breaks, and nothing that it has
// written stands in anything green that is not so, word for word, with the honest server.
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
	honest := map[string]map[string]bool{}
	hashes := append(b.allPages(), "#/agents/agent-1", "#/proof/5", "#/records/8", "#/control/3",
		"#/sessions/run-1?agent=agent-1&kind=statement", "#/sessions/s-1?agent=agent-2&kind=hook")
	for _, hash := range hashes {
		honest[hash] = map[string]bool{}
		var answers [][2]string
		answers = append(answers, eval[[][2]string](b, fmt.Sprintf(`visit(%q)`, hash))...)
		for _, unit := range eval[[]string](b, `greenUnits()`) {
			honest[hash][unit] = true
		}
		asked := map[string]bool{}
		for _, answer := range answers {
			if asked[answer[0]] {
				continue
			}
			asked[answer[0]] = true
			if len(answer[1]) > 100_000 { // the API's description, which claims nothing
				continue
			}
			for _, one := range alterations(t, answer[1]) {
				lies = append(lies, lie{one, hash, answer[0]})
			}
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
			if lie.now != "" && strings.Contains(unit, lie.now) && !honest[lie.hash][unit] {
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
