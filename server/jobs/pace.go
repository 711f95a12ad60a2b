package jobs

import (
	"context"
	"sync"
	"time"

	"attestd/internal/sleep"
)

const (
	paceWindow = 100 * time.Millisecond
	// records per window from which appends have priority
	busyFrom         = 50
	recordsADelivery = 50 // per delivery while appends have priority
	// maximum time between two deliveries, even with few records
	longestGap = 20 * time.Millisecond
	busyFor    = time.Second // after a busy window, because records may come in bursts
)

// Pace keeps deliveries from competing with appends to either log. While many records are appended,
// all webhooks together send one message, or read one range of records, per fifty records, and fall
// behind. Otherwise each sends as fast as its endpoint responds. Nothing is lost, because unsent
// records are on disk. The pace depends on the rate of records, because that reflects the speed of
// the machine.
type Pace struct {
	mu              sync.Mutex
	window          time.Time // start of the current window
	current, before int       // records in the current window, and in the previous one
	until           time.Time // end of the appends' priority
	slot            time.Time // time of the next delivery while appends have priority
}

// Appended counts committed records.
func (p *Pace) Appended(n int, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn(now)
	if p.current += n; p.current >= busyFrom {
		p.until = now.Add(busyFor)
	}
}

// IsBusy reports whether appends have priority.
func (p *Pace) IsBusy(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return now.Before(p.until)
}

// turn starts the window that contains now.
func (p *Pace) turn(now time.Time) {
	switch passed := now.Sub(p.window); {
	case passed < paceWindow:
		return
	case passed < 2*paceWindow:
		p.before = p.current
	default:
		p.before = 0
	}
	p.current, p.window = 0, now
}

// reserve returns how long to wait before the next delivery.
func (p *Pace) reserve(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn(now)
	if !now.Before(p.until) {
		p.slot = now
		return 0
	}
	if p.slot.Before(now) {
		p.slot = now
	}
	wait := p.slot.Sub(now)
	p.slot = p.slot.Add(min(longestGap, paceWindow*recordsADelivery/time.Duration(max(1, p.current, p.before))))
	return wait
}

func (p *Pace) wait(ctx context.Context) error { return sleep.For(ctx, p.reserve(time.Now())) }
