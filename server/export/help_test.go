package export_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"attestd/chain"
	"attestd/chain/evidence"
	"attestd/chain/evidence/evidencetest"
	"attestd/chain/lines"
	"attestd/chain/tlog"
	"attestd/internal/must"
	"attestd/server/export"
)

// memory has the logs of companies. It is the source of an export.
type memory struct {
	mu        sync.Mutex
	grown     chan struct{}
	companies map[string]*[2]memoryLog
	keys      byte
	told      map[export.Log]int
	reading   error // of every read
}

type memoryLog struct {
	evidence.Log
	records []chain.Record
	leaves  evidencetest.Leaves
}

func newMemory(companies ...string) *memory {
	m := &memory{grown: make(chan struct{}), companies: map[string]*[2]memoryLog{}, keys: 1, told: map[export.Log]int{}}
	for _, c := range companies {
		logs := new([2]memoryLog)
		for i, name := range []string{evidence.Actions, evidence.Control} {
			id := fmt.Sprintf("%032x", c+name)[:32]
			logs[i].Log = evidencetest.NewLog(name, id)
		}
		m.companies[c] = logs
	}
	return m
}

// add appends n records to a log.
func (m *memory) add(company string, log, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := &m.companies[company][log]
	for range n {
		r := chain.Record{Index: int64(len(l.records)), Timestamp: chain.FormatTime(time.Date(2026, 11, 21, 9, 0, len(l.records), 0, time.UTC))}
		kind := []string{"", `,"log":"control"`}[log]
		r.Payload = fmt.Appendf(nil, `{"agentId":"bot","companyId":%q,"actionType":"a.b","payload":{"n":%d}%s}`, company, r.Index, kind)
		leaf, _ := evidencetest.Sign(&r, m.keys-1) // the payload is JSON
		l.records = append(l.records, r)
		l.leaves = append(l.leaves, leaf)
	}
	close(m.grown)
	m.grown = make(chan struct{})
}

// rotate gives all companies another key.
func (m *memory) rotate() {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.keys
	m.keys++
	for _, logs := range m.companies {
		for i := range logs {
			evidencetest.Rotate(&logs[i].Log, n, int64(len(logs[i].records)))
		}
	}
}

func (m *memory) log(l export.Log) *memoryLog {
	return &m.companies[l.CompanyID][map[string]int{"actions": 0, "control": 1}[l.Name]]
}

func (m *memory) Grown(ctx context.Context, until time.Time) (list []export.Log, err error) {
	for {
		m.mu.Lock()
		grown := m.grown
		for c := range m.companies {
			for _, name := range []string{evidence.Actions, evidence.Control} {
				l := export.Log{CompanyID: c, Name: name}
				if n, known := m.told[l]; !known || n != len(m.log(l).records) {
					m.told[l] = len(m.log(l).records)
					list = append(list, l)
				}
			}
		}
		m.mu.Unlock()
		if len(list) > 0 {
			return list, nil
		}
		var end <-chan time.Time
		if !until.IsZero() {
			end = time.After(time.Until(until))
		}
		select {
		case <-grown:
		case <-end:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (m *memory) Size(_ context.Context, l export.Log) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int64(len(m.log(l).records)), m.reading
}

func (m *memory) Records(_ context.Context, l export.Log, from, to int64, yield func(*chain.Record) error) error {
	m.mu.Lock()
	records := m.log(l).records[from:to]
	m.mu.Unlock()
	for i := range records {
		if err := yield(&records[i]); err != nil {
			return err
		}
	}
	return nil
}

func (m *memory) Keys(_ context.Context, company string) (*evidence.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := &evidence.File{CompanyID: company}
	for i := range m.companies[company] {
		f.Logs = append(f.Logs, m.companies[company][i].Log)
	}
	for n := range m.keys {
		f.Keys = append(f.Keys, evidencetest.Public(n))
	}
	return f, nil
}

func (m *memory) Consistency(ctx context.Context, l export.Log, from int64) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	log := m.log(l)
	return log.leaves.Consistency(ctx, log.Origin, m.keys-1, from)
}

func (m *memory) Frontier(ctx context.Context, l export.Log, size int64) (tlog.Frontier, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return tlog.FrontierAt(ctx, m.log(l).leaves, size)
}

// positions are cursors in memory.
type positions struct {
	mu sync.Mutex
	at map[export.Log]export.Position
}

func (p *positions) Load(_ context.Context, l export.Log) (export.Position, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at[l], nil
}

func (p *positions) Save(at map[export.Log]export.Position) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l, a := range at {
		p.at[l] = a
	}
	return nil
}

func newPositions() *positions { return &positions{at: map[export.Log]export.Position{}} }

// receiver is a destination in memory. deliver may change what it does with a batch.
type receiver struct {
	mu      sync.Mutex
	got     bytes.Buffer
	most    int // lines of the largest batch
	deliver func(ctx context.Context, take func(lines int)) error
}

func (r *receiver) String() string         { return "receiver" }
func (r *receiver) ID() string             { return "receiver" }
func (r *receiver) Close() error           { return nil }
func (r *receiver) Prepare() (bool, error) { return false, nil }

func (r *receiver) Deliver(ctx context.Context, b *export.Batch) error {
	r.mu.Lock()
	r.most = max(r.most, len(b.Lines))
	deliver := r.deliver
	r.mu.Unlock()
	take := func(n int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, l := range b.Lines[:min(n, len(b.Lines))] {
			r.got.Write(l.Text)
			r.got.WriteByte('\n')
		}
	}
	if deliver != nil {
		return deliver(ctx, take)
	}
	take(len(b.Lines))
	return nil
}

func (r *receiver) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got.String()
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// checked returns the verdict on texts of lines, one after the other, under key n.
func checked(t testing.TB, company string, n byte, texts ...string) lines.Verdict {
	t.Helper()
	var files []lines.File
	for i, text := range texts {
		files = append(files, lines.File{Name: fmt.Sprint("file ", i+1), ReadSeeker: strings.NewReader(text)})
	}
	v, err := lines.Check(files, lines.Options{Trust: evidence.Trust{Fingerprint: evidencetest.Fingerprint(n)}, CompanyID: company})
	must.OK(t, err)
	return v
}

// isComplete fails unless lines hold, and checkpoints cover so many records of actions and control.
func isComplete(t testing.TB, v lines.Verdict, actions, control int64) {
	t.Helper()
	covered := map[string]int64{}
	for _, l := range v.Logs {
		covered[l.Log] = l.To
		if l.First != 0 || l.From != 0 {
			t.Errorf("%+v", l)
		}
	}
	if v.Outcome != evidence.Holds || covered["actions"] != actions || covered["control"] != control {
		t.Fatalf("%d and %d records are wanted: %+v", actions, control, v)
	}
}

var errRefused = errors.New("refused")
