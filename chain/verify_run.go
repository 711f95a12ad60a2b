package chain

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"sync"
	"time"

	"attestd/chain/tlog"
)

// failure is the error of a run on an invalid chain.
type failure struct {
	index  int64
	reason string
}

func (f *failure) Error() string { return fmt.Sprintf("record %d: %s", f.index, f.reason) }

// verifyRun is one verification of one chain. It reads the chain once, in order:
//
//	read (one goroutine) → check hashes and signatures (the workers) → fold in order (the caller)
//
// Ranges of rows circulate between the three; their number bounds the memory. A worker marks the
// first bad row of its range, and the fold processes the ranges in order, so it finds the first
// failure of the chain.
type verifyRun struct {
	turns        *turns
	workers      int
	inBackground bool  // use at most one core
	pace         *pace // of a run at the lowest priority, otherwise nil
	reader       Reader
	chain        int64
	keys         KeySet
	owner        Owner
	pruned       Pruned
	unproven     error // why pruned is empty, if the log has more to say
	progress     func(done, total int64)
	total        int64
	snapshotAt   int64 // save the tree of this length; -1 for none

	// Owned by the fold.
	tree      tree      // of the verified records
	timestamp string    // of the last verified record
	digest    hash.Hash // over their encodings and those of the nodes that they complete
	skeleton  hash.Hash // over those of them that pruned covers
	missing   int64     // payloads
	snapshot  tree
	nodes     []Node
	scratch   []byte
	hasLog    bool
	// frontier of the log tree over checked and cached records
	log tlog.Frontier
}

func (v *verifyRun) reset() {
	v.tree, v.timestamp, v.digest, v.snapshot, v.log = tree{}, "", sha256.New(), tree{}, tlog.Frontier{}
	v.skeleton, v.missing = sha256.New(), 0
}

// digestSoFar returns the digest without changing its state.
func (v *verifyRun) digestSoFar() (sum Hash) {
	v.digest.Sum(sum[:0])
	return sum
}

// readTo continues to the given length in one or more turns. Without check it skips canonical
// forms, record hashes and signatures. It returns a *failure for wrong data; other errors are read
// errors.
func (v *verifyRun) readTo(ctx context.Context, length int64, check bool) error {
	for v.tree.length < length {
		if err := v.pace.yield(ctx); err != nil {
			return err
		}
		if err := v.turns.acquire(ctx); err != nil {
			return err
		}
		v.pace.begin()
		err := v.acquireTurn(ctx, length, check)
		v.turns.release()
		if err != nil {
			return err
		}
		if err := v.pace.rest(ctx); err != nil {
			return err
		}
		if v.pace != nil && check {
			v.pace.verifier.rememberProgress(v)
		}
	}
	v.storeSnapshot()
	return nil
}

// effort returns the share of the machine that the run may use now.
func (v *verifyRun) effort() effort {
	if v.inBackground || v.turns.appendsSince(time.Now().Add(-quietTime)) {
		return modest
	}
	return full(v.workers)
}

// acquireTurn waits for a turn and processes at least one range. It returns at the given length,
// when another run should have its turn, or when the effort should change. No goroutine outlives
// the call.
func (v *verifyRun) acquireTurn(ctx context.Context, length int64, check bool) error {
	began, effort := time.Now(), v.effort()
	over := func() bool {
		return v.pace != nil || v.turns.waiting.Load() > 0 && time.Since(began) >= turnTime || v.effort() != effort
	}
	rows, workers := effort.checkedRows, effort.workers
	if !check {
		rows, workers = effort.trustedRows, 0
	}
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()

	n := effort.ranges
	free, filled, work := make(chan *rowRange, n), make(chan *rowRange, n), make(chan *rowRange, n)
	for range n {
		free <- &rowRange{checked: make(chan struct{}, 1)}
	}
	var readErr error // owned by the reading goroutine until it closes filled
	from := v.tree.length
	group.Go(func() {
		defer close(filled)
		defer close(work)
		readErr = v.read(ctx, from, length, rows, free, over, func(g *rowRange) {
			if check {
				work <- g
			}
			filled <- g
		})
	})
	for range workers {
		group.Go(func() {
			c := checker{leaves: Leaves{Keys: v.keys}, owner: v.owner, foldsPruned: true}
			for g := range work {
				c.check(ctx, g)
				g.checked <- struct{}{}
			}
		})
	}

	pace := pacer{v.turns, began, began}
	for g := range filled {
		if check {
			<-g.checked
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := v.fold(ctx, g, check); err != nil {
			return err
		}
		if v.progress != nil {
			v.progress(v.tree.length, v.total)
		}
		v.pace.read(len(g.memory))
		if effort.givesWay && v.pace == nil {
			pace.rest(ctx)
		}
		free <- g
	}
	return readErr
}

// read fills free ranges with the rows in [from, to) until the turn is over, at least one, and
// passes them on. The channels have room for all ranges.
func (v *verifyRun) read(ctx context.Context, from, to, rows int64, free <-chan *rowRange, over func() bool, hand func(*rowRange)) error {
	for first := from; from < to; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case g := <-free:
			if from > first && over() {
				return nil
			}
			if err := g.fill(ctx, v.reader, v.chain, from, min(to, from+rows)); err != nil {
				return err
			}
			from = g.to
			hand(g)
		}
	}
	return nil
}

// fold adds the rows of the next range to the trees. Unchecked rows are added only to the first
// tree: their part of the log tree is cached with the digest of the prefix.
func (v *verifyRun) fold(ctx context.Context, g *rowRange, checked bool) error {
	var logNodes []tlog.Node
	if checked {
		v.log, logNodes = v.log.Append(g.leaves...) // only rows before a bad one have leaves
	}
	for i := range g.rows {
		r := &g.rows[i]
		switch {
		case r.Index > v.tree.length:
			return &failure{v.tree.length, fmt.Sprintf("record %d is missing", v.tree.length)}
		case r.Index < v.tree.length:
			return &failure{r.Index, fmt.Sprintf("record %d stands there twice", r.Index)}
		case r.IsPruned() && r.Index >= v.pruned.Records:
			return &failure{r.Index, v.reasonMissing()}
		case i == g.bad:
			return &failure{r.Index, g.reason}
		case r.Timestamp < v.timestamp:
			return &failure{r.Index, "the timestamp is earlier than that of the record before"}
		}
		v.storeSnapshot()
		v.timestamp = r.Timestamp
		v.digest.Write(r.encoding)
		v.nodes = v.tree.append(r.Hash, v.nodes[:0])
		if err := v.foldPruned(&r.Record); err != nil {
			return err
		}
		for _, n := range v.nodes {
			if len(logNodes) > 0 {
				n.LogHash, logNodes = logNodes[0].Hash, logNodes[1:]
			}
			if err := v.compareNode(ctx, n, checked); err != nil {
				return err
			}
		}
	}
	if v.tree.length < g.to {
		return &failure{v.tree.length, fmt.Sprintf("record %d is missing", v.tree.length)}
	}
	return nil
}

// foldPruned adds a record of those whose payloads may be missing to the skeleton, and compares
// that after the last. Any of them may be the wrong one, so none counts as verified then.
func (v *verifyRun) foldPruned(r *Record) error {
	if r.IsPruned() {
		v.missing++
	}
	if r.Index >= v.pruned.Records {
		return nil
	}
	v.scratch = r.AppendSkeleton(v.scratch[:0])
	v.skeleton.Write(v.scratch)
	if r.Index < v.pruned.Records-1 || Hash(v.skeleton.Sum(nil)) == v.pruned.Skeleton {
		return nil
	}
	return &failure{0, fmt.Sprintf("the first %d records are not those whose payloads were pruned", v.pruned.Records)}
}

func (v *verifyRun) reasonMissing() string {
	if v.unproven != nil {
		return "the payload is missing, and what says that it was pruned does not verify: " + v.unproven.Error()
	}
	return "the payload is missing, and was not pruned"
}

func (v *verifyRun) storeSnapshot() {
	if v.tree.length == v.snapshotAt {
		v.snapshot = v.tree.clone()
	}
}

// compareNode compares a node that the last record completed with its stored row, once in 256
// records.
func (v *verifyRun) compareNode(ctx context.Context, n Node, checked bool) error {
	last := v.tree.length - 1
	stored, err := v.reader.Node(ctx, v.chain, n.Level, n.Index)
	switch {
	case errors.Is(err, ErrMissing):
		return &failure{last, fmt.Sprintf("the stored node %d of level %d is missing", n.Index, n.Level)}
	case err != nil:
		return err
	case stored.Hash != n.Hash:
		return &failure{last, fmt.Sprintf("the stored node %d of level %d is not that of the records below it", n.Index, n.Level)}
	case checked && v.hasLog && stored.LogHash != n.LogHash:
		return &failure{last, fmt.Sprintf("the stored node %d of level %d of the log tree is not that of the records below it", n.Index, n.Level)}
	}
	v.digest.Write(stored.LogHash[:])
	return nil
}
