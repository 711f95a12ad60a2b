package chain

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"runtime"
	"sync"
	"time"
)

// failure is how a pass ends on a chain that is not valid.
type failure struct {
	index  int64
	reason string
}

func (f *failure) Error() string { return fmt.Sprintf("record %d: %s", f.index, f.reason) }

// effort says how much of the machine a pass may take.
type effort struct {
	workers     int
	blocks      int   // that go round at once
	checkedRows int64 // in a block to be checked
	trustedRows int64 // in a block that is only read

	appends func() int64 // so far; a pass that has it gives way to them between blocks
}

// foreground keeps all workers busy: a block is some 5 ms of work, so that short chains are shared out too.
func foreground(workers int) effort {
	return effort{workers: workers, blocks: 2*workers + 1, checkedRows: 128, trustedRows: 1024}
}

// background takes no more than one core: there is one block, so reader, worker and fold take turns. It is about 1 ms of work.
func background(appends func() int64) effort {
	return effort{workers: 1, blocks: 1, checkedRows: 24, trustedRows: 256, appends: appends}
}

// pass reads a chain once, in order:
//
//	read (one goroutine) → check hashes and signatures (the workers) → fold in order (the caller)
//
// Blocks of rows go round between the three; their number bounds the memory. A worker marks the first bad row of its block, and
// the fold sees the blocks in order, so the first failure found is the first there is.
type pass struct {
	effort
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
	rows, workers := p.checkedRows, p.workers
	if !check {
		rows, workers = p.trustedRows, 0
	}
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()

	free, filled, work := make(chan *block, p.blocks), make(chan *block, p.blocks), make(chan *block, p.blocks)
	for range p.blocks {
		free <- &block{checked: make(chan struct{}, 1)}
	}
	var readErr error // belongs to the reading goroutine until it closes filled
	from := p.tree.length
	group.Go(func() {
		defer close(filled)
		defer close(work)
		readErr = p.read(ctx, from, length, rows, free, func(b *block) {
			if check {
				work <- b
			}
			filled <- b
		})
	})
	for range workers {
		group.Go(func() {
			c := checker{key: p.key}
			for b := range work {
				c.check(ctx, b)
				b.checked <- struct{}{}
			}
		})
	}

	pace := pacer{appends: p.appends, resumed: time.Now()}
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
		if p.appends != nil {
			pace.rest()
		}
		free <- b
	}
	p.keepMark()
	return readErr
}

// read fills free blocks with the rows of [from, to) and passes them on; there are never more blocks than the channels hold.
func (p *pass) read(ctx context.Context, from, to, rows int64, free <-chan *block, pass func(*block)) error {
	for from < to {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case b := <-free:
			if err := b.fill(ctx, p.reader, p.chain, from, min(to, from+rows)); err != nil {
				return err
			}
			from = b.to
			pass(b)
		}
	}
	return nil
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

// restShare is how many times as long as it worked a pass in the background rests while there are appends: it keeps a fifth of a core.
const restShare = 4

// pacer makes room for appends, and for whoever else wants a processor: that shows in how long it takes to get one back after giving it up.
type pacer struct {
	appends func() int64 // records appended so far
	seen    int64
	resumed time.Time
}

func (p *pacer) rest() {
	stopped, appends := time.Now(), p.appends()
	runtime.Gosched()
	if appends != p.seen || time.Since(stopped) > 20*time.Microsecond {
		time.Sleep(restShare * stopped.Sub(p.resumed))
	}
	p.seen, p.resumed = appends, time.Now()
}
