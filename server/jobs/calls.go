package jobs

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"attestd/chain"
	"attestd/chain/search"
	"attestd/internal/bounded"
	"attestd/internal/sleep"
	"attestd/internal/wake"
	"attestd/service"
	"attestd/store"
	"attestd/store/db"
)

const (
	// how long records of calls gather before they are looked at
	callsGather = 250 * time.Millisecond
	// how often companies are looked for that have many records which were not looked at
	callsSweep = time.Minute
	// pause after reading records, as a multiple of the time that took, which is long under load
	callsRest     = 50
	callsMostRest = 5 * time.Second
	// how often the calls that were found are counted, and of how long
	callsCountEvery = 5 * time.Second
	callsCounted    = 24 * time.Hour
	// maximum companies whose position is remembered here
	callsPositions = 10_000
)

// CallWatch finds calls that were refused and ran all the same, while records are appended
// (service.Calls). No append waits for it. It reads from disk, from a saved position on, so that a
// kill loses nothing. Of the servers on a database one does it; each counts what was found.
type CallWatch struct {
	store *store.Store
	calls *service.Calls
	saver *progress[int64, int64] // first record that was not looked at, by company
	log   *slog.Logger

	onDuty atomic.Bool
	grown  *wake.Pending[int64] // companies with new records of calls
	found  atomic.Int64         // in the last day

	// owned by watch
	next    *bounded.Map[int64, int64] // where to continue, by company
	failing map[int64]string
}

func NewCallWatch(s *store.Store, log *slog.Logger) *CallWatch {
	return &CallWatch{store: s, calls: &service.Calls{Store: s}, saver: newProgress(s.Calls.SaveNext, log),
		log: log, grown: wake.NewPending[int64](), next: bounded.NewMap[int64, int64](callsPositions), failing: make(map[int64]string)}
}

// Published records the companies for which this server has appended records of calls. The log
// calls it after each commit.
func (w *CallWatch) Published(batch []chain.Extension) {
	if !w.onDuty.Load() {
		return
	}
	for i := range batch {
		if e := &batch[i]; e.Chain > 0 && hasCall(e.Records) {
			w.grown.Add(e.Chain)
		}
	}
}

func hasCall(records []chain.Record) bool {
	for i := range records {
		if mayBeOfCall(records[i].Payload) {
			return true
		}
	}
	return false
}

// mayBeOfCall reports whether a record may be of a call, by the beginning of its payload, which the
// service has written.
func mayBeOfCall(payload []byte) bool {
	rest, ok := afterText(payload, `{"agentId":"`)
	if ok {
		rest, ok = afterText(rest, `,"companyId":"`)
	}
	const action = `,"actionType":"tool.`
	if ok {
		return len(rest) >= len(action) && string(rest[:len(action)]) == action
	}
	const names = 4 << 10 // bytes in which agent, company and action begin
	return bytes.Contains(payload[:min(len(payload), names)], []byte(action))
}

// afterText returns what follows a member, whose text has no escapes.
func afterText(payload []byte, member string) (rest []byte, ok bool) {
	if len(payload) < len(member) || string(payload[:len(member)]) != member {
		return nil, false
	}
	rest = payload[len(member):]
	end := bytes.IndexByte(rest, '"')
	if end < 0 || end > 0 && rest[end-1] == '\\' {
		return nil, false
	}
	return rest[end+1:], true
}

// Elsewhere records a chain for which another server has appended records.
func (w *CallWatch) Elsewhere(number int64) {
	if number > 0 && w.onDuty.Load() {
		w.grown.Add(number)
	}
}

// Run watches while this server has the duty, and counts what was found, until ctx is done.
func (w *CallWatch) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { _ = w.saver.Run(ctx) })
	group.Go(func() { whileOnDuty(ctx, w.store, "calls", w.watch) })
	for sleep.For(ctx, callsCountEvery) == nil {
		w.Count(ctx)
	}
	return ctx.Err()
}

// Count counts what was found in the last day. After an error the former count stays.
func (w *CallWatch) Count(ctx context.Context) {
	if found, err := w.store.Calls.Found(ctx, time.Now().Add(-callsCounted)); err == nil {
		w.found.Store(int64(found))
	}
}

// Disobeyed returns how many calls were found in the last day.
func (w *CallWatch) Disobeyed() int { return int(w.found.Load()) }

// watch looks at new records of calls until ctx is done.
func (w *CallWatch) watch(ctx context.Context, held *db.Held) {
	w.saver.begin(held)
	w.onDuty.Store(true)
	defer w.onDuty.Store(false)
	w.next.Clear() // another server may have gone on
	for least := int64(1); ctx.Err() == nil; least = search.Width {
		// Later, the rest of a range of records without a call is left until there is one: it would
		// have to be read, while a whole range has a summary.
		behind, err := w.store.Calls.Behind(ctx, least)
		if err != nil && ctx.Err() == nil {
			w.log.Error("companies whose calls were not looked at cannot be listed; retrying", "error", err)
		}
		for _, company := range slices.Concat(behind, slices.Collect(maps.Keys(w.failing))) {
			w.grown.Add(company)
		}
		sweep := time.NewTimer(callsSweep)
		for isDue := false; !isDue && ctx.Err() == nil; {
			select {
			case <-ctx.Done():
			case <-sweep.C:
				isDue = true
			case <-w.grown.Signal:
				_ = sleep.For(ctx, callsGather) // the loop handles ctx
				for _, company := range w.grown.Drain() {
					w.examine(ctx, company)
				}
			}
		}
		sweep.Stop()
	}
}

// examine looks at the new records of a company. What fails is tried again with the next sweep.
func (w *CallWatch) examine(ctx context.Context, number int64) {
	err := w.examineAll(ctx, number)
	switch {
	case ctx.Err() != nil:
	case err == nil:
		delete(w.failing, number)
	case w.failing[number] != err.Error():
		w.failing[number] = err.Error()
		w.log.Error("calls of a company cannot be compared with what was refused; retrying", "company", number, "error", err)
	}
}

func (w *CallWatch) examineAll(ctx context.Context, number int64) error {
	company, err := w.store.Companies.OfChain(ctx, number)
	if err != nil {
		return err
	}
	from, known := w.next.Get(number)
	if !known {
		if from, err = w.store.Calls.Next(ctx, number, time.Now()); err != nil {
			return err
		}
	}
	for done := false; !done && ctx.Err() == nil; {
		began := time.Now()
		var next int64
		if next, done, err = w.calls.Examine(ctx, company, from, began); err != nil {
			return err
		}
		from = next
		if was, known := w.next.Get(number); was != next || !known {
			w.next.Put(number, next)
			w.saver.Note(number, next)
		}
		_ = sleep.For(ctx, min(callsRest*time.Since(began), callsMostRest)) // the loop handles ctx
	}
	return nil
}
