package chain

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"attestd/chain/tlog"
	"attestd/internal/bounded"
	"attestd/internal/sleep"
)

// Verdict is the result of a verification.
type Verdict struct {
	Valid     bool
	Length    int64  // verified records: all, or those before the failure
	Timestamp string // of the last of them; not set in an Event
	Root      Hash   // if Valid
	Pruned    int64  // of the verified records, those whose payload was pruned
	FailedAt  int64  // if not Valid: first failing index
	Reason    string // if not Valid
}

// maxVerified bounds the chains whose verified prefix a Verifier caches, about 130 bytes each.
const maxVerified = 1 << 15

// Verifier is the only code that verifies chains. It is safe for concurrent use. Concurrent calls
// take turns, and yield to the appends that Appended reports.
//
// It remembers of each chain how many records it has verified, under which keys, and one SHA-256
// over all that it read of them. When it reads the same bytes again their signatures need no second
// check; the rows are read and the tree is rebuilt all the same.
type Verifier struct {
	reader  Reader
	workers int
	turns   *turns

	mu         sync.Mutex
	verified   *bounded.Map[int64, Prefix]
	remembered int64 // number of changes of verified
}

// NewVerifier returns a verifier that reads from r. Each call of Verify checks signatures on
// workers goroutines.
func NewVerifier(r Reader, workers int) *Verifier {
	return &Verifier{reader: r, workers: max(1, workers), turns: newTurns(), verified: bounded.NewMap[int64, Prefix](maxVerified)}
}

// Appended reports an append to any chain. Running verifications use less of the machine for a
// moment.
func (v *Verifier) Appended() { v.turns.appendedNow() }

// Verify recomputes a chain from disk: it checks that indices have no gaps and timestamps never
// decrease, the hash and signature of each record, each stored node, and the head. Of records whose
// payloads were pruned it checks the signature over the stored hash, and that together they are
// those that the company has signed when it pruned them. It covers the
// records of the head at one moment, and ignores later ones. FailedAt is the first wrong index: for
// a wrong node its last record, for a truncated chain the first missing record, for a record after
// the head its own index, for a wrong root the last record, for a missing head 0.
//
// An error says that the chain could not be read, never that it is not valid; when ctx ends it is
// ctx.Err(). progress, if not nil, is called now and then, by the goroutine that called Verify.
// Memory does not grow with the chain.
func (v *Verifier) Verify(ctx context.Context, chain int64, progress func(done, total int64)) (Verdict, error) {
	run := v.newRun(chain)
	run.progress = progress
	return v.verify(ctx, run)
}

// VerifyInBackground is Verify on no more than one core.
func (v *Verifier) VerifyInBackground(ctx context.Context, chain int64) (Verdict, error) {
	verdict, _, err := v.verifyInBackground(ctx, chain, -1)
	return verdict, err
}

// verifyInBackground is VerifyInBackground. It also returns the tree of the records before
// snapshotAt if the chain is valid and long enough.
func (v *Verifier) verifyInBackground(ctx context.Context, chain, snapshotAt int64) (Verdict, tree, error) {
	run := v.newRun(chain)
	run.inBackground, run.snapshotAt = true, snapshotAt
	verdict, err := v.verify(ctx, run)
	return verdict, run.snapshot, err
}

// verifyFull is VerifyInBackground. It also returns the tree of all records if the chain is valid.
func (v *Verifier) verifyFull(ctx context.Context, chain int64) (Verdict, tree, error) {
	run := v.newRun(chain)
	run.inBackground = true
	verdict, err := v.verify(ctx, run)
	return verdict, run.tree.clone(), err
}

func (v *Verifier) newRun(chain int64) *verifyRun {
	run := &verifyRun{turns: v.turns, workers: v.workers, reader: v.reader, chain: chain, snapshotAt: -1}
	run.reset()
	return run
}

func (v *Verifier) verify(ctx context.Context, run *verifyRun) (Verdict, error) {
	if run.pace == nil {
		v.turns.asked.Add(1)
		defer v.turns.asked.Add(-1)
	}
	for {
		verdict, err := v.verifyOnce(ctx, run)
		if err != nil || verdict.Valid {
			return verdict, err
		}
		if pruned, err := v.reader.Pruned(ctx, run.chain); err != nil || pruned == run.pruned {
			return verdict, nil
		}
		run.reset() // payloads that were missing were pruned since the run began
	}
}

// verifyOnce calls a payload missing that is pruned while it reads.
func (v *Verifier) verifyOnce(ctx context.Context, run *verifyRun) (Verdict, error) {
	head, next, err := v.reader.Tip(ctx, run.chain)
	switch {
	case errors.Is(err, ErrMissing):
		return Verdict{Reason: "the stored head is missing"}, nil
	case err != nil:
		return Verdict{}, fmt.Errorf("chain: head of chain %d: %w", run.chain, err)
	}
	run.hasLog = head.Log.Size != NoLog
	// read after the head, so that it has the keys of all covered records
	run.keys, err = v.reader.KeySet(ctx, run.chain)
	switch {
	case errors.Is(err, ErrMissing):
		return Verdict{Reason: "the keys of this chain are missing"}, nil
	case err != nil:
		return Verdict{}, fmt.Errorf("chain: keys of chain %d: %w", run.chain, err)
	}
	if run.owner, err = v.reader.Owner(ctx, run.chain); err != nil {
		return Verdict{}, fmt.Errorf("chain: owner of chain %d: %w", run.chain, err)
	}
	run.unproven = nil
	if run.pruned, err = v.reader.Pruned(ctx, run.chain); errors.Is(err, ErrUnproven) {
		run.pruned, run.unproven = Pruned{}, err
	} else if err != nil {
		return Verdict{}, fmt.Errorf("chain: what was pruned of chain %d: %w", run.chain, err)
	}
	run.total = max(0, min(head.Length, next))
	err = v.readAll(ctx, run)
	if err == nil {
		err = run.compareHead(head, next)
	}
	if err == nil {
		err = run.keys.flaw(head.Length)
	}
	var wrong *failure
	if err != nil && !errors.As(err, &wrong) {
		v.rememberProgress(run)
		if ctx.Err() != nil {
			return Verdict{}, ctx.Err()
		}
		return Verdict{}, fmt.Errorf("chain: reading chain %d: %w", run.chain, err)
	}
	if known, ok := run.known(); ok {
		v.remember(run.chain, known)
	}
	verdict := Verdict{Valid: wrong == nil, Length: run.tree.length, Timestamp: run.timestamp, Pruned: run.missing}
	if wrong != nil {
		verdict.Length, verdict.FailedAt, verdict.Reason = min(verdict.Length, wrong.index), wrong.index, wrong.reason
		verdict.Pruned = min(verdict.Pruned, verdict.Length)
	} else {
		verdict.Root = run.tree.root()
	}
	return verdict, nil
}

// readAll runs the verification up to its total. It reads the verified prefix without checking
// signatures. If the prefix has changed or anything in it is wrong, it starts again with all
// checks.
func (v *Verifier) readAll(ctx context.Context, run *verifyRun) error {
	if known, ok := v.recall(run.chain); ok && known.Length <= run.total && known.Terms == run.terms(known.Length) {
		err := run.readTo(ctx, known.Length, false)
		var wrong *failure
		if err != nil && !errors.As(err, &wrong) {
			return err
		}
		if wrong != nil || run.digestSoFar() != known.Digest {
			run.reset()
		} else {
			run.log = known.Log
		}
	}
	return run.readTo(ctx, run.total, true)
}

// compareHead checks that the head matches the records and covers exactly them.
func (v *verifyRun) compareHead(head Head, next int64) error {
	switch {
	case head.Length < 0:
		return &failure{0, "the stored length is negative"}
	case next < head.Length:
		return &failure{next, fmt.Sprintf("record %d is missing: the stored head covers %d records", next, head.Length)}
	case next > head.Length:
		return &failure{head.Length, fmt.Sprintf("record %d stands beyond the stored head, which covers %d records", head.Length, head.Length)}
	}
	last := max(0, head.Length-1)
	switch {
	case head.Length < v.pruned.Records:
		return &failure{head.Length, fmt.Sprintf("record %d is missing: the payloads of %d records were pruned", head.Length, v.pruned.Records)}
	case v.tree.root() != head.Root:
		return &failure{last, "the stored root is not the root of the records"}
	case !slices.Equal(v.tree.frontier, head.Frontier):
		return &failure{last, "the stored frontier is not that of the records"}
	case v.hasLog && v.log.Root() != head.LogRoot:
		return &failure{last, "the stored root of the log tree is not that of the records"}
	case v.hasLog && (head.Log.Size != head.Length || !slices.Equal(v.log.Roots, head.Log.Roots)):
		return &failure{last, "the stored frontier of the log tree is not that of the records"}
	case v.timestamp != head.Timestamp:
		return &failure{last, "the stored head's time differs from the last record's"}
	}
	return nil
}

// Prefix says that the first Length records of a chain were verified. It holds for exactly the
// bytes of its Digest under exactly its Terms, for any reader at any time: it says nothing of what
// is on disk now.
type Prefix struct {
	Length int64
	Terms  Hash // of what the records were checked against: their owner and their keys
	// over the encodings of the records (see rowRange.add) and the stored nodes that they complete
	Digest Hash
	Log    tlog.Frontier // frontier of the log tree
}

// Prefixes returns what the verifier remembers, by chain, and a number that grows with each change
// of it.
func (v *Verifier) Prefixes() (known map[int64]Prefix, version int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.verified.Clone(), v.remembered
}

// Version returns the number of Prefixes alone.
func (v *Verifier) Version() int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.remembered
}

// Recall makes the verifier remember what another one has verified. The caller MUST know that a
// Verifier of the same program returned it: signatures over the same bytes are not checked again.
func (v *Verifier) Recall(known map[int64]Prefix) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for chain, p := range known {
		if _, is := v.verified.Get(chain); !is {
			v.verified.Put(chain, p)
		}
	}
}

func (v *Verifier) recall(chain int64) (Prefix, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.verified.Get(chain)
}

func (v *Verifier) remember(chain int64, known Prefix) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.put(chain, known)
}

// rememberProgress remembers how far a run has come, unless more of the chain is known.
func (v *Verifier) rememberProgress(run *verifyRun) {
	known, ok := run.known()
	if !ok || known.Length == 0 {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if was, _ := v.verified.Get(run.chain); was.Length < known.Length {
		v.put(run.chain, known)
	}
}

func (v *Verifier) put(chain int64, known Prefix) {
	if was, is := v.verified.Get(chain); is && was.Digest == known.Digest && was.Terms == known.Terms {
		return
	}
	v.verified.Put(chain, known)
	v.remembered++
}

// known returns what the run has verified so far, unless it ended inside a range.
func (v *verifyRun) known() (Prefix, bool) {
	length := v.tree.length
	if v.log.Size != length {
		return Prefix{}, false
	}
	return Prefix{length, v.terms(length), v.digestSoFar(), tlog.Frontier{Size: length, Roots: slices.Clone(v.log.Roots)}}, true
}

func (v *verifyRun) terms(length int64) Hash { return v.keys.terms(length, v.owner, v.hasLog) }

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
	yields      bool  // rests after each range
}

// full uses all workers. A range is about 5 ms of work, so that short chains are divided too.
func full(workers int) effort {
	return effort{workers: workers, ranges: 2*workers + 1, checkedRows: 128, trustedRows: 1024}
}

// modest uses at most one core: with one range, reader, worker and fold run in turn. A range is
// about 1 ms of work.
var modest = effort{workers: 1, ranges: 1, checkedRows: 24, trustedRows: 256, yields: true}

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

var errGap = errors.New("record is missing")
