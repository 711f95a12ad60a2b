package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"attestd/chain"
	"attestd/chain/evidence"
	"attestd/chain/tlog"
	"attestd/store"
)

// maxSession is how many records a session's file has at most.
const maxSession = 1_000_000

// SessionFile is a session that is ready to be written: its header is signed, and says how many
// they are.
type SessionFile struct {
	header  evidence.SessionFile
	of      store.Session
	log     store.Log
	tree    tlog.Tree
	records []int64 // indexes, in the order of seq
	store   *store.Store
}

// Session signs the header of a file of a session of statements.
func (e *Evidence) Session(ctx context.Context, by store.Caller, of store.Session) (*SessionFile, error) {
	f := &SessionFile{of: of, log: by.Company.Actions, store: e.Store}
	for p, err := range places(ctx, &e.Store.View, by, of, 0) {
		if err != nil {
			return nil, err
		}
		if f.records = append(f.records, p.index); len(f.records) > maxSession {
			return nil, refuse(TooLarge, fmt.Sprintf("The session has more than %d records, the most that a file has: prove them with GET /v1/evidence/{index}", maxSession))
		}
	}
	if len(f.records) == 0 {
		return nil, noSession
	}
	control, _, err := e.Store.Tip(ctx, by.Company.Control.Chain)
	if err != nil {
		return nil, err
	}
	last := slices.Max(f.records)
	if err := e.pruned(ctx, by, slices.Min(f.records)); err != nil {
		return nil, err
	}
	if _, err := e.Checkpoints.Covering(ctx, by, f.log, last); err != nil {
		return nil, err
	}
	if _, err := e.Checkpoints.Covering(ctx, by, by.Company.Control, control.Length-1); err != nil {
		return nil, err
	}
	g := gatherer{by: by}
	err = e.Store.Snapshot(ctx, func(v *store.View) error {
		if err := g.begin(ctx, v); err != nil {
			return err
		}
		return g.session(ctx, f, last, control.Length)
	})
	return f, err
}

var noSession = refuse(NotFound, "Session not found: the agent has none of that name")

// SessionName names a session. KID is "" where only one key has used the sid, and Kind where the
// agent has sessions of that sid of one kind, or one of statements.
type SessionName struct{ AgentID, SID, KID, Kind string }

// Named finds the session of a name. provable says whether it is one of statements.
func (e *Evidence) Named(ctx context.Context, by store.Caller, name SessionName) (of store.Session, provable bool, err error) {
	if _, _, err := keyOfKind(name.Kind); err != nil {
		return of, false, err
	}
	named, err := e.Store.Sessions.Named(ctx, by, name.AgentID, name.SID)
	if err != nil {
		return of, false, err
	}
	isSigned := func(s store.Session) bool { return kindOf(s) == SessionOfStatements }
	kind := name.Kind
	if name.KID != "" || kind == "" && slices.ContainsFunc(named, isSigned) {
		kind = cmp.Or(kind, SessionOfStatements)
	}
	named = slices.DeleteFunc(named, func(s store.Session) bool {
		return name.KID != "" && s.Key != name.KID || kind != "" && kindOf(s) != kind
	})
	switch {
	case len(named) == 0:
		return of, false, noSession
	case len(named) == 1:
		return named[0], isSigned(named[0]), nil
	case kind == SessionOfStatements:
		return of, false, &Error{Kind: Conflict, Code: "SESSION_AMBIGUOUS", Message: "Several keys of the agent have used this sid: say which by kid"}
	}
	return of, false, &Error{Kind: Conflict, Code: "SESSION_AMBIGUOUS", Message: "The agent has sessions of several kinds with this sid: say which by kind"}
}

// SessionReport returns the header of a report of the time of a session without statements, as
// Report does.
func (e *Evidence) SessionReport(ctx context.Context, by store.Caller, of store.Session) (evidence.Report, error) {
	s, err := readUnproven(ctx, &e.Store.View, by, of)
	if err != nil {
		return evidence.Report{}, err
	}
	if s.Records == 0 {
		return evidence.Report{}, noSession
	}
	if s.Pruned {
		if err := e.prunedSession(ctx, by, of); err != nil {
			return evidence.Report{}, err
		}
	}
	last, err := time.Parse(time.RFC3339Nano, s.LastAt)
	if err != nil {
		return evidence.Report{}, fmt.Errorf("%w: the time of the last record of a session: %w", store.ErrCorrupt, err)
	}
	return e.reportOf(ctx, by, s.FirstAt, chain.FormatTime(last.Add(time.Millisecond)))
}

// pruned is the refusal of the file of a session whose record with the lowest index has no payload.
// Payloads are pruned from the beginning of the log, so all others have theirs if it has.
func (e *Evidence) pruned(ctx context.Context, by store.Caller, lowest int64) error {
	record, err := recordAt(ctx, &e.Store.View, by.Company.Actions, lowest)
	if err != nil {
		return err
	}
	return PrunedError(ctx, &e.Store.View, by.Company, &record)
}

// prunedSession is pruned for a session without statements, whose records are in the order of the
// log.
func (e *Evidence) prunedSession(ctx context.Context, by store.Caller, of store.Session) error {
	for p, err := range places(ctx, &e.Store.View, by, of, 0) {
		if err != nil {
			return err
		}
		return e.pruned(ctx, by, p.index)
	}
	return nil
}

// session gathers the header of a session.
func (g *gatherer) session(ctx context.Context, f *SessionFile, last, control int64) error {
	ofKey, err := g.keyRecords(ctx, f.of.Key, control)
	if err != nil {
		return err
	}
	if len(ofKey) == 0 {
		return fmt.Errorf("%w: no control record of the key %s", store.ErrCorrupt, f.of.Key)
	}
	p, err := g.proverAt(ctx, f.log, last)
	if err != nil {
		return err
	}
	f.tree = p.tree
	first, err := recordAt(ctx, g.view, f.log, slices.Min(f.records))
	if err != nil {
		return err
	}
	latest, err := recordAt(ctx, g.view, f.log, last)
	if err != nil {
		return err
	}
	base, later, ok, err := g.sessionPolicies(ctx, &first, &latest, control)
	if err != nil {
		return err
	}
	var deciding []int64
	if ok || isDecided(&first) || isDecided(&latest) {
		if deciding, err = g.sessionPassports(ctx, f, &first, &latest, control); err != nil {
			return err
		}
	}
	approved, err := g.sessionApprovals(ctx, f, control)
	if err != nil {
		return err
	}
	ofApprovals := approved.records()
	prove, _, err := g.prover(ctx, g.by.Company.Control, slices.Max(slices.Concat(ofKey, base, later, deciding, ofApprovals)))
	if err != nil {
		return err
	}
	if approved != nil {
		if err := g.proveApprovals(ctx, f, p, approved, prove); err != nil {
			return err
		}
	}
	if len(deciding) > 0 {
		g.file.Passports = new(evidence.Passports)
		if g.file.Passports.Entries, err = g.entries(ctx, deciding, prove); err != nil {
			return err
		}
	}
	if ok {
		g.file.Policies = new(evidence.Policies)
		if g.file.Policies.Entries, err = g.entries(ctx, slices.Concat(base, later), prove); err != nil {
			return err
		}
	}
	g.file.AgentKey = new(evidence.AgentKey)
	if g.file.AgentKey.Entries, err = g.entries(ctx, ofKey, prove); err != nil {
		return err
	}
	f.header = evidence.SessionFile{
		AgentID: f.of.AgentID, KeyID: f.of.Key, ID: f.of.ID, Records: int64(len(f.records)),
		Checkpoint: string(p.checkpoint), File: g.file,
	}
	return nil
}

// sessionPolicies returns the changes that make the policies in force at any time of a session.
func (g *gatherer) sessionPolicies(ctx context.Context, first, last *chain.Record, control int64) (base, later []int64, ok bool, err error) {
	q := g.policyQuery(control)
	begin, err := q.sizeAt(ctx, first.Timestamp, -policyClocks)
	if err != nil {
		return nil, nil, false, err
	}
	end, err := q.sizeAt(ctx, last.Timestamp, policyClocks+time.Millisecond)
	if err != nil {
		return nil, nil, false, err
	}
	return q.since(ctx, begin, end)
}

// errBatch ends a read whose records are enough for a while.
var errBatch = errors.New("batch is full")

const (
	sessionBatch = 256     // records that are read at once, where they are near one another
	sessionGap   = 16      // how near
	sessionBytes = 1 << 20 // of payloads, after which a read ends
)

// Write writes the session: what it has read is written between reads, so that a slow reader holds
// none.
func (f *SessionFile) Write(ctx context.Context, dst io.Writer) error {
	w, err := evidence.NewSessionWriter(dst, &f.header)
	if err != nil {
		return err
	}
	prover := tlog.NewProver(ctx, f.store.LogTree(f.log), f.tree)
	for rest := f.records; len(rest) > 0; {
		records, err := f.batch(ctx, rest)
		if err != nil {
			return err
		}
		for i := range records {
			proof, err := prover.Prove(records[i].Index)
			if records[i].IsPruned() { // since the file was begun
				err = fmt.Errorf("record %d: its payload was pruned", records[i].Index)
			}
			if err == nil {
				err = w.Write(&records[i], proof)
			}
			if err != nil {
				return err
			}
		}
		rest = rest[len(records):]
	}
	return w.Close()
}

// batch reads the first of some records: those that follow one another at small distances.
func (f *SessionFile) batch(ctx context.Context, indexes []int64) (records []chain.Record, err error) {
	n := 1
	for n < len(indexes) && n < sessionBatch && indexes[n] > indexes[n-1] && indexes[n]-indexes[n-1] <= sessionGap {
		n++
	}
	size := 0
	err = f.store.Records(ctx, f.log.Chain, indexes[0], indexes[n-1]+1, func(r *chain.Record) error {
		if r.Index != indexes[len(records)] {
			return nil
		}
		records = append(records, r.Clone())
		if size += len(r.Payload); size >= sessionBytes {
			return errBatch
		}
		return nil
	})
	if errors.Is(err, errBatch) {
		err = nil
	} else if err == nil && len(records) < n {
		err = fmt.Errorf("%w: %w", store.ErrCorrupt, chain.ErrMissing)
	}
	return records, err
}
