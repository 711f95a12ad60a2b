package export_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"attestd/chain/evidence"
	"attestd/chain/lines"
	"attestd/internal/must"
	"attestd/server/export"
)

// exported exports what there is, from a start, and returns the lines.
func exported(t *testing.T, m *memory, at *positions, from export.Start) string {
	t.Helper()
	to := new(receiver)
	m.told = map[export.Log]int{}
	must.OK(t, export.New(export.Config{Source: m, Cursors: at, Destination: to, From: from, CheckpointAtEnd: true, Log: quiet()}).Run(t.Context()))
	return to.text()
}

// An export that begins with the present says and proves where, whatever the size of the log, and
// goes on from there. A company that comes later is exported from its first record.
func TestExportFromNow(t *testing.T) {
	t.Parallel()
	for size := range 18 {
		m, at := newMemory("acme"), newPositions()
		m.add("acme", 0, size)
		m.add("acme", 1, 2)
		first := exported(t, m, at, export.Start{Now: true})
		v := checked(t, "acme", 0, first)
		if strings.Contains(first, `"type":"record"`) || v.Outcome != evidence.Holds || v.Logs[0].First != int64(size) || v.Logs[1].First != 2 {
			t.Fatalf("%d records: %+v\n%s", size, v, first)
		}
		m.add("acme", 0, 5)
		m.rotate()
		m.add("acme", 0, 1)
		second := exported(t, m, at, export.Start{})
		v = checked(t, "acme", 1, first, second)
		if l := v.Logs[0]; v.Outcome != evidence.Holds || l.First != int64(size) || l.From != int64(size) || l.To != int64(size)+6 {
			t.Fatalf("%d records: %+v", size, v)
		}
		named := strings.Join(v.NotProven, "\n")
		if size > 0 && !strings.Contains(named, "What precedes record") {
			t.Errorf("%d records: %s", size, named)
		}
	}
}

// A time is the same at each start: logs that were not exported yet begin with their first record
// of that time or later, the others go on.
func TestExportFromTime(t *testing.T) {
	t.Parallel()
	second := func(n int) export.Start { return export.Start{At: time.Date(2026, 11, 21, 9, 0, n, 0, time.UTC)} }
	for n := -1; n <= 10; n++ {
		m, at := newMemory("acme", "globex"), newPositions()
		m.add("acme", 0, 9)
		m.add("acme", 1, 1)
		text := exported(t, m, at, second(n))
		want := int64(min(max(n, 0), 9))
		if v := checked(t, "acme", 0, text); v.Outcome != evidence.Holds || v.Logs[0].First != want || v.Logs[0].Next != 9 {
			t.Fatalf("from second %d: %+v", n, v)
		}
		m.add("acme", 0, 2)
		m.add("globex", 0, 3)
		m.add("globex", 1, 1)
		again := exported(t, m, at, second(n))
		if v := checked(t, "acme", 0, text, again); v.Outcome != evidence.Holds || v.Logs[0].First != want || v.Logs[0].To != 11 {
			t.Fatalf("from second %d, the second start: %+v", n, v)
		}
		if v := checked(t, "globex", 0, again); v.Outcome != evidence.Holds || v.Logs[0].First != min(int64(max(n, 0)), 3) {
			t.Fatalf("from second %d, the other company: %+v", n, v)
		}
	}
}

// Lines whose head was cut off do not hold, but from an opening line on.
func TestLinesWithoutTheirHead(t *testing.T) {
	t.Parallel()
	m, at := newMemory("acme"), newPositions()
	m.add("acme", 0, 4)
	m.add("acme", 1, 1)
	text := exported(t, m, at, export.Start{Now: true})
	m.add("acme", 0, 4)
	text += exported(t, m, at, export.Start{})
	m.add("acme", 0, 4)
	text += exported(t, m, at, export.Start{})
	var keys string
	all := slices.Collect(strings.Lines(text))
	for _, l := range all {
		if strings.Contains(l, `"type":"keys"`) {
			keys = l
		}
	}
	held := 0
	for cut := range all {
		rest := all[cut:]
		v := checked(t, "acme", 0, keys+strings.Join(rest, ""))
		opened := false // the first line of the actions log
		for _, l := range rest {
			if strings.Contains(l, `"log":"actions"`) && !strings.Contains(l, `"type":"keys"`) {
				opened = strings.Contains(l, `"type":"opening"`)
				break
			}
		}
		if v.Outcome == evidence.Holds {
			held++
		}
		if v.Outcome == evidence.Holds && !opened {
			t.Errorf("cut at %d: %+v", cut, v)
		}
		if !opened && v.Code != lines.Missing {
			t.Errorf("cut at %d: %+v", cut, v)
		}
	}
	if held < 3 {
		t.Errorf("%d of the texts that begin with openings hold", held)
	}
}
