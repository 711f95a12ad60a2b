package web_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"

	"attestd/chain/evidence"
	"attestd/internal/must"
	"attestd/internal/testenv"
)

// busy gives a company changes, actions of several agents, and calls of tools that failed.
func busy(s *service) (key string) {
	s.t.Helper()
	key = administer(s)
	s.attest(key, 300)
	// shown with its line feeds
	s.api("POST", "/v1/attest", key, "{\"agentId\":\"builder\",\"actionType\":\"deploy\",\"payload\":{\n \"lines\": 2\n}}")
	for i, kind := range []string{"tool.failed", "tool.denied", "tool.failed"} {
		s.api("POST", "/v1/attest", key, map[string]any{"agentId": "build\u202etob", "actionType": kind, "payload": i})
	}
	return key
}

// keepSaved makes the page remember what it saves.
const keepSaved = `(() => {
	window.saved = [];
	const make = URL.createObjectURL.bind(URL);
	URL.createObjectURL = (blob) => (saved.push(blob), make(blob));
	return true;
})()`

// A report is checked while it comes, amber and then green, shows in charts and tables what was
// done, what failed and what was changed, and is saved as a page that runs and loads nothing and as
// data that attestd report takes.
func TestBrowserReport(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := busy(s)
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.goTo("#/report")
	b.press("Create the report of everything")
	b.shows(`[data-report="warn"]`)
	b.reads("[data-report]", "Holds, key not confirmed.")
	if green := eval[int](b, `document.querySelectorAll('main .ok').length`); green > 0 {
		t.Errorf("%d things are green before the key is confirmed", green)
	}
	fingerprint := s.api("GET", "/v1/ca/public-key?companyId=acme", "", nil)["fingerprint"].(string)
	b.fill(`input[name="fingerprint"]`, fingerprint)
	b.press("Compare")
	b.shows(`[data-report="ok"]`)
	b.reads("[data-report]", "No record of the period is missing or changed")
	answer := eval[string](b, `document.querySelector('.report').innerText`)
	for _, words := range []string{"actions\n307\n", "failures\n3\n", "The agent planner was disabled", "build⟨U+202E⟩tob", "tool.denied", "From the beginning to 20", "Not proven"} {
		if !strings.Contains(answer, words) {
			t.Errorf("%q is not said in\n%s", words, answer)
		}
	}
	b.goTo("#/agents")
	b.reads("h1", "Agents")
	b.goTo("#/report") // what was made is there still
	b.shows(`[data-report="ok"]`)
	b.wait(`document.title.startsWith('Report of acme')`)
	if strings.Contains(answer, "which follows from") {
		t.Error("the key that was confirmed is said to follow from itself")
	}
	if n := eval[int](b, `document.querySelectorAll('.report .bars svg[role="img"] .bar').length`); n < 3 {
		t.Errorf("%d bars", n)
	}

	eval[bool](b, keepSaved)
	b.press("Save this page")
	b.press("Save data")
	html := eval[string](b, `saved[0].text()`)
	for _, never := range []string{"<script", "<link", "href=", "src=", "url(", "onclick", "<button", "@import"} {
		if strings.Contains(html, never) {
			t.Errorf("the saved page has %s", never)
		}
	}
	data, err := base64.StdEncoding.DecodeString(eval[string](b, `saved[1].arrayBuffer().then((a) => btoa(Array.from(new Uint8Array(a), (c) => String.fromCharCode(c)).join('')))`))
	must.OK(t, err)
	if v := evidence.CheckReport(bytes.NewReader(data), evidence.Trust{Fingerprint: fingerprint}, func(*evidence.Report) {}, func(*evidence.Event) {}); v.Outcome != evidence.Holds {
		t.Errorf("the saved data: %+v", v)
	}
	path := filepath.Join(t.TempDir(), "report.html")
	must.OK(t, os.WriteFile(path, []byte(html), 0o600))
	file := openPage(t, "file://"+path)
	file.reads("h1", "Report of acme")
	file.fits("the saved page")
	file.picture("report-file", "")
	b.lookAt("report", "#/report", `[data-report="ok"]`)
	b.print("report")

	// The same data, dropped as a file, without the server; and another's.
	s.stop()
	b.press("Check a report file")
	b.dropOn(".report-form", "changed.jsonl", strings.Replace(string(data), `"amount":30.50`, `"amount":31.50`, 1))
	b.shows(`[data-report="bad"][data-code="RECORD"]`)
	b.reads("[data-report]", "its hash does not match its content")
	b.dropOn(".report-form", "mine.jsonl", string(data))
	b.shows(`[data-report="ok"]`)
	sample, err := os.ReadFile("../chain/evidence/testdata/report.jsonl")
	must.OK(t, err)
	b.dropOn(".report-form", "other.jsonl", string(sample))
	b.shows(`[data-report="bad"]`) // of a company of this name another key was confirmed
	b.reads("[data-report]", "Signed by another key")
}

// A report from which the server leaves a change out, in which it changes one, or an action, or the
// root at the end, or that is of another period, is red, and shows no number.
func TestBrowserReportFindsLies(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := busy(s)
	told := ""
	base := lie(t, s, func(path string, answer []byte) []byte {
		if path != "/v1/report" {
			return answer
		}
		lines := bytes.SplitAfter(answer, []byte("\n"))
		lines = lines[:len(lines)-1]
		switch told {
		case "left out":
			lines = slices.Delete(lines, 4, 5)
		case "left out at the end":
			lines = lines[:len(lines)-1]
		case "changed":
			lines[3] = bytes.Replace(lines[3], []byte("reader"), []byte("writer"), 1)
			lines[2] = bytes.Replace(lines[2], []byte("bootstrap"), []byte("boot5trap"), 1)
		case "added":
			lines = append(lines, lines[len(lines)-1])
		case "root":
			at := bytes.LastIndex(lines[0], []byte(`"end":"`))
			for range 2 { // behind the origin and the size
				at += bytes.Index(lines[0][at:], []byte(`\n`)) + 2
			}
			copy(lines[0][at:], "AAAA")
		case "period":
			lines[0] = bytes.Replace(lines[0], []byte(`"from":"20`), []byte(`"from":"19`), 1)
		}
		return bytes.Join(lines, nil)
	})
	b := openBrowser(t, base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/report?since=2026-01-01T00:00:00.000Z")
	make := func(what string) {
		t.Helper()
		told = what
		b.wait(`(() => { const found = document.querySelector('.report-form .primary'); found?.click(); return found; })()`)
	}
	make("")
	b.shows(`[data-report="ok"]`)
	for what, code := range map[string]string{"left out": "RECORD", "left out at the end": "RECORD", "changed": "RECORD", "added": "MALFORMED", "root": "LOG_PROOF"} {
		make(what)
		b.shows(fmt.Sprintf(`[data-report="bad"][data-code=%q]`, code))
		if n := eval[int](b, `document.querySelectorAll('.report :is(.ok, .bars, table)').length`); n > 0 {
			t.Errorf("%s: %d things are green or counted", what, n)
		}
		make("")
		b.shows(`[data-report="ok"]`)
	}
	make("period")
	b.reads(`main [role="alert"]`, "another period")

	// An attacker can make a report with a stolen key.
	stored := string(s.raw(key, "/v1/report", "application/x-ndjson"))
	s.api("POST", "/v1/companies/rotate-keys", key, map[string]any{"compromised": true})
	b.goTo("#/start")
	b.reload()
	b.signIn(key)
	b.goTo("#/report")
	b.shows(`.drop`)
	b.drop("report.jsonl", stored)
	b.reads(`[data-report="warn"]`, "declared the key of this report compromised")
}

// print writes the page as it is printed on A4 and on Letter, and checks that nothing of it is cut
// off at the side.
func (b *browser) print(name string) {
	b.t.Helper()
	b.look(look{1280, "dark"})
	for paper, size := range map[string][2]float64{"a4": {8.27, 11.69}, "letter": {8.5, 11}} {
		width := int64((size[0] - 30/25.4) * 96)
		call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 1000, DeviceScaleFactor: 1})
		call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
		b.fits(name + " on " + paper)
		if seen := eval[int](b, `[...document.querySelectorAll('.side, .report-form, .report-actions')].filter((e) => e.getClientRects().length).length`); seen > 0 {
			b.t.Errorf("%s on %s: %d things are printed that belong to the screen", name, paper, seen)
		}
		if paint := eval[string](b, `getComputedStyle(document.body).backgroundColor + getComputedStyle(document.querySelector('.report')).color`); paint != "rgb(255, 255, 255)rgb(0, 0, 0)" {
			b.t.Errorf("%s on %s: printed in %s", name, paper, paint)
		}
		dir := os.Getenv("ATTESTD_SCREENSHOTS")
		if dir == "" {
			continue
		}
		shot := call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{CaptureBeyondViewport: new(true)})
		must.OK(b.t, os.WriteFile(filepath.Join(dir, name+"-print-"+paper+".png"), bytesOf(string(shot.Data)), 0o600))
		printed := call(b, page.PrintToPDF, page.PrintToPDFParams{PaperWidth: size[0], PaperHeight: size[1]})
		must.OK(b.t, os.WriteFile(filepath.Join(dir, name+"-"+paper+".pdf"), bytesOf(string(printed.Data)), 0o600))
	}
	b.look(look{1280, "light"})
}

// bytesOf reads base64, in which the browser gives what it has made.
func bytesOf(data string) []byte {
	if decoded, err := base64.StdEncoding.DecodeString(data); err == nil {
		return decoded
	}
	return []byte(data)
}
