package server

import (
	"context"
	"sync"
	"time"
)

const (
	paceWindow = 100 * time.Millisecond
	// records in a window, from which on appends come first
	busyFrom         = 50
	recordsADelivery = 50 // that are appended for each delivery while they do
	// between two deliveries, be there never so few records
	longestGap = 20 * time.Millisecond
	busyFor    = time.Second // after so many have come: they may come in bursts
)

// pace keeps deliveries from taking the machine from appends. While many records come, all webhooks
// together are sent one message, or read one range of records, for every fifty of them, and fall
// behind; else each goes as fast as its endpoint answers. Nothing is lost by it, for what is to be
// sent stands on disk. It goes by the records, for how many of them come says how much of the
// machine there is.
type pace struct {
	mu           sync.Mutex
	window       time.Time // when the one that is counted in began
	came, before int       // records in it, and in the one before it
	until        time.Time // appends come first
	slot         time.Time // of the next delivery, while they do
}

// appended counts records that were just committed.
func (p *pace) appended(n int, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn(now)
	if p.came += n; p.came >= busyFrom {
		p.until = now.Add(busyFor)
	}
}

// isBusy says whether appends come first.
func (p *pace) isBusy(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return now.Before(p.until)
}

// turn begins the window that now is in.
func (p *pace) turn(now time.Time) {
	switch passed := now.Sub(p.window); {
	case passed < paceWindow:
		return
	case passed < 2*paceWindow:
		p.before = p.came
	default:
		p.before = 0
	}
	p.came, p.window = 0, now
}

// reserve returns how long to wait before the next delivery.
func (p *pace) reserve(now time.Time) time.Duration {
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
	p.slot = p.slot.Add(min(longestGap, paceWindow*recordsADelivery/time.Duration(max(1, p.came, p.before))))
	return wait
}

func (p *pace) wait(ctx context.Context) error { return sleep(ctx, p.reserve(time.Now())) }

// sleep waits for d, or until ctx is done.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
