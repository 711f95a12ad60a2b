package chain

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"sync"
)

// failure is how a pass ends on a chain that is not valid.
type failure struct {
	index  int64
	reason string
}

func (f *failure) Error() string { return fmt.Sprintf("record %d: %s", f.index, f.reason) }

// effort says how much of the machine a pass may take.
type effort struct {
	workers    int
	background bool // one block only, so that reader, worker and fold take turns, and the worker yields after each record
}

// pass reads a chain once, in order:
//
//	read (one goroutine) → check hashes and signatures (the workers) → fold in order (the caller)
//
// Blocks of rows go round between the three; their number bounds the memory. A worker marks the first bad row of its block, and
// the fold sees the blocks in order, so the first failure found is the first there is.
type pass struct {
	effort   effort
	reader   Reader
	chain    int64
	key      ed25519.PublicKey
	progress func(done, total int64)
	total    int64
	mark     int64 // keep the tree of this length, -1 for none

	// Owned by the fold.
	tree      tree      // of the records that have passed
	timestamp string    // of the last of them
	digest    hash.Hash // over their frames
	marked    tree
	nodes     []Node
}

func (p *pass) reset() {
	p.tree, p.timestamp, p.digest, p.marked = tree{}, "", sha256.New(), tree{}
}

// digestSoFar leaves the running digest as it is.
func (p *pass) digestSoFar() (sum Hash) {
	p.digest.Sum(sum[:0])
	return sum
}

// readTo goes on to the given length; without check it leaves out canonical forms, record hashes and signatures. It returns a
// *failure for what is wrong and any other error for what could not be read. No goroutine outlives the call.
func (p *pass) readTo(ctx context.Context, length int64, check bool) error {
	rows, blocks, workers := checkedRows, 2*p.effort.workers+1, p.effort.workers
	if !check {
		rows, workers = trustedRows, 0
	}
	if p.effort.background {
		blocks = 1
	}

	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()

	free := make(chan *block, blocks)
	for range blocks {
		free <- &block{checked: make(chan struct{}, 1)}
	}
	work, filled := make(chan *block, blocks), make(chan *block, blocks)
	var readErr error // belongs to the reading goroutine until it closes filled
	start := p.tree.length
	group.Go(func() {
		defer close(filled)
		defer close(work)
		for from := start; from < length && readErr == nil; {
			select {
			case <-ctx.Done():
				readErr = ctx.Err()
				return
			case b := <-free:
				if readErr = b.fill(ctx, p.reader, p.chain, from, min(length, from+rows)); readErr != nil {
					return
				}
				from = b.to
				if check {
					work <- b
				}
				filled <- b
			}
		}
	})
	for range workers {
		group.Go(func() {
			c := checker{key: p.key, yield: p.effort.background}
			for b := range work {
				c.check(ctx, b)
				b.checked <- struct{}{}
			}
		})
	}

	for b := range filled {
		if check {
			<-b.checked
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.fold(ctx, b); err != nil {
			return err
		}
		if p.progress != nil {
			p.progress(p.tree.length, p.total)
		}
		free <- b
	}
	p.keepMark()
	return readErr
}

// fold takes the rows of the next block into the tree.
func (p *pass) fold(ctx context.Context, b *block) error {
	for i := range b.rows {
		r := &b.rows[i]
		switch {
		case r.Index > p.tree.length:
			return &failure{p.tree.length, fmt.Sprintf("record %d is missing", p.tree.length)}
		case r.Index < p.tree.length:
			return &failure{r.Index, fmt.Sprintf("record %d stands there twice", r.Index)}
		case i == b.bad:
			return &failure{r.Index, b.reason}
		case r.Timestamp < p.timestamp:
			return &failure{r.Index, "the timestamp is earlier than that of the record before"}
		}
		p.keepMark()
		p.timestamp = r.Timestamp
		p.digest.Write(r.frame)
		p.nodes = p.tree.append(r.Hash, p.nodes[:0])
		for _, n := range p.nodes {
			if err := p.compareNode(ctx, n); err != nil {
				return err
			}
		}
	}
	if p.tree.length < b.to {
		return &failure{p.tree.length, fmt.Sprintf("record %d is missing", p.tree.length)}
	}
	return nil
}

func (p *pass) keepMark() {
	if p.tree.length == p.mark {
		p.marked = p.tree.clone()
	}
}

// compareNode reads the stored form of a node that the last record completed: one row in 256 records.
func (p *pass) compareNode(ctx context.Context, n Node) error {
	last := p.tree.length - 1
	hashes, err := p.reader.Hashes(ctx, p.chain, n.Level, n.Index, n.Index+1)
	switch {
	case errors.Is(err, ErrMissing) || err == nil && len(hashes) != 1:
		return &failure{last, fmt.Sprintf("the stored node %d of level %d is missing", n.Index, n.Level)}
	case err != nil:
		return err
	case hashes[0] != n.Hash:
		return &failure{last, fmt.Sprintf("the stored node %d of level %d is not that of the records below it", n.Index, n.Level)}
	}
	return nil
}
