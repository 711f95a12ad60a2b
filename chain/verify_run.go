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

// failure is how a run ends on a chain that is not valid.
type failure struct {
	index  int64
	reason string
}

func (f *failure) Error() string { return fmt.Sprintf("record %d: %s", f.index, f.reason) }

// verifyRun is one verification of one chain. It reads the chain once, in order:
//
//	read (one goroutine) → check hashes and signatures (the workers) → fold in order (the caller)
//
// Ranges of rows go round between the three; their number bounds the memory. A worker marks the
// first bad row of its range, and the fold sees the ranges in order, so the first failure found is
// the first there is.
type verifyRun struct {
	turns        *turns
	workers      int
	inBackground bool // never more than one core
	reader       Reader
	chain        int64
	keys         KeySet
	owner        Owner
	progress     func(done, total int64)
	total        int64
	snapshotAt   int64 // keep the tree of this length, -1 for none

	// Owned by the fold.
	tree      tree      // of the records that are verified
	timestamp string    // of the last of them
	digest    hash.Hash // over their encodings, and those of the nodes that they complete
	snapshot  tree
	nodes     []Node
	hasLog    bool
	// of the log tree: of those records that were checked, or taken as verified before
	log tlog.Frontier
}

func (v *verifyRun) reset() {
	v.tree, v.timestamp, v.digest, v.snapshot, v.log = tree{}, "", sha256.New(), tree{}, tlog.Frontier{}
}

// digestSoFar leaves the running digest as it is.
func (v *verifyRun) digestSoFar() (sum Hash) {
	v.digest.Sum(sum[:0])
	return sum
}

// readTo goes on to the given length, one turn after the other; without check it leaves out
// canonical forms, record hashes and signatures. It returns a *failure for what is wrong and any
// other error for what could not be read.
func (v *verifyRun) readTo(ctx context.Context, length int64, check bool) error {
	for v.tree.length < length {
		if err := v.turns.acquire(ctx); err != nil {
			return err
		}
		err := v.acquireTurn(ctx, length, check)
		v.turns.release()
		if err != nil {
			return err
		}
	}
	v.storeSnapshot()
	return nil
}

// effort is what the run may take of the machine at this moment.
func (v *verifyRun) effort() effort {
	if v.inBackground || v.turns.appendsSince(time.Now().Add(-quietTime)) {
		return modest
	}
	return full(v.workers)
}

// acquireTurn goes on by a range at least, until it has come to the given length, others should
// have their turn, or the effort should be another one. No goroutine outlives the call.
func (v *verifyRun) acquireTurn(ctx context.Context, length int64, check bool) error {
	began, effort := time.Now(), v.effort()
	over := func() bool {
		return v.turns.waiting.Load() > 0 && time.Since(began) >= turnTime || v.effort() != effort
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
	var readErr error // belongs to the reading goroutine until it closes filled
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
			c := checker{leaves: Leaves{Keys: v.keys}, owner: v.owner}
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
		if effort.givesWay {
			pace.rest(ctx)
		}
		free <- g
	}
	return readErr
}

// read fills free ranges with the rows of [from, to), the first and more until the turn is over,
// and hands them on; there are never more ranges than the channels hold.
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

// fold takes the rows of the next range into the trees, those that were only read into the first
// alone: what they are in the log tree is remembered with the digest of what was read.
func (v *verifyRun) fold(ctx context.Context, g *rowRange, checked bool) error {
	var logNodes []tlog.Node
	if checked {
		v.log, logNodes = v.log.Append(g.leaves...) // those of the rows before a bad one
	}
	for i := range g.rows {
		r := &g.rows[i]
		switch {
		case r.Index > v.tree.length:
			return &failure{v.tree.length, fmt.Sprintf("record %d is missing", v.tree.length)}
		case r.Index < v.tree.length:
			return &failure{r.Index, fmt.Sprintf("record %d stands there twice", r.Index)}
		case i == g.bad:
			return &failure{r.Index, g.reason}
		case r.Timestamp < v.timestamp:
			return &failure{r.Index, "the timestamp is earlier than that of the record before"}
		}
		v.storeSnapshot()
		v.timestamp = r.Timestamp
		v.digest.Write(r.encoding)
		v.nodes = v.tree.append(r.Hash, v.nodes[:0])
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

func (v *verifyRun) storeSnapshot() {
	if v.tree.length == v.snapshotAt {
		v.snapshot = v.tree.clone()
	}
}

// compareNode reads the stored form of a node that the last record completed: one row in 256
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
