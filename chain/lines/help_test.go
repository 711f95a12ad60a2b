package lines_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"attestd/chain"
	"attestd/chain/evidence"
	"attestd/chain/evidence/evidencetest"
	"attestd/chain/lines"
	"attestd/internal/must"
)

var began = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// The keys of tests.
var public, fingerprint = evidencetest.Public, evidencetest.Fingerprint

// company is a company whose key n is private(n).
type company struct {
	t    testing.TB
	id   string
	keys byte
	now  time.Time
	logs [2]*memoryLog
	// what was exported, and the run that exports; see as
	out []string
	run string
	// of the runs that do not export now, where they are in the two logs
	halted map[string][2]place
}

// place is how far a run of the export has come in a log.
type place struct{ sent, previous int64 }

// as halts the run that exports and goes on with another one, which is where it was, or where the
// halted one is if it is new.
func (c *company) as(run string) {
	if c.halted == nil {
		c.halted = map[string][2]place{}
	}
	now := [2]place{c.logs[0].place, c.logs[1].place}
	c.halted[c.run] = now
	if was, has := c.halted[run]; has {
		now = was
	}
	c.run, c.logs[0].place, c.logs[1].place = run, now[0], now[1]
}

// memoryLog is one of its logs.
type memoryLog struct {
	evidence.Log
	records []chain.Record
	leaves  evidencetest.Leaves

	place
}

func newCompany(t testing.TB, id string) *company {
	c := &company{t: t, id: id, keys: 1, now: began}
	for i, name := range []string{evidence.Actions, evidence.Control} {
		id := fmt.Sprintf("%032x", id+name)
		c.logs[i] = &memoryLog{Log: evidencetest.NewLog(name, id[:32])}
	}
	return c
}

// add appends a record a second after the one before.
func (c *company) add(log int, payload string) {
	c.t.Helper()
	c.addAction(log, "tool.call", payload)
}

func (c *company) addAction(log int, action, payload string) {
	c.t.Helper()
	c.now = c.now.Add(time.Second)
	l := c.logs[log]
	r := chain.Record{Index: int64(len(l.records)), Timestamp: chain.FormatTime(c.now)}
	kind := ""
	if log == 1 {
		kind = `,"log":"control"`
	}
	r.Payload = fmt.Appendf(nil, `{"agentId":"build-bot","companyId":%q,"actionType":%q,"payload":%s%s}`, c.id, action, payload, kind)
	leaf, err := evidencetest.Sign(&r, c.keys-1)
	must.OK(c.t, err)
	l.records = append(l.records, r)
	l.leaves = append(l.leaves, leaf)
}

func (c *company) rotate() {
	n := c.keys
	c.keys++
	for _, l := range c.logs {
		evidencetest.Rotate(&l.Log, n, int64(len(l.records)))
	}
	c.add(1, `{"subject":"signing-key"}`)
}

// mark is that of the first size records of a log, up to its newest checkpoint.
func (c *company) mark(log int, size int64) lines.Mark {
	c.t.Helper()
	l := c.logs[log]
	proof, err := l.leaves.Consistency(c.t.Context(), l.Origin, c.keys-1, size)
	must.OK(c.t, err)
	return lines.Mark{CompanyID: c.id, Run: c.run, Log: l.Name, Frontier: l.leaves[:size].Frontier(), At: c.now.Add(time.Minute), Consistency: proof}
}

func (c *company) put(line []byte) {
	if bytes.ContainsAny(line, "\n\r\t\x7f") {
		c.t.Errorf("a line with control characters: %q", line)
	}
	c.out = append(c.out, string(line))
}

// open writes the keys line, and the opening lines of both logs at what was sent.
func (c *company) open() {
	f := &evidence.File{CompanyID: c.id}
	for _, l := range c.logs {
		f.Logs = append(f.Logs, l.Log)
	}
	for n := range c.keys {
		f.Keys = append(f.Keys, public(n))
	}
	c.put(lines.AppendKeys(nil, c.run, f, c.now))
	for i, l := range c.logs {
		m := c.mark(i, l.sent)
		c.put(m.AppendOpening(nil))
		l.previous = l.sent
	}
}

// send writes n records of a log.
func (c *company) send(log int, n int) {
	l := c.logs[log]
	for range n {
		c.put(lines.AppendRecord(nil, c.id, c.run, l.Name, &l.records[l.sent]))
		l.sent++
	}
}

func (c *company) checkpoint(log int) {
	l := c.logs[log]
	m := c.mark(log, l.sent)
	c.put(m.AppendCheckpoint(nil, l.previous))
	l.previous = l.sent
}

// sample is an export of two logs: with a rotation, two starts of the exporter, records that came
// again, and records that no checkpoint covers yet.
func sample(t testing.TB) *company {
	c := newCompany(t, "acme")
	for i := range 5 {
		c.add(0, fmt.Sprintf("{\"n\":%d,\t\"text\":\"del\x7f\"}", i))
	}
	c.add(1, `{"subject":"agent:build-bot"}`)
	c.open()
	c.send(0, 3)
	c.send(1, 1)
	c.checkpoint(0)
	c.checkpoint(1)
	c.rotate()
	c.send(0, 2)
	c.logs[0].sent = 3 // not acknowledged
	c.open()
	c.add(0, `{"n":5}`)
	c.send(0, 3)
	c.send(1, 1)
	c.checkpoint(1)
	c.checkpoint(0)
	c.add(0, `{"n":6}`)
	c.send(0, 1)
	return c
}

func file(name string, text ...string) lines.File {
	return lines.File{Name: name, ReadSeeker: strings.NewReader(strings.Join(text, "\n") + "\n")}
}

func check(t testing.TB, o lines.Options, text ...string) lines.Verdict {
	t.Helper()
	v, err := lines.Check([]lines.File{file("lines", text...)}, o)
	must.OK(t, err)
	return v
}

func pin(n byte) lines.Options {
	return lines.Options{Trust: evidence.Trust{Fingerprint: fingerprint(n)}}
}

// kindOf returns type and log of a line.
func kindOf(t testing.TB, line string) (kind, log string) {
	var l struct{ Type, Log string }
	must.OK(t, json.Unmarshal([]byte(line), &l))
	return l.Type, l.Log
}
