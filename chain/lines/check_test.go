package lines_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"attestd/chain/evidence"
	"attestd/chain/lines"
	"attestd/chain/tlog"
	"attestd/internal/must"
	"attestd/internal/testenv"
)

// Lines hold under each key of the company that is pinned, up to the last checkpoint that the key
// or one that follows it has signed. What is not covered is reported.
func TestExportedLinesHold(t *testing.T) {
	t.Parallel()
	c := sample(t)
	for n, want := range map[byte]evidence.Outcome{0: evidence.Holds, 1: evidence.Holds} {
		v := check(t, pin(n), c.out...)
		if v.Outcome != want || len(v.Logs) != 2 {
			t.Fatalf("key %d: %+v", n, v)
		}
		a, b := v.Logs[0], v.Logs[1]
		if a != (lines.Part{Log: "actions", First: 0, Next: 7, From: 0, To: 6, Repeated: 2, Openings: 2}) ||
			b != (lines.Part{Log: "control", First: 0, Next: 2, From: 0, To: 2, Openings: 2}) {
			t.Errorf("key %d: %+v", n, v.Logs)
		}
		if !strings.Contains(strings.Join(v.NotProven, "\n"), "records 6 to 6 are not covered") {
			t.Errorf("key %d: %q", n, v.NotProven)
		}
	}
	if v := check(t, lines.Options{}, c.out...); v.Outcome != evidence.SelfConsistent || v.Reason == "" {
		t.Errorf("without a key: %+v", v)
	}
	if v := check(t, pin(9), c.out...); v.Code != evidence.KeyUntrusted {
		t.Errorf("with another key: %+v", v)
	}
	policy, err := tlog.ParsePolicy([]byte("log " + tlog.VKey{Name: c.logs[0].Origin, Type: tlog.TypeEd25519, Public: public(1)}.String() + "\nquorum none\n"))
	must.OK(t, err)
	if v := check(t, lines.Options{Trust: evidence.Trust{Policy: policy}}, c.out...); v.Outcome != evidence.Holds {
		t.Errorf("with a policy: %+v", v)
	}
}

// Checkpoints of a key before the pinned one do not count: a thief could have made them.
func TestCheckpointsOfAFormerKeyDoNotCount(t *testing.T) {
	t.Parallel()
	c := newCompany(t, "acme")
	for range 3 {
		c.add(0, `{}`)
	}
	c.open()
	c.send(0, 2)
	c.checkpoint(0)
	c.rotate()
	f := c.out
	c.out = nil
	c.open()
	f = append(f, c.out[0])
	if v := check(t, pin(1), f...); v.Code != lines.Uncovered {
		t.Errorf("%+v", v)
	}
	if v := check(t, pin(0), f...); v.Outcome != evidence.Holds {
		t.Errorf("%+v", v)
	}
	// nor may it sign a tree that is larger than what it signed
	c.add(0, `{}`)
	c.keys--
	m := c.mark(0, 2)
	if v := check(t, pin(0), append(slices.Clone(f), string(m.AppendCheckpoint(nil, 2)))...); v.Code != lines.BadCheckpoint {
		t.Errorf("%+v", v)
	}
}

// Lines in several files are checked in their order. A file alone says where it begins.
func TestLinesInSeveralFiles(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	c := sample(t)
	for cut := 1; cut < len(c.out); cut++ {
		first, second := file("first", c.out[:cut]...), file("second", c.out[cut:]...)
		v, err := lines.Check([]lines.File{first, second}, pin(0))
		must.OK(t, err)
		if v.Outcome != evidence.Holds || v.Logs[0].To != 6 {
			t.Fatalf("cut at %d: %+v", cut, v)
		}
		// the second alone: from its first frontier on
		v = check(t, pin(0), c.out[cut:]...)
		for _, l := range v.Logs {
			if v.Outcome == evidence.Holds && l.From > 0 && !strings.Contains(strings.Join(v.NotProven, "\n"), l.Log) {
				t.Errorf("cut at %d: %+v", cut, v)
			}
		}
	}
	// two openings make each file one that holds alone
	at := slices.IndexFunc(c.out[1:], func(l string) bool { k, _ := kindOf(t, l); return k == lines.TypeKeys }) + 1
	v := check(t, pin(0), c.out[at:]...)
	if v.Outcome != evidence.Holds || v.Logs[0].First != 3 || v.Logs[0].From != 3 || v.Logs[0].To != 6 {
		t.Errorf("%+v", v)
	}
	if v, err := lines.Check([]lines.File{file("second", c.out[at:]...), file("first", c.out[:at]...)}, pin(0)); err != nil || v.Outcome != evidence.Fails {
		t.Errorf("in the wrong order: %+v, %v", v, err)
	}
	if v, err := lines.Check([]lines.File{file("first", c.out[:8]...), file("third", c.out[10:]...)}, pin(0)); err != nil || v.Outcome != evidence.Fails {
		t.Errorf("with a file left out: %+v, %v", v, err)
	}
}

// Lines of several companies need a name; those of the others are counted.
func TestLinesOfSeveralCompanies(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	c, d := sample(t), newCompany(t, "globex")
	d.add(0, `{}`)
	d.open()
	both := append(slices.Clone(c.out), d.out...)
	if _, err := lines.Check([]lines.File{file("both", both...)}, pin(0)); !errors.Is(err, lines.ErrCompanies) {
		t.Error(err)
	}
	o := pin(0)
	o.CompanyID = "acme"
	if v := check(t, o, both...); v.Outcome != evidence.Holds || !strings.Contains(strings.Join(v.NotProven, "\n"), "3 lines of other companies") {
		t.Errorf("%+v", v)
	}
	for i, l := range c.out {
		k, _ := kindOf(t, l)
		if k == lines.TypeKeys {
			continue
		}
		hidden := slices.Clone(both)
		hidden[i] = strings.Replace(l, `"companyId":"acme"`, `"companyId":"globex"`, 1)
		if v := check(t, o, hidden...); v.Code != evidence.Malformed {
			t.Errorf("line %d hidden among those of another company: %+v", i, v)
		}
	}
}

// Syslog's headers and OCSF's events carry lines. The event must say what its line says.
func TestCarriers(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	c := sample(t)
	var syslog, ocsf []string
	for _, l := range c.out {
		syslog = append(syslog, "2026-11-21T09:00:00+00:00 host attestd[7]: "+l)
		event, err := lines.OCSF(nil, []byte(l))
		must.OK(t, err)
		ocsf = append(ocsf, string(event))
	}
	if v := check(t, pin(0), syslog...); v.Outcome != evidence.Holds || !strings.Contains(strings.Join(v.NotProven, "\n"), fmt.Sprintf("before %d lines", len(syslog))) {
		t.Errorf("%d lines: %+v", len(syslog), v)
	}
	if v := check(t, pin(0), ocsf...); v.Outcome != evidence.Holds {
		t.Errorf("%+v", v)
	}
	for _, change := range [][2]string{{`"app_name":"build-bot"`, `"app_name":"other"`}, {`"operation":"tool.call"`, `"operation":"tool.list"`},
		{`"sequence":1`, `"sequence":2`}, {`"severity_id":1`, `"severity_id":5`}, {`"time":1`, `"time":2`}, {`{"metadata"`, `{"status_id":1,"metadata"`}} {
		for i, l := range ocsf {
			changed := slices.Clone(ocsf)
			if changed[i] = strings.Replace(l, change[0], change[1], 1); changed[i] == l {
				continue
			}
			if v := check(t, pin(0), changed...); v.Code != evidence.Malformed {
				t.Errorf("%q in line %d: %+v", change, i, v)
			}
		}
	}
}

// The last line may be written while it is read. It is reported, and elsewhere such a line fails.
func TestCutLine(t *testing.T) {
	t.Parallel()
	c := sample(t)
	text := strings.Join(c.out, "\n")
	cut := func(s string) lines.File { return lines.File{Name: "cut", ReadSeeker: strings.NewReader(s)} }
	v, err := lines.Check([]lines.File{cut(text[:len(text)-20])}, pin(0))
	must.OK(t, err)
	if v.Outcome != evidence.Holds || v.Logs[0].Next != 6 || !strings.Contains(strings.Join(v.NotProven, "\n"), "incomplete") {
		t.Errorf("%+v", v)
	}
	v, err = lines.Check([]lines.File{cut(text[:len(text)-20]), file("next", c.out...)}, pin(0))
	must.OK(t, err)
	if v.Code != evidence.Malformed {
		t.Errorf("%+v", v)
	}
}

// Lines and archives say how many records have a statement of their agent, and that no one has
// checked it here. A record that comes again counts once.
func TestStatementsAreCounted(t *testing.T) {
	t.Parallel()
	c := newCompany(t, "acme")
	c.add(1, `{"subject":"x"}`)
	for i := range 4 {
		payload := `{}`
		if i > 0 {
			payload = `{},"statement":"a.b.c"`
		}
		c.add(0, payload)
	}
	for _, sent := range []int{2, 4} { // the second time from the beginning
		c.open()
		for log, n := range []int{sent, 1} {
			c.send(log, n)
			c.checkpoint(log)
		}
		c.logs[0].sent, c.logs[1].sent = 0, 0
	}
	const says = "What agents have signed: 3 records have a statement, which was not checked."
	if v := check(t, pin(0), c.out...); v.Outcome != evidence.Holds || v.Logs[0].Statements != 3 || !strings.Contains(strings.Join(v.NotProven, "\n"), says) {
		t.Errorf("%+v", v)
	}
	c.now = c.now.Add(time.Second)
	if v := checkArchive(t, pin(0), c.archive(4, 1)...); v.Outcome != evidence.Holds || v.Logs[1].Statements != 3 || !strings.Contains(strings.Join(v.NotProven, "\n"), says) {
		t.Errorf("%+v", v)
	}
	if v := check(t, pin(0), sample(t).out...); strings.Contains(strings.Join(v.NotProven, "\n"), "have signed") {
		t.Errorf("without statements: %q", v.NotProven)
	}
}
