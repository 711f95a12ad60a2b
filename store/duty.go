package store

import (
	"context"
	"time"
)

// Duties are what only one of the servers on a database needs to do. A server has a duty for
// dutyTime, and renews it each dutyRenewed. One that is gone has lost it by then, and another one,
// which asks each dutyAsked, takes it over. Two may have it for a moment when a server stands
// still: that does no harm.
const (
	dutyTime    = 5 * time.Second
	dutyRenewed = 2 * time.Second
	dutyAsked   = time.Second
)

const (
	takeDuty = `INSERT INTO duty (name, holder, until) VALUES ($1, $2, clock_timestamp() + $3 * interval '1 millisecond')
	ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
	WHERE duty.holder = excluded.holder OR duty.until <= clock_timestamp() RETURNING name`
	leaveDuty = `DELETE FROM duty WHERE name = $1 AND holder = $2 RETURNING name`
)

// Duty calls take when this server has come to a duty and lose when it has it no more, in turn,
// until ctx is done; then it leaves the duty to another one. A file has one server, which has every
// duty from the start. take and lose return soon: the duty is not renewed meanwhile.
func (s *Store) Duty(ctx context.Context, name string, take, lose func()) {
	if !s.MultiWriter() {
		take()
		<-ctx.Done()
		return
	}
	var until time.Time // of the duty, by this machine's clock; zero while another server has it
	defer func() {
		if !until.IsZero() {
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), dutyAsked)
			defer cancel()
			// else it ends by itself
			_, _ = s.side.Row(last, []any{new(string)}, leaveDuty, name, s.holder)
		}
	}()
	for ctx.Err() == nil {
		began := time.Now()
		asking, cancel := ctx, context.CancelFunc(func() {})
		if !until.IsZero() {
			asking, cancel = context.WithDeadline(ctx, until)
		}
		has, err := s.side.Row(asking, []any{new(string)}, takeDuty, name, s.holder, dutyTime.Milliseconds())
		cancel()
		if ctx.Err() != nil {
			return
		}
		had, every := !until.IsZero(), dutyAsked
		switch {
		case has:
			until, every = began.Add(dutyTime), dutyRenewed
			if !had {
				take()
			}
		case had && (err == nil || !time.Now().Before(until.Add(-dutyAsked))):
			until = time.Time{}
			lose()
		}
		pause(ctx, every)
	}
}
