package service

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"attestd/internal/sleep"
	"attestd/store"
)

// Refusals counts refused sign-ins by company, kind and minute, and writes the counts into the
// control logs of the companies after the minute. So a stranger adds one record of each kind and
// minute at most, and no request waits for it. A server that is killed loses the counts that it has
// not written.
type Refusals struct {
	Store *store.Store
	Log   *slog.Logger

	mu      sync.Mutex
	pending map[refusedKind]int64
	taken   time.Time // what is counted from now on is of this minute at the earliest
	dropped int64     // refusals for which there was no room
}

// maxRefusals bounds the counts that are pending.
const maxRefusals = 10_000

type refusedKind struct {
	company int64 // its chain
	how     string
	minute  time.Time
}

// Count counts a sign-in that a company has refused. A company that is not known is looked up by
// its ID. A sign-in at no company of this service is not counted.
func (r *Refusals) Count(ctx context.Context, company *store.Company, companyID, how string, at time.Time) {
	if company == nil && companyID != "" {
		// other requests report a database that fails
		company, _ = r.Store.Companies.Get(ctx, companyID)
	}
	if company == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	minute := at.UTC().Truncate(time.Minute)
	if minute.Before(r.taken) {
		minute = r.taken
	}
	r.add(refusedKind{company.Chain, how, minute}, 1)
}

// add adds to a count, if there is room for it.
func (r *Refusals) add(kind refusedKind, count int64) {
	if r.pending == nil {
		r.pending = make(map[refusedKind]int64)
	}
	if _, counted := r.pending[kind]; !counted && len(r.pending) >= maxRefusals {
		r.dropped += count
		return
	}
	r.pending[kind] += count
}

// Run writes what was counted, minute by minute, until ctx is done.
func (r *Refusals) Run(ctx context.Context) error {
	for {
		now := time.Now()
		if err := sleep.For(ctx, now.Truncate(time.Minute).Add(time.Minute).Sub(now)); err != nil {
			return err
		}
		r.Write(ctx, time.Now())
	}
}

// Close writes all that was counted, before a server stops.
func (r *Refusals) Close(ctx context.Context) { r.Write(ctx, time.Now().Add(time.Minute)) }

// Write writes the counts of the minutes that have passed at a time. What cannot be written is
// tried again with the next call.
func (r *Refusals) Write(ctx context.Context, now time.Time) {
	counts, dropped := r.take(now.UTC().Truncate(time.Minute))
	if dropped > 0 {
		r.Log.LogAttrs(ctx, slog.LevelWarn, "refused sign-ins were not counted, because too many counts are pending", slog.Int64("refused", dropped))
	}
	kinds := slices.SortedFunc(maps.Keys(counts), func(a, b refusedKind) int {
		return cmp.Or(cmp.Compare(a.company, b.company), a.minute.Compare(b.minute), cmp.Compare(a.how, b.how))
	})
	for len(kinds) > 0 {
		number, n := kinds[0].company, 0
		var refused []store.SignInsRefused
		for ; n < len(kinds) && kinds[n].company == number; n++ {
			refused = append(refused, store.SignInsRefused{How: kinds[n].how, Minute: kinds[n].minute, Count: counts[kinds[n]]})
		}
		if err := r.write(ctx, number, refused, now); err != nil {
			r.Log.LogAttrs(ctx, slog.LevelWarn, "refused sign-ins cannot be recorded; retrying", slog.Int64("company", number), slog.String("error", err.Error()))
			r.mu.Lock()
			for _, kind := range kinds[:n] {
				r.add(kind, counts[kind])
			}
			r.mu.Unlock()
		}
		kinds = kinds[n:]
	}
}

// take removes and returns the counts of the minutes before one, and how many refusals had no room.
func (r *Refusals) take(minute time.Time) (counts map[refusedKind]int64, dropped int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts = make(map[refusedKind]int64)
	for kind, count := range r.pending {
		if kind.minute.Before(minute) {
			counts[kind] = count
			delete(r.pending, kind)
		}
	}
	if minute.After(r.taken) {
		r.taken = minute
	}
	dropped, r.dropped = r.dropped, 0
	return counts, dropped
}

func (r *Refusals) write(ctx context.Context, number int64, refused []store.SignInsRefused, now time.Time) error {
	company, err := r.Store.Companies.OfChain(ctx, number)
	if err != nil {
		return err
	}
	return r.Store.Companies.RefuseSignIns(ctx, store.Caller{Company: company, At: now}, refused)
}
