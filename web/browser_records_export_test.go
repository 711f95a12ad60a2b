package web_test

import (
	"archive/zip"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"attestd/chain/evidence"
	"attestd/internal/must"
	"attestd/internal/testenv"
)

// The results of a search can be saved as NDJSON and CSV. Evidence of selected records is saved as
// one file for each, which proves its record, and a report proves the whole period.
func TestBrowserRecordsExport(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key, _ := explorable(t, s)
	var chain struct{ Records []json.RawMessage }
	must.OK(t, json.Unmarshal([]byte(jsonOf(t, s.api("GET", "/v1/chain", key, nil))), &chain))
	b := openBrowser(t, s.base)
	b.tall()
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/records?agent=bot-1")
	want := those(func(i int) bool { return i%3 == 1 })
	b.rows(want...)
	b.press("Export")

	var indexes []int
	for line := range strings.Lines(b.download("Save as NDJSON")) {
		var record struct {
			Index   int
			Payload struct{ AgentID string }
			Hash    string
		}
		must.OK(t, json.Unmarshal([]byte(line), &record))
		if !bytes.Contains(chain.Records[record.Index], []byte(record.Hash)) || record.Payload.AgentID != "bot-1" {
			t.Errorf("exported: %s", line)
		}
		indexes = append(indexes, record.Index)
	}
	if !slices.Equal(indexes, want) {
		t.Errorf("NDJSON has the records %v, not %v", indexes, want)
	}
	b.reads("dialog .notice", "Saved records-acme-")

	table, err := csv.NewReader(strings.NewReader(b.download("Save as CSV"))).ReadAll()
	must.OK(t, err)
	if len(table) != len(want)+1 || table[0][0] != "index" || table[1][0] != fmt.Sprint(want[0]) || table[1][2] != "bot-1" {
		t.Errorf("CSV: %v", table)
	}

	b.reads("dialog", "the 10 records found")
	b.press("Close")
	eval[bool](b, `[28, 10].every((i) => { document.querySelector('[data-index="' + i + '"] input').click(); return true; })`)
	b.press("Export (2)")
	saved := b.download("Save evidence of 2 selected records")
	trust := evidence.Trust{Fingerprint: fingerprintOf(s, "acme")}
	archive, err := zip.NewReader(strings.NewReader(saved), int64(len(saved)))
	must.OK(t, err)
	var names []string
	for _, file := range archive.File {
		names = append(names, file.Name)
		r, err := file.Open()
		must.OK(t, err)
		text, err := io.ReadAll(r) // compares the checksum too
		must.OK(t, err)
		if v := evidence.Check(text, trust); v.Outcome != evidence.Holds {
			t.Errorf("%s: %+v", file.Name, v)
		}
	}
	if !slices.Equal(names, []string{"evidence-acme-10.json", "evidence-acme-28.json"}) {
		t.Errorf("the archive has %v", names)
	}
	b.press("Close")
	eval[bool](b, `(document.querySelector('[data-index="28"] input').click(), true)`)
	b.press("Export (1)")
	if v := evidence.Check([]byte(b.download("Save evidence of 1 selected record")), trust); v.Outcome != evidence.Holds {
		t.Errorf("a file of its own: %+v", v)
	}
	b.press("Close")
	b.goTo("#/records?agent=bot-2")
	b.press("Export") // what was selected is not in view any more
	b.press("Close")
	b.goTo("#/records?agent=bot-1")
	b.rows(want...)
	b.press("Export")

	eval[bool](b, `([...document.querySelectorAll('dialog button')].find((e) => e.textContent === 'Save report').focus(), true)`)
	of := 0
	v := evidence.CheckReport(strings.NewReader(b.download("Save report")), trust, func(*evidence.Report) {}, func(e *evidence.Event) {
		if e.Log == "actions" {
			of++
		}
	})
	if v.Outcome != evidence.Holds || of != 30 {
		t.Errorf("the report has %d actions: %+v", of, v)
	}
	b.reads("dialog .notice", "Saved report-")
	// a button that is disabled while it works has the focus again
	b.wait(`document.activeElement.textContent === 'Save report'`)
}
