package db

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"attestd/internal/sleep"
)

// Duties are tasks that only one of the servers on a database needs to perform. A server holds a
// duty for dutyTime and renews it every dutyRenewed. A server that fails loses it after that time,
// and another one, which asks every dutyAsked, takes over.
//
// A server that was halted, or that stalls, does not know that it has lost a duty. So before it
// does what another one may do now, it asks Held.Check, and the database accepts the progress that
// it writes only while it holds the duty (Held.fence). Messages in flight to a receiver can still
// arrive; the receiver can recognize the duplicates.
const (
	dutyTime    = 5 * time.Second
	dutyRenewed = 2 * time.Second
	dutyAsked   = time.Second
)

const (
	takeDuty = `INSERT INTO duty (name, holder, until, run) VALUES ($1, $2, clock_timestamp() + $4 * interval '1 millisecond', $3)
	ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until, run = excluded.run
	WHERE duty.holder = excluded.holder OR duty.until <= clock_timestamp() RETURNING name`
	// A server that finds another run has lost the duty, also where that one has ended.
	renewDuty = `UPDATE duty SET until = clock_timestamp() + $4 * interval '1 millisecond'
	WHERE name = $1 AND holder = $2 AND run = $3 RETURNING name`
	leaveDuty = `DELETE FROM duty WHERE name = $1 AND holder = $2 AND run = $3 RETURNING name`
)

// ErrDutyLost means that another server may have a duty that this one had.
var ErrDutyLost = errors.New("another server has taken over")

// Held is a duty that this server has acquired, until it loses it. Its methods may be called at any
// time.
type Held struct {
	db        *DB
	name, run string
	lost      chan struct{} // closed once it is lost

	asking sync.Mutex // the database is asked once at a time
	mu     sync.Mutex
	began  moment // of the last request that the database has granted
	gone   bool
}

// Run names this holding of the duty. No other one ever has the name.
func (h *Held) Run() string { return h.run }

// Check returns nil while this server surely holds the duty. Near the end of what the database has
// granted, by any clock of this machine, it asks the database. It returns ErrDutyLost when the duty
// is lost, and another error when the database does not say. A nil Held is never lost.
func (h *Held) Check(ctx context.Context) error {
	if h == nil || !h.db.MultiWriter() {
		return nil
	}
	if sure, err := h.isSure(); sure || err != nil {
		return err
	}
	h.asking.Lock()
	defer h.asking.Unlock()
	if sure, err := h.isSure(); sure || err != nil { // another caller has asked meanwhile
		return err
	}
	return h.renew(ctx)
}

// isSure reports whether the end of the duty is far enough, or that it is lost.
func (h *Held) isSure() (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone {
		return false, ErrDutyLost
	}
	return h.left() > dutyAsked, nil
}

// left returns how long the database has granted the duty from now on. The caller holds h.mu.
func (h *Held) left() time.Duration { return dutyTime - h.db.moment().since(h.began) }

// renew asks the database. The caller holds h.asking.
func (h *Held) renew(ctx context.Context) error {
	began := h.db.moment()
	has, err := h.db.side.Row(ctx, []any{new(string)}, renewDuty, h.name, h.db.holder, h.run, dutyTime.Milliseconds())
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.gone || err == nil && !has:
		h.drop()
		return ErrDutyLost
	case err != nil:
		return fmt.Errorf("the database does not say who has the duty %s: %w", h.name, err)
	}
	h.began = began
	return nil
}

// drop records that the duty is lost. The caller holds h.mu.
func (h *Held) drop() {
	if !h.gone {
		h.gone = true
		close(h.lost)
	}
}

// Fence returns a condition that a statement adds to its own, and the arguments of that: it is true
// while the database says that this server holds the duty. A nil Held is never lost. The condition
// is a part of the statement that writes, because the server may be halted between two statements.
func (h *Held) Fence() (condition string, args []any) {
	if h == nil || !h.db.MultiWriter() {
		return "TRUE", nil
	}
	return "EXISTS (SELECT 1 FROM duty WHERE name = ? AND holder = ? AND run = ?)", []any{h.name, h.db.holder, h.run}
}

// moment is a time by the clocks of this machine. Each of them may stop: the monotonic one of the
// process while the machine sleeps, the other one while a virtual machine is moved, and the wall
// clock when it is set back.
type moment struct {
	at     time.Time
	steady time.Duration
}

func (d *DB) moment() moment {
	m := moment{at: time.Now()}
	if d.keyClock != nil {
		m.steady = d.keyClock.elapsed()
	}
	return m
}

// since returns how long ago an earlier moment is, by the clock that says the most.
func (m moment) since(earlier moment) time.Duration {
	return max(m.at.Sub(earlier.at), m.at.Round(0).Sub(earlier.at.Round(0)), m.steady-earlier.steady)
}

// Duty calls take when this server acquires a duty and lose when it loses it, in turn, until ctx is
// done. Then it releases the duty. On a file, the only server holds every duty from the start. take
// and lose MUST return soon, because the duty is not renewed while they run.
func (d *DB) Duty(ctx context.Context, name string, take func(*Held), lose func()) {
	if !d.MultiWriter() {
		d.duties.note(name, DutyStatus{Held: true})
		take(&Held{db: d, name: name, run: rand.Text()})
		<-ctx.Done()
		return
	}
	var held *Held // nil while another server holds it
	defer func() {
		if held != nil {
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), dutyAsked)
			defer cancel()
			// on an error, the duty ends by itself
			_, _ = d.side.Row(last, []any{new(string)}, leaveDuty, name, d.holder, held.run)
		}
	}()
	d.duties.note(name, DutyStatus{Answered: time.Now()})
	for ctx.Err() == nil {
		isLost, err := false, error(nil)
		if held == nil {
			if held, err = d.takeDuty(ctx, name); held != nil && ctx.Err() == nil {
				take(held)
			}
		} else if isLost, err = held.keep(ctx); isLost {
			held = nil
			lose()
		}
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			d.duties.note(name, DutyStatus{Held: held != nil, Answered: time.Now()})
		} else if held == nil {
			d.duties.lose(name)
		}
		held.rest(ctx)
	}
}

// takeDuty returns nil if another server has the duty.
func (d *DB) takeDuty(ctx context.Context, name string) (*Held, error) {
	h := &Held{db: d, name: name, run: rand.Text(), lost: make(chan struct{}), began: d.moment()}
	has, err := d.side.Row(ctx, []any{new(string)}, takeDuty, name, d.holder, h.run, dutyTime.Milliseconds())
	if !has || err != nil {
		return nil, err
	}
	return h, nil
}

// keep renews a duty. It is lost when the database says so, or, with an error, when the database
// does not say in time who has it.
func (h *Held) keep(ctx context.Context) (isLost bool, err error) {
	h.asking.Lock()
	defer h.asking.Unlock()
	h.mu.Lock()
	left, gone := h.left(), h.gone
	h.mu.Unlock()
	if gone { // Check has found that
		return true, nil
	}
	asking, cancel := context.WithTimeout(ctx, max(left, dutyAsked))
	err = h.renew(asking)
	cancel()
	if errors.Is(err, ErrDutyLost) {
		return true, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil || ctx.Err() != nil || h.left() > dutyAsked {
		return false, err
	}
	h.drop()
	return true, err
}

// rest waits until the duty is to be renewed, or asked for if h is nil, or is known to be lost.
func (h *Held) rest(ctx context.Context) {
	if h == nil {
		_ = sleep.For(ctx, dutyAsked) // the loop handles ctx
		return
	}
	again := time.NewTimer(dutyRenewed)
	defer again.Stop()
	select {
	case <-again.C:
	case <-h.lost:
	case <-ctx.Done():
	}
}

// DutyStatus says whether this server holds a duty, and when the database last named the holder. On
// a file, the only server holds all without asking: then Answered is zero.
type DutyStatus struct {
	Held     bool
	Answered time.Time
}

// IsUnknown reports whether the database has not named the holder for so long that another server
// may have the duty now.
func (d DutyStatus) IsUnknown(now time.Time) bool {
	return !d.Answered.IsZero() && now.Sub(d.Answered) > 2*dutyTime
}

// duties are those that this server asks for.
type duties struct {
	mu     sync.Mutex
	byName map[string]DutyStatus
}

func (d *duties) note(name string, is DutyStatus) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byName == nil {
		d.byName = map[string]DutyStatus{}
	}
	d.byName[name] = is
}

// lose records that this server does not hold a duty any more, without an answer of the database.
func (d *duties) lose(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	is := d.byName[name]
	is.Held = false
	d.byName[name] = is
}

func (d *duties) all() map[string]DutyStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.byName)
}
