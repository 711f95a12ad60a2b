package lines_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"attestd/chain/evidence"
	"attestd/chain/lines"
	"attestd/internal/must"
	"attestd/internal/testenv"
)

// wrongVerdict says what is wrong with lines that the checker accepted, by a way of its own: it
// reads the records of a log as they are, and compares them with those of the company.
func wrongVerdict(t testing.TB, c *company, text []string, v lines.Verdict) error {
	found := map[string]map[int64]string{"actions": {}, "control": {}}
	for _, line := range text {
		var l struct {
			Type, Log string
			Index     int64
			Hash      string
			Record    json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			return err
		}
		if l.Type != lines.TypeRecord {
			continue
		}
		records := c.logs[map[string]int{"actions": 0, "control": 1}[l.Log]].records
		if l.Index >= int64(len(records)) || records[l.Index].Hash.String() != l.Hash {
			return fmt.Errorf("record %d of %s is none", l.Index, l.Log)
		}
		var want, got any
		must.OK(t, json.Unmarshal(records[l.Index].AppendJSON(nil), &want))
		must.OK(t, json.Unmarshal(l.Record, &got))
		a, _ := json.Marshal(want)
		b, _ := json.Marshal(got)
		if !bytes.Equal(a, b) {
			return fmt.Errorf("record %d of %s is another one", l.Index, l.Log)
		}
		found[l.Log][l.Index] = l.Hash
	}
	for _, part := range v.Logs {
		for i := part.First; i < part.Next; i++ {
			if found[part.Log][i] == "" {
				return fmt.Errorf("record %d of %s is missing", i, part.Log)
			}
		}
		if int64(len(found[part.Log])) != part.Next-part.First {
			return fmt.Errorf("%s has %d records, not %d", part.Log, len(found[part.Log]), part.Next-part.First)
		}
	}
	return nil
}

// A line that was deleted, doubled, moved or added is found. What may go unseen is named here: an
// opening line that says nothing new, and the checkpoint before it; a keys line while there is
// another one; a record that comes again elsewhere; and the last lines of a log, which shorten
// what is covered.
func TestLinesDeletedDoubledMovedAdded(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	c := sample(t)
	whole := check(t, pin(0), c.out...)
	other := sample(t)
	other.add(0, `{"n":7}`)
	other.send(0, 1)
	last := map[string]int{} // last record or checkpoint line of each log
	for i, l := range c.out {
		if kind, log := kindOf(t, l); kind == lines.TypeRecord || kind == lines.TypeCheckpoint {
			last[log] = i
		}
	}
	lastCheckpoint := map[string]int{}
	for i, l := range c.out {
		if kind, log := kindOf(t, l); kind == lines.TypeCheckpoint {
			lastCheckpoint[log] = i
		}
	}
	replaced := func(at int) bool {
		kind, log := kindOf(t, c.out[at])
		if kind == lines.TypeRecord {
			return strings.Count(strings.Join(c.out, "\n"), c.out[at]) > 1
		}
		for _, l := range c.out[at+1:] {
			if k, other := kindOf(t, l); other == log && k != lines.TypeRecord {
				return kind == lines.TypeCheckpoint && k == lines.TypeOpening
			}
		}
		return false
	}
	mayPass := func(kind, log string, at int, what string) bool {
		switch kind {
		case lines.TypeKeys:
			return true
		case lines.TypeOpening:
			return what != "added"
		}
		return what == "deleted" && (at == last[log] || at == lastCheckpoint[log] || replaced(at))
	}
	judge := func(what string, at int, text []string) {
		t.Helper()
		kind, log := kindOf(t, c.out[at])
		v := check(t, pin(0), text...)
		if v.Outcome == evidence.Fails {
			return
		}
		if err := wrongVerdict(t, c, text, v); err != nil {
			t.Errorf("%s, line %d (%s of %s): a wrong verdict: %v: %+v", what, at+1, kind, log, err, v)
		}
		if !mayPass(kind, log, at, what) {
			t.Errorf("%s, line %d (%s of %s): not found: %+v", what, at+1, kind, log, v)
		}
		if what == "deleted" && kind != lines.TypeKeys && kind != lines.TypeOpening && !replaced(at) && slices.Equal(v.Logs, whole.Logs) {
			t.Errorf("%s, line %d (%s of %s): the verdict is the same", what, at+1, kind, log)
		}
	}
	for i, l := range c.out {
		kind, log := kindOf(t, l)
		judge("deleted", i, slices.Delete(slices.Clone(c.out), i, i+1))
		judge("doubled", i, slices.Insert(slices.Clone(c.out), i, l))
		for j := i + 1; j < len(c.out); j++ {
			if k, other := kindOf(t, c.out[j]); other != log || k == lines.TypeKeys || kind == lines.TypeKeys {
				continue // lines of the two logs may alternate in any way
			}
			if l == c.out[j] {
				continue
			}
			swapped := slices.Clone(c.out)
			swapped[i], swapped[j] = swapped[j], swapped[i]
			if v := check(t, pin(0), swapped...); v.Outcome != evidence.Fails {
				if err := wrongVerdict(t, c, swapped, v); err != nil || kind != lines.TypeOpening && kind != lines.TypeCheckpoint {
					t.Errorf("lines %d and %d swapped: %+v, %v", i+1, j+1, v, err)
				}
			}
			doubled := slices.Insert(slices.Clone(c.out), j+1, l)
			judge("doubled", i, doubled)
		}
	}
	// a record that the company has never signed, made of one that it has
	for i, l := range c.out {
		if kind, _ := kindOf(t, l); kind == lines.TypeRecord {
			judge("added", i, slices.Insert(slices.Clone(c.out), i+1, strings.Replace(l, `"tool.call"`, `"tool.list"`, 1)))
		}
	}
	if v := check(t, pin(0), append(slices.Clone(c.out), "")...); v.Code != evidence.Malformed {
		t.Errorf("an empty line: %+v", v)
	}
}

// A line that was changed in any byte is found, unless the byte means nothing: the time of a line
// that is no record, which nothing proves.
func TestLinesChangedInAnyByte(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	c := sample(t)
	random := rand.New(rand.NewPCG(1, 2))
	const each = 37 // bytes from one change to the next
	for i, l := range c.out {
		kind, _ := kindOf(t, l)
		free := strings.Index(l, `"@timestamp"`)
		for at := random.IntN(each); at < len(l); at += 1 + random.IntN(2*each-1) {
			if kind != lines.TypeRecord && at > free && at < free+len(`"@timestamp":"2026-11-21T09:00:00.000Z"`) {
				continue
			}
			b := []byte(l)
			if b[at] ^= byte(1 << random.IntN(7)); b[at] == '\n' {
				continue
			}
			text := slices.Clone(c.out)
			text[i] = string(b)
			if v := check(t, pin(0), text...); v.Outcome != evidence.Fails {
				if same(l, text[i]) {
					continue
				}
				t.Errorf("line %d (%s), byte %d, %q became %q: %+v", i+1, kind, at, l[max(0, at-10):at+1], b[max(0, at-10):at+1], v)
			}
		}
	}
}

// same reports whether two texts are one JSON value, with another spelling.
func same(a, b string) bool {
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return bytes.Equal(p, q)
}

// A holder of the company's key who lacks the sent lines writes another history: it is found where
// it meets the one that was sent.
func TestOtherHistoryIsFound(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	c, d := sample(t), newCompany(t, "acme")
	for i := range 7 {
		d.add(0, fmt.Sprintf(`{"other":%d}`, i))
	}
	d.rotate()
	d.logs[0].sent = 3
	d.open()
	for at := 8; at <= len(c.out); at++ {
		if v := check(t, pin(0), slices.Concat(c.out[:at], d.out)...); v.Outcome != evidence.Fails {
			t.Errorf("after line %d: %+v", at, v)
		}
	}
	// two checkpoints of one size
	d = newCompany(t, "acme")
	d.add(0, `{}`)
	d.add(0, `{}`)
	d.open()
	d.logs[0].records, d.logs[0].leaves = d.logs[0].records[:1], d.logs[0].leaves[:1]
	d.add(0, `{"other":true}`)
	m := d.mark(0, 0)
	if v := check(t, pin(0), append(d.out, string(m.AppendOpening(nil)))...); v.Code != lines.BadCheckpoint {
		t.Errorf("%+v", v)
	}
}

// No text makes the check fail otherwise than with a verdict, and none but the company's own holds.
func FuzzLines(f *testing.F) {
	c := sample(f)
	f.Add([]byte(strings.Join(c.out, "\n") + "\n"))
	f.Add([]byte(strings.Join(handedOver(f, "A", "B").out, "\n") + "\n"))
	for _, l := range c.out {
		f.Add([]byte(l + "\n"))
		event, err := lines.OCSF(nil, []byte(l))
		must.OK(f, err)
		f.Add(append(event, '\n'))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := lines.Check([]lines.File{{Name: "fuzz", ReadSeeker: bytes.NewReader(text)}}, pin(0))
		if err != nil && !errors.Is(err, lines.ErrCompanies) {
			t.Fatal(err)
		}
		if err != nil || v.Outcome == evidence.Fails {
			return
		}
		for _, part := range v.Logs {
			if part.To > int64(len(c.logs[map[string]int{"actions": 0, "control": 1}[part.Log]].records)) {
				t.Errorf("%+v", v)
			}
		}
	})
}
