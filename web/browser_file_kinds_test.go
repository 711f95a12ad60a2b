package web_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"attestd/chain/filekind"
	"attestd/chain/filekind/kindtest"
	"attestd/internal/must"
)

// isRefused drops a file of a kind that the page does not read: it says what that is and who checks
// it, and nothing of it has the colour of a verdict.
func (b *browser) isRefused(kind filekind.Kind, text string) {
	b.t.Helper()
	name := "a " + string(kind)
	b.drop(name, text)
	b.shows(fmt.Sprintf(`.drop [data-other=%q]`, kind))
	b.reads(".drop [data-other]", fmt.Sprintf("%s is %s.", name, kind.Is()))
	if n := eval[int](b, `document.querySelectorAll('[data-verdict], .notice.ok, .notice.warn, .notice.bad').length`); n > 0 {
		b.t.Errorf("%s has %d things with the colour of a verdict", name, n)
	}
}

func kinds(t *testing.T) (table map[filekind.Kind]map[string]string, samples map[filekind.Kind]string) {
	t.Helper()
	table, err := kindtest.Table()
	must.OK(t, err)
	samples, err = kindtest.Samples()
	must.OK(t, err)
	return table, samples
}

// verifier.html has a verdict on the files that the table of docs/auditors.md says that it reads,
// and on no others.
func TestBrowserVerifierReadsWhatTheTableSays(t *testing.T) {
	table, samples := kinds(t)
	b := openPage(t, fromDisk(t), chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND"))
	b.enter(`input[name="fingerprint"]`, sampleKey)
	for kind, cells := range table {
		switch cell := cells[kindtest.Verifier]; cell {
		case "yes":
			b.drop("own", samples[kind])
			b.shows(`[data-file="own"][data-verdict="holds"]`)
			b.wait(`!document.querySelector('[data-other]')`)
		case kindtest.No:
			b.isRefused(kind, samples[kind])
		default:
			t.Errorf("the table says %q of %s", cell, kind)
		}
	}
}

// Each page of the console with a place for files takes the files that the table of
// docs/auditors.md says that it checks, and no others.
func TestBrowserConsoleReadsWhatTheTableSays(t *testing.T) {
	table, samples := kinds(t)
	s := startService(t, "", "")
	b := openBrowser(t, s.base)
	b.signIn(s.company("acme"))
	for page, taken := range map[string]string{
		"Proof":       `document.querySelector('main').textContent.includes('own')`,
		"Report":      `document.querySelector('[data-report]')`,
		"Checkpoints": `document.querySelector('#kept [data-saved], #kept .notice')`,
		"Passports":   `document.querySelector('[data-verdict]')`,
	} {
		b.goTo("#/" + strings.ToLower(page))
		b.reads("h1", page)
		b.shows(".drop")
		reads := 0
		for kind, cells := range table {
			if cells[kindtest.Console] != "**"+page+"**" {
				b.isRefused(kind, samples[kind])
			}
		}
		for kind, cells := range table {
			if cells[kindtest.Console] == "**"+page+"**" {
				b.drop("own", samples[kind])
				b.wait(`!document.querySelector('[data-other]')`)
				b.wait(taken)
				reads++
			}
		}
		if reads == 0 {
			t.Errorf("the table has nothing for the page %s", page)
		}
	}
}
