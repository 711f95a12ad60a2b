package export

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"attestd/chain"
	"attestd/chain/evidence"
	"attestd/chain/lines"
	"attestd/chain/tlog"
	"attestd/chain/witness"
)

// The bounds of a batch. A record is never divided, so a batch has at least one.
const (
	batchRecords = 1024
	batchBytes   = 1 << 20
)

// Line is one line of a batch.
type Line struct {
	Text []byte // without a line feed
	Type string
	ID   string // see lines.ID
	At   string // @timestamp
}

// Batch is a number of lines that are delivered together.
type Batch struct {
	Lines   []Line
	records int
	bytes   int
	may     func(context.Context) error // see Config.May; nil for always
}

// MayLeave returns an error if the batch must not leave the process, because another one may have
// gone on with the export. A destination MUST call it right before the first byte leaves.
func (b *Batch) MayLeave(ctx context.Context) error {
	if b.may == nil {
		return nil
	}
	return b.may(ctx)
}

func (b *Batch) isFull() bool { return b.records >= batchRecords || b.bytes >= batchBytes }

// state is how far a log has come.
type state struct {
	Log
	at       Position
	size     int64 // when it was last looked
	queued   bool
	session  int       // whose opening line was acknowledged
	since    time.Time // of the first acknowledged record without a checkpoint; zero for none
	failedAt time.Time // when it could not be read; zero if it could
	// a checkpoint or opening is due although there are no new records: the company has another
	// key, or its other log was opened
	resign bool
}

// due returns when a checkpoint of the log is due, or when it is read again; zero for never.
func (s *state) due(e *Exporter) time.Time {
	switch {
	case !s.failedAt.IsZero():
		return s.failedAt.Add(waitForErrors)
	case s.resign:
		return time.Unix(1, 0)
	case !s.since.IsZero():
		return s.since.Add(e.CheckpointEvery)
	}
	return time.Time{}
}

// advance is what a batch changes for a log once it is acknowledged.
type advance struct {
	*state
	at      Position
	since   time.Time
	opened  bool // lines of the log are in the batch
	hasMore bool
}

// errBatchFull ends the read of records.
var errBatchFull = errors.New("the batch is full")

// round delivers one batch of what waits. done reports that nothing does. With last it delivers
// checkpoints of all that has none.
func (e *Exporter) round(ctx context.Context, last bool) (done bool, err error) {
	isNew, err := e.Destination.Prepare()
	if err != nil {
		e.measure(ctx)
		e.count()
		e.failed(err)
		return false, err
	}
	if isNew {
		e.session++
	}
	began := time.Now()
	if last {
		for _, s := range e.logs {
			e.enqueue(s)
		}
	}
	b := &Batch{may: e.May}
	keys := make(map[string]sentKeys)
	var moved []advance
	var waiting []*state
	for i := 0; i < len(e.queue); i++ { // it may grow
		s := e.queue[i]
		if b.isFull() {
			waiting = append(waiting, s)
			continue
		}
		lines, records, bytes := len(b.Lines), b.records, b.bytes
		a, err := e.fill(ctx, b, s, keys, last)
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		e.stop(s, err)
		if err != nil { // the other logs continue
			b.Lines, b.records, b.bytes = b.Lines[:lines], records, bytes
			s.queued, s.failedAt = false, time.Now()
			delete(keys, s.CompanyID)
			continue
		}
		s.failedAt = time.Time{}
		moved = append(moved, a)
		if other := e.logs[s.other()]; a.opened && s.session != e.session && other != nil && other.session != e.session {
			other.resign = true // each log is opened wherever the other one is
			e.enqueue(other)
		}
	}
	e.count()
	e.took = time.Since(began)
	if len(b.Lines) > 0 {
		e.delivered = time.Now()
		limited, cancel := context.WithTimeout(ctx, deliveryTime)
		err := e.Destination.Deliver(limited, b)
		cancel()
		if err != nil {
			if ctx.Err() == nil {
				e.failed(err)
			} else {
				e.session++
			}
			return false, err
		}
		e.acknowledged(len(b.Lines))
	}
	at := make(map[Log]Position, len(moved))
	for _, a := range moved {
		a.state.since, a.state.queued = a.since, a.hasMore
		if a.hasMore {
			waiting = append(waiting, a.state)
		}
		if a.at.Frontier.Size != a.state.at.Frontier.Size || a.at.Previous != a.state.at.Previous {
			at[a.Log] = a.at
		}
		a.state.at = a.at
		if a.opened {
			a.state.session, a.state.resign = e.session, false
		}
	}
	for company, sent := range keys {
		if before := e.keys[company].count; before > 0 && before != sent.count {
			e.resign(company)
		}
		e.keys[company] = sent
	}
	e.queue = waiting
	e.count()
	if len(at) > 0 {
		if err = e.Cursors.Save(at); err != nil {
			e.failed(err)
		}
	}
	return len(waiting) == 0, err
}

// other returns the other log of the company.
func (s *state) other() Log {
	if s.Name == evidence.Actions {
		return Log{s.CompanyID, evidence.Control}
	}
	return Log{s.CompanyID, evidence.Actions}
}

// resign makes checkpoints due of both logs of a company that has another key, for those who trust
// that one.
func (e *Exporter) resign(company string) {
	for _, name := range []string{evidence.Actions, evidence.Control} {
		if s := e.logs[Log{company, name}]; s != nil {
			s.resign = true
		}
	}
}

// fill appends the next lines of a log to a batch.
func (e *Exporter) fill(ctx context.Context, b *Batch, s *state, keys map[string]sentKeys, last bool) (a advance, err error) {
	a = advance{state: s, at: s.at, since: s.since}
	if s.size, err = e.Source.Size(ctx, s.Log); err != nil {
		return a, err
	}
	next := s.at.Frontier.Size
	if next > s.size {
		return a, fmt.Errorf("it has %d records, and %d were exported: it was rolled back", s.size, next)
	}
	open := s.session != e.session
	isDue := !s.since.IsZero() && (last || time.Since(s.since) >= e.CheckpointEvery)
	if next == s.size && !isDue && !s.resign {
		return a, nil
	}
	a.opened = true
	file, err := e.Source.Keys(ctx, s.CompanyID)
	if err != nil {
		return a, err
	}
	if sent := e.sentKeys(s.CompanyID, keys); sent.session != e.session || sent.count != len(file.Keys) {
		at := time.Now()
		if err := e.add(b, lines.TypeKeys, Log{CompanyID: s.CompanyID}, 0, chain.FormatTime(at), "", lines.AppendKeys(nil, e.RunName, file, at)); err != nil {
			return a, err
		}
		keys[s.CompanyID] = sentKeys{e.session, len(file.Keys)}
	}
	if open {
		m, signer, err := e.mark(ctx, s.Log, a.at.Frontier)
		if err != nil {
			return a, err
		}
		if err := e.add(b, lines.TypeOpening, s.Log, next, chain.FormatTime(m.At), signer, m.AppendOpening(nil)); err != nil {
			return a, err
		}
		a.at.Previous = next
	}
	if err := e.records(ctx, b, &a, keySet(file, s.Name)); err != nil {
		return a, err
	}
	next = a.at.Frontier.Size
	a.hasMore = next < s.size
	if since := next - a.at.Previous; s.resign && !open || since > 0 && (since >= e.CheckpointLines || isDue || last) {
		m, signer, err := e.mark(ctx, s.Log, a.at.Frontier)
		if err != nil {
			return a, err
		}
		if err := e.add(b, lines.TypeCheckpoint, s.Log, next, chain.FormatTime(m.At), signer, m.AppendCheckpoint(nil, a.at.Previous)); err != nil {
			return a, err
		}
		a.at.Previous, a.since = next, time.Time{}
	} else if since == 0 { // the opening line says it
		a.since = time.Time{}
	} else if a.since.IsZero() {
		a.since = time.Now()
	}
	return a, nil
}

func (e *Exporter) sentKeys(company string, keys map[string]sentKeys) sentKeys {
	if sent, ok := keys[company]; ok {
		return sent
	}
	return e.keys[company]
}

// add appends a line to a batch, as an OCSF event if so configured. signer is that of a checkpoint.
func (e *Exporter) add(b *Batch, kind string, l Log, index int64, at, signer string, text []byte) error {
	id := lines.ID(kind, l.CompanyID, e.RunName, l.Name, index, at, signer)
	if e.OCSF {
		event, err := lines.OCSF(make([]byte, 0, len(text)+1024), text)
		if err != nil {
			return fmt.Errorf("%s cannot be an OCSF event: %w", id, err)
		}
		text = event
	}
	b.Lines = append(b.Lines, Line{text, kind, id, at})
	b.bytes += len(text) + 1
	return nil
}

// records appends the next records of a log.
func (e *Exporter) records(ctx context.Context, b *Batch, a *advance, keys chain.KeySet) error {
	made := chain.Leaves{Keys: keys}
	next := a.at.Frontier.Size
	to := min(a.size, next+int64(max(1, batchRecords-b.records)))
	var leaves []tlog.Hash
	err := e.Source.Records(ctx, a.Log, next, to, func(r *chain.Record) error {
		if r.Index != next {
			return fmt.Errorf("record %d is missing", next)
		}
		if r.IsPruned() {
			return fmt.Errorf("the payload of record %d was pruned, so its line cannot be made", next)
		}
		leaf := made.Of(r)
		leaves = append(leaves, leaf.Hash())
		text := lines.AppendRecord(make([]byte, 0, len(r.Payload)+len(r.Delegation)+512), a.CompanyID, e.RunName, a.Name, r)
		if err := e.add(b, lines.TypeRecord, a.Log, r.Index, r.Timestamp, "", text); err != nil {
			return err
		}
		next++
		if b.records++; b.isFull() {
			return errBatchFull
		}
		return nil
	})
	if err == nil && next < to {
		err = fmt.Errorf("record %d is missing", next)
	}
	if err != nil && !errors.Is(err, errBatchFull) {
		return err
	}
	a.at.Frontier, _ = a.at.Frontier.Append(leaves...)
	return nil
}

// keySet returns the keys of the records of a log.
func keySet(f *evidence.File, log string) (set chain.KeySet) {
	for _, l := range f.Logs {
		if l.Name == log {
			for _, k := range l.Keys {
				set = append(set, chain.KeyRange{From: k.From, Key: k.Public})
			}
		}
	}
	return set
}

// mark returns what a checkpoint or opening line says, and who signed it. It checks that the
// exported records are a beginning of the log, so that another history is not exported as if it
// were the same one.
func (e *Exporter) mark(ctx context.Context, l Log, f tlog.Frontier) (m *lines.Mark, signer string, err error) {
	text, err := e.Source.Consistency(ctx, l, f.Size)
	if err != nil {
		return nil, "", err
	}
	proof, err := witness.ParseRequest(text)
	if err != nil {
		return nil, "", err
	}
	signed, _, err := tlog.ParseSignedCheckpoint(proof.Checkpoint)
	if err == nil {
		err = tlog.CheckConsistency(proof.Proof, f.Tree(), signed.Tree)
	}
	if err != nil {
		return nil, "", fmt.Errorf("the %d records that were exported are not the beginning of the log: it was rolled back or rewritten: %w", f.Size, err)
	}
	return &lines.Mark{CompanyID: l.CompanyID, Run: e.RunName, Log: l.Name, Frontier: f, Consistency: text, At: time.Now()}, lines.Signer(proof.Checkpoint), nil
}

// positionForm is a Position as JSON.
type positionForm struct {
	Size     int64    `json:"size"`
	Previous int64    `json:"previous"`
	Roots    []string `json:"roots"`
}

// MarshalJSON implements json.Marshaler.
func (p Position) MarshalJSON() ([]byte, error) {
	form := positionForm{p.Frontier.Size, p.Previous, make([]string, len(p.Frontier.Roots))}
	for i, root := range p.Frontier.Roots {
		form.Roots[i] = root.String()
	}
	return json.Marshal(form)
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Position) UnmarshalJSON(text []byte) error {
	var form positionForm
	if err := json.Unmarshal(text, &form); err != nil {
		return err
	}
	f := tlog.Frontier{Size: form.Size}
	for _, root := range form.Roots {
		hash, ok := tlog.ParseHash(root)
		if !ok {
			return errors.New("a root of the position is no hash")
		}
		f.Roots = append(f.Roots, hash)
	}
	if err := f.Check(f.Root()); err != nil || form.Previous < 0 || form.Previous > form.Size {
		return errors.New("the position is malformed")
	}
	*p = Position{f, form.Previous}
	return nil
}
