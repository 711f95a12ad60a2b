package chain

import (
	"context"
	"runtime"
	"time"

	"attestd/internal/sleep"
)

const (
	// pacedShare is the ratio of rest to work of a paced run on an idle machine, half of a core.
	pacedShare = 1

	// pacedShareBusy is the same while records are appended or others want the processor.
	pacedShareBusy = 60

	// pacedBytes is the largest number of bytes that a paced run reads in a second, so that it
	// leaves others the disk.
	pacedBytes = 32 << 20

	// pacedRest bounds a rest. A range that took longer than a fraction of this has waited for the
	// disk.
	pacedRest = time.Second

	// pacedYield bounds the time for which a paced run lets others verify before its next range, so
	// that it ends however many they are.
	pacedYield = time.Second
)

// VerifyPaced is Verify at the lowest priority: it reads one short range at a time, lets other
// verifications go first, and rests in between. What it has verified when ctx ends is remembered,
// so that the next run goes on from there.
func (v *Verifier) VerifyPaced(ctx context.Context, chain int64) (Verdict, error) {
	run := v.newRun(chain)
	run.inBackground, run.pace = true, &pace{verifier: v}
	began := time.Now()
	verdict, err := v.verify(ctx, run)
	if err != nil {
		return verdict, err
	}
	return verdict, v.Rest(ctx, time.Since(began)-run.pace.accounted)
}

// Rest makes a pause in proportion to work of the lowest priority that took some time.
func (v *Verifier) Rest(ctx context.Context, worked time.Duration) error {
	return v.turns.rest(ctx, worked, 0)
}

func (t *turns) rest(ctx context.Context, worked time.Duration, bytes int) error {
	stopped := time.Now()
	appends := t.appendsSince(stopped.Add(-quietTime))
	runtime.Gosched()
	pause := pacedShare * worked
	if appends || time.Since(stopped) > 20*time.Microsecond {
		pause = pacedShareBusy * worked
	}
	return sleep.For(ctx, min(max(pause, time.Duration(bytes)*time.Second/pacedBytes), pacedRest))
}

// pace is the state of a paced run. Its methods do nothing on nil.
type pace struct {
	verifier  *Verifier
	began     time.Time // of the current range
	bytes     int       // of that range
	accounted time.Duration
}

// yield waits while other verifications run.
func (p *pace) yield(ctx context.Context) error {
	if p == nil {
		return nil
	}
	p.began = time.Now()
	for p.verifier.turns.asked.Load() > 0 && time.Since(p.began) < pacedYield {
		if err := sleep.For(ctx, turnTime); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// begin is called when the run has its turn.
func (p *pace) begin() {
	if p != nil {
		p.accounted += time.Since(p.began)
		p.began, p.bytes = time.Now(), 0
	}
}

// read counts the bytes of a range.
func (p *pace) read(bytes int) {
	if p != nil {
		p.bytes += bytes
	}
}

// rest is called when the turn has ended.
func (p *pace) rest(ctx context.Context) error {
	if p == nil {
		return nil
	}
	err := p.verifier.turns.rest(ctx, time.Since(p.began), p.bytes)
	p.accounted += time.Since(p.began)
	return err
}
