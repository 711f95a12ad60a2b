package web_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/rewrite"
	"attestd/internal/testenv"
	"attestd/store"
)

// rewritten returns a console that knows that the history of acme was rewritten from record 35 of
// 40 on, of a confirmed key.
func rewritten(t *testing.T) (b *browser, s *service, key string) {
	t.Helper()
	address := freePort(t)
	s = startService(t, "", address)
	key = s.company("acme")
	s.attest(key, 40)
	b = openBrowser(t, s.base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/live")
	b.shows(`.pulse.ok`)
	schema, err := os.ReadFile("../schema.sql")
	must.OK(t, err)
	s = s.restart(address, func() {
		_, err := rewrite.Record(t.Context(), s.db, string(schema), store.Options{}, "acme", store.Actions, 35, func(payload []byte) []byte {
			return []byte(strings.ReplaceAll(string(payload), `"amount"`, `"amounT"`))
		})
		must.OK(t, err)
	})
	b.reconnects(`document.querySelector('.pulse.bad')`)
	return b, s, key
}

// While the browser knows that the history was rewritten, nothing of the company is green on any
// page, however well each part verifies by itself: neither a report, on the screen, saved or
// printed, nor a proof, and each gives the reason. Evidence that is dropped in after signing out
// gives it too.
func TestBrowserFindingSuppressesGreen(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	b, s, key := rewritten(t)
	s.api("POST", "/v1/agents/register", key, map[string]any{"agentId": "deploy-bot"})
	nothingGreen := func(where string) {
		t.Helper()
		if n := eval[int](b, `document.querySelectorAll('.ok, [data-tone="ok"], [data-check="ok"]').length`); n > 0 {
			t.Errorf("%s: %d things are green beside a history that was rewritten: %s", where, n, eval[string](b, `document.querySelector('.ok')?.outerHTML`))
		}
	}
	b.goTo("#/report")
	b.press("Create the report of everything")
	b.shows(`[data-report="bad"]`)
	b.reads(`[data-report] .notice`, "The history was rewritten.")
	nothingGreen("report")
	eval[bool](b, keepSaved)
	b.press("Save this page")
	saved := eval[string](b, `saved[0].text()`)
	if !strings.Contains(saved, "The history was rewritten.") || !strings.Contains(saved, `data-report="bad"`) || strings.Contains(saved, `class="notice ok`) {
		t.Error("the saved report does not say that the history was rewritten, or is green")
	}
	b.print("report-rewritten")

	b.goTo("#/proof/5")
	b.shows(`[data-evidence="bad"]`)
	b.reads(`[data-evidence] .notice`, "The history was rewritten.")
	b.reads(`[data-evidence] .notice`, "Holds.")
	nothingGreen("proof")
	evidence := string(s.raw(key, "/v1/evidence/5", "application/json"))

	b.goTo("#/verify")
	b.press("Verify the whole chain")
	b.shows(`[data-verdict][data-tone="bad"]`)
	b.press("Save report")
	if answer := eval[string](b, `saved.at(-1).text()`); !strings.Contains(answer, `"kind": "rewritten"`) || !strings.Contains(answer, `"holds": false`) {
		t.Errorf("the saved verification says nothing of the finding: %s", answer)
	}
	for _, page := range []struct{ hash, there string }{
		{"#/verify", `[data-verdict]`}, {"#/live", `[data-checked="0-40"], .entry`}, {"#/records", `[data-index="39"][data-check="warn"]`}, {"#/records/3", `dialog [data-check="warn"]`},
		{"#/agents/deploy-bot", `.change-line[data-check="warn"]`}, {"#/control", `.change[data-check="warn"]`}, {"#/control/0", `dialog [data-check="warn"]`},
		{"#/checkpoints", `[data-log="control"][data-checkpoint="bad"]`},
	} {
		b.goTo(page.hash)
		b.shows(page.there)
		b.shows(`.news [data-finding="rewritten"]`)
		nothingGreen(page.hash)
	}
	b.goTo("#/proof")
	b.press("Sign out")
	b.goTo("#/proof")
	b.drop("evidence-acme-5.json", evidence)
	b.shows(`[data-evidence="bad"]`)
	b.reads(`[data-evidence] .notice`, "The history was rewritten.")
	nothingGreen("evidence from a file")
}

// A record that fails causes a banner on every page, also on a phone and for a record of the
// control log, until a user acknowledges it with a reason. The journal keeps the finding, the
// reason and the time over a reload, and can be saved.
func TestBrowserFindingIsABannerUntilAcknowledged(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := administer(s)
	s.attest(key, 30)
	tamper(t, s.db,
		`DROP TRIGGER record_no_update`,
		`UPDATE record SET payload = replace(payload, '"planner"', '"plannee"') `)
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/control")
	b.shows(`.change[data-check="bad"]`)
	for _, page := range strings.Fields("start live records proof verify agents passports control checkpoints report keys reference") {
		b.goTo("#/" + page)
		b.shows(fmt.Sprintf(`[aria-current="page"][href="#/%s"]`, page))
		b.reads(`.news [data-finding="failure"][data-finding-log="control"] [role="alert"]`, "of the control log")
		for _, width := range []int64{360, 1280} {
			b.look(look{width, "light"})
			if area := eval[float64](b, `((r) => r.width * r.height / innerWidth)(document.querySelector('[data-finding] .notice').getBoundingClientRect())`); area < 40 {
				t.Errorf("%s at %d px: the banner has %.0f px", page, width, area)
			}
		}
	}
	b.fits("a page with a finding")
	b.look(look{360, "light"})
	b.goTo("#/control")
	b.shows(`.change[data-check="bad"]`)
	b.fits("the control log with a finding")
	b.picture("finding-360-light", "")
	b.look(look{1280, "light"})
	b.picture("finding-1280-light", "")
	b.goTo("#/agents")
	b.press("Acknowledge…")
	b.press("Acknowledge") // without a reason nothing happens
	b.shows(`dialog [name="reason"]:invalid`)
	b.shows(`[data-finding]`)
	b.fill(`dialog [name="reason"]`, "we changed <b>it</b> ourselves")
	b.press("Acknowledge")
	b.wait(`!document.querySelector('[data-finding], dialog')`)
	b.goTo("#/start")
	b.reload()
	b.signIn(key)
	b.goTo("#/verify")
	b.reads(`[data-journal="failure"]`, "Reason: we changed <b>it</b> ourselves")
	b.reads(`[data-journal="failure"]`, "acknowledged 2")
	b.fits("the journal")
	b.picture("journal-1280-light", "")
	eval[bool](b, keepSaved)
	b.press("Save journal")
	if saved := eval[string](b, `saved.at(-1).text()`); !strings.Contains(saved, `"reason": "we changed <b>it</b> ourselves"`) || !strings.Contains(saved, `"log": "control"`) {
		t.Errorf("the saved journal: %s", saved)
	}
}
