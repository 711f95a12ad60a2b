package store

import (
	"context"
	"time"

	"attestd/internal/sleep"
)

// Duties are tasks that only one of the servers on a database needs to perform. A server holds a
// duty for dutyTime and renews it every dutyRenewed. A server that fails loses it after that time,
// and another one, which asks every dutyAsked, takes over. Two servers may hold a duty for a moment
// when one stalls, which does no harm.
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

// Duty calls take when this server acquires a duty and lose when it loses it, in turn, until ctx is
// done. Then it releases the duty. On a file, the only server holds every duty from the start. take
// and lose MUST return soon, because the duty is not renewed while they run.
func (s *Store) Duty(ctx context.Context, name string, take, lose func()) {
	if !s.MultiWriter() {
		s.duties.note(name, DutyStatus{Held: true})
		take()
		<-ctx.Done()
		return
	}
	// end of the duty, by this machine's clock; zero while another server holds it
	var until time.Time
	defer func() {
		if !until.IsZero() {
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), dutyAsked)
			defer cancel()
			// on an error, the duty ends by itself
			_, _ = s.side.Row(last, []any{new(string)}, leaveDuty, name, s.holder)
		}
	}()
	s.duties.note(name, DutyStatus{Answered: time.Now()})
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
		if err == nil {
			s.duties.note(name, DutyStatus{Held: has, Answered: time.Now()})
		} else if until.IsZero() {
			s.duties.lose(name)
		}
		_ = sleep.For(ctx, every)
	}
}
