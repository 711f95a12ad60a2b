package chain

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"attestd/internal/sleep"
)

const (
	// turnTime is the duration of a run's turn while another run waits.
	turnTime = 10 * time.Millisecond

	// quietTime is the time after an append in which a run uses at most one core.
	quietTime = 100 * time.Millisecond

	// restShare is the ratio of rest to work of a run during appends, which leaves it a fifth of a
	// core.
	restShare = 4

	// maxRest bounds a rest, because the run keeps its turn meanwhile. A range that took longer
	// than a fraction of this has waited for the disk.
	maxRest = 40 * time.Millisecond
)

// effort is the share of the machine that a run uses.
type effort struct {
	workers     int
	ranges      int   // in progress at the same time
	checkedRows int64 // in a range to be checked
	trustedRows int64 // in a range that is only read
	givesWay    bool  // rests after each range
}

// full uses all workers. A range is about 5 ms of work, so that short chains are divided too.
func full(workers int) effort {
	return effort{workers: workers, ranges: 2*workers + 1, checkedRows: 128, trustedRows: 1024}
}

// modest uses at most one core: with one range, reader, worker and fold run in turn. A range is
// about 1 ms of work.
var modest = effort{workers: 1, ranges: 1, checkedRows: 24, trustedRows: 256, givesWay: true}

// turns shares the processors among the runs of a Verifier, and between them and appends.
//
// One run works at a time and uses all allowed processors. Two at once would not end sooner, and
// would need twice the memory. After turnTime a run goes to the end of the queue of waiting runs.
// So each of n runs gets an n-th of the time, and a run over a short chain ends after n turns,
// regardless of the length of other chains.
//
// While records are appended, all runs together use a fifth of a core; otherwise they use all.
type turns struct {
	turn    *semaphore.Weighted // of 1; first come, first served
	waiting atomic.Int64        // runs that wait for their turn
	asked   atomic.Int64        // runs that are not of the lowest priority
	start   time.Time           // creation time, the zero of appended
	// when records were last appended, in nanoseconds after start; 0 for never
	appended atomic.Int64
}

func newTurns() *turns { return &turns{turn: semaphore.NewWeighted(1), start: time.Now()} }

// acquire waits for the turn of a run and returns ctx.Err() if the context ends first.
func (t *turns) acquire(ctx context.Context) error {
	t.waiting.Add(1)
	defer t.waiting.Add(-1)
	return t.turn.Acquire(ctx, 1)
}

func (t *turns) release() { t.turn.Release(1) }

func (t *turns) appendedNow() { t.appended.Store(max(1, int64(time.Since(t.start)))) }

// appendsSince reports whether records have been appended after a moment.
func (t *turns) appendsSince(moment time.Time) bool {
	last := t.appended.Load()
	return last > 0 && last > int64(moment.Sub(t.start))
}

// pacer makes room for appends and other goroutines. It detects others by the time that it takes to
// get a processor back after yielding.
type pacer struct {
	turns     *turns
	lastCheck time.Time // time of the last check for appends
	resumed   time.Time // start of the current work
}

// rest is called after each range of rows. It ends early when ctx is done.
func (p *pacer) rest(ctx context.Context) {
	stopped := time.Now()
	appends := p.turns.appendsSince(p.lastCheck)
	runtime.Gosched()
	if appends || time.Since(stopped) > 20*time.Microsecond {
		_ = sleep.For(ctx, min(restShare*stopped.Sub(p.resumed), maxRest))
	}
	p.lastCheck, p.resumed = stopped, time.Now()
}
