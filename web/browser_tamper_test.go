package web_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// tamper changes a database the way someone would who has the file but not the key.
func tamper(t *testing.T, db string, statements ...string) {
	t.Helper()
	file, err := sql.Open("sqlite", "file:"+db+"?_busy_timeout=10000")
	must.OK(t, err)
	defer file.Close()
	for _, statement := range statements {
		_, err := file.Exec(statement)
		must.OK(t, err)
	}
}

// A record changed in the file while the service runs: the next record shows it on Live, and Verify
// finds it by itself.
func TestBrowserShowsFailingIndex(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 30)
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/live")
	b.shows(`.pulse[data-tone="ok"]`)
	b.shows(`[data-server="valid"]`)

	tamper(t, s.db,
		`DROP TRIGGER record_no_update`,
		`UPDATE record SET payload = replace(payload, '"amount"', '"amounT"') WHERE id & 1099511627775 = 12`)
	s.attest(key, 1)
	b.shows(`.pulse.bad[data-tone="bad"]`)
	b.shows(`[data-server="failed"]`)
	b.reads(".pulse-word", "fails at 12")
	b.shows(`li[data-index="30"][data-check="ok"]`) // the new record itself is sound
	b.look(look{1280, "light"})
	b.picture("live-failed-1280-light", "")

	b.goTo("#/verify")
	b.press("Verify the whole chain")
	b.shows(`[data-verdict="failed"][data-failed-at="12"]`)
	b.picture("verify-failed-1280-light", "")
	b.reads(`[data-verdict] .notice`, "Your browser and the server agree: the chain fails at record 12")

	// An opened record is verified before it is read: the verdict is above the payload, and no part
	// of it is called matching.
	b.goTo("#/chain/12")
	b.shows(`dialog [data-check="bad"]`)
	b.wait(`document.querySelector('dialog [data-check]').compareDocumentPosition(document.querySelector('dialog pre')) & Node.DOCUMENT_POSITION_FOLLOWING`)
	b.press("Verification steps")
	if badges := eval[[]string](b, `[...document.querySelectorAll('dialog .badge')].map((e) => e.textContent)`); len(badges) != 2 || badges[0] != "does not match" || badges[1] != "does not match" {
		t.Errorf("a changed record is said to have %v", badges)
	}
}

// Records cut off the end can't be seen from those that are left, but the server's signed length
// tells.
func TestBrowserReportsRecordsCutOff(t *testing.T) {
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 10)
	tamper(t, s.db, `DROP TRIGGER record_no_delete`, `DELETE FROM record WHERE id & 1099511627775 >= 8`)
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.goTo("#/verify")
	b.press("Verify the whole chain")
	b.shows(`[data-verdict="failed"][data-failed-at="8"]`)
	b.goTo("#/live")
	b.reads(".pulse-word", "fails at 8")
}

// Thousands of records scroll with few rows in the page, and verify in it.
func TestBrowserLargeChain(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	records := 5_000 // many screens, and several pages of answers
	if testenv.Night() {
		records = 20_000
	}
	count := fmt.Sprintf("%d,000 records", records/1000)
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, records)
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.goTo("#/records")
	b.waitFor(time.Minute, fmt.Sprintf(`document.querySelector('.records-count[data-done="yes"]')?.textContent.includes(%q)`, count))

	// Scrolled through in 120 frames: wherever it stops there are rows, and never more than a few
	// screens of them.
	scrolled := eval[struct {
		Empty, Most, Frames int
		Median, Worst       float64
	}](b, `new Promise((done) => {
		const list = document.querySelector('.vlist'), times = [];
		let frame = 0, empty = 0, most = 0, before = performance.now();
		const step = () => {
			const now = performance.now(), box = list.getBoundingClientRect();
			if (frame > 1) times.push(now - before);
			before = now;
			most = Math.max(most, document.querySelectorAll('.vlist-row').length);
			if (frame > 0 && !document.elementFromPoint(box.left + 60, box.top + box.height / 2)?.closest('.vlist-row')) empty++;
			if (frame++ === 120) {
				times.sort((a, b) => a - b);
				return done({ Empty: empty, Most: most, Frames: times.length, Median: times[times.length >> 1], Worst: times.at(-1) });
			}
			list.scrollTop = frame / 120 * (list.scrollHeight - list.clientHeight);
			requestAnimationFrame(() => requestAnimationFrame(step));
		};
		step();
	})`)
	t.Logf("%d steps of %d rows each: median %.1f ms, worst %.1f ms for two frames; at most %d rows in the page",
		scrolled.Frames, records/120, scrolled.Median, scrolled.Worst, scrolled.Most)
	if scrolled.Most > 80 || scrolled.Empty > 0 {
		t.Errorf("too many rows in the page, or places without one: %+v", scrolled)
	}
	b.shows(`[data-index="0"][data-check]`)

	b.fill(".jump input", "2345")
	b.press("Go")
	b.shows(`[data-index="2345"][data-check]`)

	b.goTo("#/verify")
	b.press("Verify the whole chain")
	b.waitFor(2*time.Minute, `document.querySelector('[data-verdict="valid"]')`)
	b.reads("[data-verdict] dl", count)
	t.Log(eval[string](b, `document.querySelector('[data-verdict] dd').textContent`))
}
