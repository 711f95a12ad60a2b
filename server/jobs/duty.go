// Package jobs has what a server does in the background: it delivers webhooks, exports the logs,
// asks witnesses, verifies, deletes expired rows, and watches its clock and its database. Each job
// is a type whose Run works until its context is done, and whose Status may be called at any time.
// None of them knows a request, so this package imports neither httpapi nor api. A newcomer begins
// with Retention, a short job, and with whileOnDuty, which runs a job on one of several servers.
package jobs

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"attestd/store"
	"attestd/store/db"
	"attestd/store/feed"
)

// whileOnDuty runs work whenever this server has a duty, until ctx is done. The context of work
// ends with the duty. Work that takes long to end may still run when the duty, and with it work, is
// back. A server that was halted learns late that it has lost the duty: work that must not be done
// twice asks Held.Check.
func whileOnDuty(ctx context.Context, s *store.Store, duty string, work func(context.Context, *db.Held)) {
	var group sync.WaitGroup
	defer group.Wait()
	end := func() {}
	s.Duty(ctx, duty, func(held *db.Held) {
		onDuty, cancel := context.WithCancel(ctx)
		end = cancel
		group.Go(func() { work(onDuty, held) })
	}, func() { end() })
	end()
}

// progress saves positions in the name of the duty that this server holds, or held last: the
// database refuses those that come after another server has the duty.
type progress[K comparable, P any] struct {
	*feed.Keeper[K, P]
	held atomic.Pointer[db.Held]
}

func newProgress[K comparable, P any](
	save func(ctx context.Context, duty *db.Held, moved map[K]P) error, log *slog.Logger,
) *progress[K, P] {
	p := new(progress[K, P])
	p.Keeper = feed.NewKeeper(progressEvery, func(ctx context.Context, moved map[K]P) error {
		err := save(ctx, p.held.Load(), moved)
		if errors.Is(err, db.ErrDutyLost) { // the next holder repeats that work
			err = nil
		}
		return err
	}, log)
	return p
}

// begin drops what was not saved of the holding before, and saves in the name of this one.
func (p *progress[K, P]) begin(held *db.Held) {
	p.Forget()
	p.held.Store(held)
}
