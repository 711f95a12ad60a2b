package chain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
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
// check; the rows are read and the tree is built anew all the same.
type Verifier struct {
	reader  Reader
	workers int
	turns   *turns

	mu         sync.Mutex
	verified   map[int64]Prefix
	remembered int64 // number of changes of verified
}

// NewVerifier returns a verifier that reads from r. Each call of Verify checks signatures on
// workers goroutines.
func NewVerifier(r Reader, workers int) *Verifier {
	return &Verifier{reader: r, workers: max(1, workers), turns: newTurns(), verified: make(map[int64]Prefix)}
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

// verifyWhole is VerifyInBackground. It also returns the tree of all records if the chain is valid.
func (v *Verifier) verifyWhole(ctx context.Context, chain int64) (Verdict, tree, error) {
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
