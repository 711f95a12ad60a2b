package web_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// A record that was changed in the file never looks normal: its row is red in every list, it is red
// as soon as it is opened, and "Failures only" finds it among all. The opened record leads to the
// one before and after it in the list, by buttons and by keys.
func TestBrowserRecordsShowsWhatFails(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key, _ := explorable(t, s)
	b := openBrowser(t, s.base)
	b.tall()
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.shows(`[data-verified="ok"]`)
	tamper(t, s.db,
		`DROP TRIGGER record_no_update`,
		`UPDATE record SET payload = replace(payload, '"order"', '"orDer"') WHERE id & 1099511627775 = 12`,
		`DROP TRIGGER record_no_delete`,
		`DELETE FROM record WHERE id & 1099511627775 = 22`)

	b.goTo("#/records")
	b.shows(`[data-index="12"][data-check="bad"].bad .row-verdict.bad`)
	b.reads(`[data-index="12"] .row-text`, "its content does not hash to the hash that it names")
	b.shows(`[data-index="22"][data-check="bad"]`)
	b.wait(`document.querySelectorAll('.vlist-row[data-check="ok"]').length === 28 && document.querySelectorAll('.vlist-row .row-verdict.ok').length === 28`)
	b.shows(`.records-count[data-failed="2"]`)
	b.shows(`[data-verified="bad"]`)
	b.goTo("#/records?agent=bot-0&until=2999-01-01T00:00:00.000Z&order=oldest")
	b.shows(`[data-index="12"][data-check="bad"]`)

	b.goTo("#/records?order=oldest")
	b.press("Failed verification")
	b.wait(`location.hash === '#/records?order=oldest&failures=1'`)
	b.rows(12, 23)
	b.reads(`[data-index="23"]`, "record 23 comes after record 21")
	b.reads(".records-count", "2 records fail")

	// Opened, it is checked before it is read: the verdict is above the payload.
	eval[bool](b, `(document.querySelector('[data-index="12"] a').click(), true)`)
	b.shows(`dialog [data-check="bad"]`)
	b.reads("dialog [data-check]", "Verification failed")
	b.wait(`document.querySelector('dialog [data-check]').compareDocumentPosition(document.querySelector('dialog pre')) & Node.DOCUMENT_POSITION_FOLLOWING`)
	b.reads("dialog .steps-between", "1 of 2")
	b.press("Next")
	b.reads("dialog h2", "Record 23")
	b.wait(`location.hash === '#/records/23?order=oldest&failures=1'`)
	b.press("Close")
	b.wait(`location.hash === '#/records?order=oldest&failures=1'`)

	// In the whole log the same; the keys lead on too, from record to record, each with its own
	// verdict.
	b.goTo("#/records")
	b.shows(`[data-index="12"][data-check="bad"]`)
	b.goTo("#/records/13")
	b.shows(`dialog [data-check="ok"]`)
	must.OK(t, chromedp.Do(b.ctx, chromedp.KeyEvent(kb.ArrowRight)))
	b.reads("dialog h2", "Record 12")
	b.shows(`dialog [data-check="bad"]`)
	must.OK(t, chromedp.Do(b.ctx, chromedp.KeyEvent("k")))
	b.reads("dialog h2", "Record 13")
	b.shows(`dialog [data-check="ok"]`)
	b.goTo("#/records/22")
	b.reads(`dialog [role="alert"]`, "There is no record 22")
}

// A server, or a proxy in front of it, that shows something else than was signed is caught in the
// list of every kind, and in the opened record. So is one that answers a search with what was not
// asked for, or twice.
func TestBrowserRecordsCatchesALie(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key, _ := explorable(t, s)
	base := lie(t, s, func(path string, answer []byte) []byte {
		answer = bytes.ReplaceAll(answer, []byte(`"payload":{"order":9}`), []byte(`"payload":{"order":8}`))
		if path == "/v1/records" {
			answer = bytes.Replace(answer, []byte(`"index":19,`), []byte(`"index":25,`), 1)
		}
		return answer
	})
	b := openBrowser(t, base)
	b.tall()
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/records")
	b.shows(`[data-index="9"][data-check="bad"]`)
	b.goTo("#/records/9")
	b.shows(`dialog [data-check="bad"]`)
	b.goTo("#/records?action=mail.send")
	b.shows(`[data-index="9"][data-check="bad"]`)
	b.reads(`.vlist-row[data-check="bad"]`, "record 25 comes after record 21")
	b.goTo("#/records?q=order")
	b.shows(`[data-index="9"][data-check="bad"]`)
	b.goTo("#/records?failures=1")
	b.rows(9)
	b.shows(`.histogram-bars .bad`)
	b.goTo("#/records?failures=1&action=mail.send&order=oldest")
	b.shows(`[data-index="9"][data-check="bad"]`)
	// and those that come after what says that it is record 25
	b.shows(`.records-count[data-failed="5"]`)

	other := lie(t, s, func(path string, answer []byte) []byte {
		return bytes.ReplaceAll(answer, []byte(`"agentId":"bot-2"`), []byte(`"agentId":"bot-1"`))
	})
	b = openBrowser(t, other)
	b.signIn(key)
	b.goTo("#/records?agent=bot-2")
	b.reads(`.vlist-row[data-check="bad"]`, "is not one that was asked for")
	b.wait(`!document.querySelector('.vlist-row:not([data-check="bad"])')`)
}

// A search for a text shows how far the server has read and the matches so far, and ends the
// request when it is stopped.
func TestBrowserRecordsStopsASearch(t *testing.T) {
	s := startService(t, "", "")
	key, _ := explorable(t, s)
	target, err := url.Parse(s.base)
	must.OK(t, err)
	ended := make(chan struct{})
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header.Del("Origin")
	}}
	record := s.api("GET", "/v1/chain?from=17&limit=1", key, nil)["records"].([]any)[0]
	base := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/records" || r.URL.Query().Get("log") == "control" {
			proxy.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: record\ndata: %s\nevent: progress\ndata: {\"read\":250000,\"at\":750000,\"size\":1000000}\n\n", jsonOf(t, record))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(ended)
	}))
	t.Cleanup(base.Close)
	b := openBrowser(t, base.URL)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/records?q=needle")
	b.reads(".records-count", "250,000 of 1,000,000 read")
	b.shows(`[data-index="17"][data-check="ok"]`)
	b.press("Stop")
	<-ended
	b.reads(".records-count", "stopped")
	b.shows(`[data-index="17"][data-check="ok"]`)
}

// A lying server claims two million records although it has 30. The log can be scrolled and jumped
// through with few rows in the page; each record that the server does not deliver is red.
func TestBrowserRecordsOfAnyLength(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key, _ := explorable(t, s)
	base := lie(t, s, func(path string, answer []byte) []byte {
		if path == "/v1/logs" {
			return bytes.Replace(answer, []byte(`"size":30,`), []byte(`"size":2000000,`), 1)
		}
		return answer
	})
	b := openBrowser(t, base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/records")
	b.reads(".records-count", "2,000,000 records")
	b.shows(`[data-index="1999999"][data-check="bad"]`)
	must.OK(t, chromedp.Do(b.ctx, chromedp.Focus(chromedp.CSS(`.vlist a[tabindex="0"]`))))
	must.OK(t, chromedp.Do(b.ctx, chromedp.KeyEvent(kb.End)))
	b.shows(`[data-index="0"][data-check="ok"][aria-rowindex="2000001"]`)
	b.wait(`document.activeElement.closest('[data-index="0"]')`)
	b.fill(".jump input", "1234567")
	b.press("Go")
	b.wait(`document.activeElement.closest('[data-index="1234567"]')`)
	b.wait(`(() => { const row = document.querySelector('[data-index="1234567"]').getBoundingClientRect(), list = document.querySelector('.vlist').getBoundingClientRect();
		return row.top >= list.top - 1 && row.bottom <= list.bottom + 1; })()`)
	for range 30 {
		must.OK(t, chromedp.Do(b.ctx, chromedp.KeyEvent(kb.ArrowDown)))
	}
	b.wait(`document.activeElement.closest('[data-index="1234537"]')`)
	b.wait(`(() => { const row = document.activeElement.closest('.vlist-row').getBoundingClientRect(), list = document.querySelector('.vlist').getBoundingClientRect();
		return row.top >= list.top - 5 && row.bottom <= list.bottom + 5 && document.querySelectorAll('.vlist-row').length < 80; })()`)
}
