package chain

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"sync"
	"time"

	"attestd/chain/tlog"
	"attestd/crypto/jcs"
)

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
		if effort.yields && v.pace == nil {
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

// verifyNext reads and verifies the records of a chain after a tree, up to an index, or fewer if
// they are large. It returns them with the extended tree. It checks each record as Verify does, and
// the tree against a head of the same length, but not stored nodes and the log tree. An error for
// which contradicts is true means that they are wrong; other errors are read errors.
func (v *Verifier) verifyNext(ctx context.Context, chain int64, t tree, to int64) ([]Record, tree, error) {
	head, _, err := v.reader.Tip(ctx, chain)
	if err != nil {
		return nil, t, err
	}
	var records []Record
	var size int
	err = v.reader.Records(ctx, chain, t.length, to, func(r *Record) error {
		records = append(records, r.Clone())
		if size += len(r.Payload) + len(r.Delegation); size >= rangeBytes {
			return errFull
		}
		return nil
	})
	isWhole := err == nil
	if err != nil && !errors.Is(err, errFull) {
		return nil, t, err
	}
	if t, err = v.verifyRecords(ctx, chain, t, records); err != nil {
		return nil, t, err
	}
	switch {
	case isWhole && t.length < to:
		err = &failure{t.length, "the record is missing"}
	case t.length > head.Length:
		err = &failure{head.Length, "the record stands beyond the stored head"}
	case t.length == head.Length && (!t.is(head) || t.root() != head.Root):
		err = &failure{max(0, t.length-1), "the stored head is not that of the records"}
	}
	return records, t, err
}

// verifyRecords verifies the records of a chain after a tree, and returns the extended tree.
func (v *Verifier) verifyRecords(ctx context.Context, chain int64, t tree, records []Record) (tree, error) {
	if len(records) == 0 {
		return t, nil
	}
	keys, err := v.reader.KeySet(ctx, chain) // after the records
	if err != nil {
		return t, err
	}
	owner, err := v.reader.Owner(ctx, chain)
	if err != nil {
		return t, err
	}
	var timestamp string // of the previous record
	err = v.reader.Records(ctx, chain, t.length-1, t.length, func(r *Record) error {
		timestamp = r.Timestamp
		return nil
	})
	if err != nil {
		return t, err
	}
	reasons := make([]string, len(records))
	parallel(len(records), func(i int) {
		c := checker{owner: owner}
		reasons[i] = c.reasonAgainst(&records[i], keys.At(records[i].Index))
	})
	for i := range records {
		r := &records[i]
		switch {
		case r.Index != t.length:
			return t, &failure{t.length, "the record is missing"}
		case reasons[i] != "":
			return t, &failure{r.Index, reasons[i]}
		case r.Timestamp < timestamp:
			return t, &failure{r.Index, "the timestamp is earlier than that of the record before"}
		}
		timestamp = r.Timestamp
		t.append(r.Hash, nil)
	}
	return t, nil
}

// contradicts reports whether an error means that stored data is inconsistent or missing. Other
// errors are read errors.
func contradicts(err error) bool {
	wrong := (*failure)(nil)
	return errors.As(err, &wrong) || errors.Is(err, ErrMissing) || errors.Is(err, errContradiction) || errors.Is(err, errGap)
}

// rangeBytes is the size that ends a range, with the row that exceeds it.
const rangeBytes = 1 << 20

// rowRange is a range of rows during a verification. It owns the memory of its rows.
type rowRange struct {
	rows    []row
	memory  []byte
	to      int64         // no further rows exist before this index
	bad     int           // first wrong row; -1 for none
	reason  string        // what is wrong with it
	leaves  []tlog.Hash   // log tree leaves of the rows that passed the check
	checked chan struct{} // gets a token from the worker
}

type row struct {
	Record
	encoding []byte // the encoded record
}

var errFull = errors.New("range is full")

// fill reads the rows in [from, to), or fewer if they are large.
func (g *rowRange) fill(ctx context.Context, r Reader, chain, from, to int64) error {
	g.rows, g.memory, g.leaves, g.to, g.bad = g.rows[:0], g.memory[:0], g.leaves[:0], to, -1
	err := r.Records(ctx, chain, from, to, func(r *Record) error {
		g.add(r)
		if len(g.memory) < rangeBytes {
			return nil
		}
		g.to = r.Index + 1
		return errFull
	})
	if errors.Is(err, errFull) {
		return nil
	}
	return err
}

// add copies a row. Its encoding is, in this order and all lengths and the index as 8 bytes,
// big-endian: index; lengths of timestamp, payload and delegation; hash; signature; timestamp;
// payload; delegation. So no two rows have one encoding, and no two sequences of rows give the same
// bytes.
func (g *rowRange) add(r *Record) {
	start := len(g.memory)
	m := g.memory
	m = binary.BigEndian.AppendUint64(m, uint64(r.Index))
	m = binary.BigEndian.AppendUint64(m, uint64(len(r.Timestamp)))
	m = binary.BigEndian.AppendUint64(m, uint64(len(r.Payload)))
	m = binary.BigEndian.AppendUint64(m, uint64(len(r.Delegation)))
	m = append(m, r.Hash[:]...)
	m = append(m, r.Signature[:]...)
	m = append(m, r.Timestamp...)
	payload := len(m)
	m = append(m, r.Payload...)
	delegation := len(m)
	m = append(m, r.Delegation...)
	// after a reallocation, earlier rows keep the old memory alive until the next fill
	g.memory = m

	added := row{Record: *r, encoding: m[start:]}
	added.Payload, added.Delegation = m[payload:delegation], m[delegation:]
	g.rows = append(g.rows, added)
}

// checker checks single rows; fold checks their order.
type checker struct {
	leaves    Leaves
	owner     Owner
	canonical []byte
	preimage  []byte
	// A missing payload is no reason, because the fold says whether it was pruned.
	foldsPruned bool
}

// check finds the first bad row of a range. It stops early when ctx ends, because the result is
// then unused.
func (c *checker) check(ctx context.Context, g *rowRange) {
	for i := range g.rows {
		if ctx.Err() != nil {
			return
		}
		r := &g.rows[i].Record
		if reason := c.reasonAgainst(r, c.leaves.Keys.At(r.Index)); reason != "" {
			g.bad, g.reason = i, reason
			return
		}
		leaf := c.leaves.Of(r)
		g.leaves = append(g.leaves, leaf.Hash())
	}
}

// reasonAgainst returns what is wrong with a record signed by a key, or "".
func (c *checker) reasonAgainst(r *Record, key KeyRange) string {
	if !IsTimestamp(r.Timestamp) {
		return "the timestamp is not in the form of a timestamp"
	}
	if reason := c.reasonAgainstContent(r); reason != "" {
		return reason
	}
	switch {
	case key.Flaw != "":
		return key.Flaw
	case len(key.Key) != ed25519.PublicKeySize:
		return "no key is known that signs this record"
	case !ed25519.Verify(key.Key, r.Hash[:], r.Signature[:]):
		return "the signature does not verify under the company's key"
	}
	return ""
}

// reasonAgainstContent returns why a record does not have the hash that it says, or "".
func (c *checker) reasonAgainstContent(r *Record) string {
	if r.IsPruned() {
		if c.foldsPruned {
			return ""
		}
		return "the payload is missing"
	}
	var err error
	if c.canonical, err = jcs.Append(c.canonical[:0], r.Payload, payloadDepth); err != nil {
		return fmt.Sprintf("the payload has no canonical form: %v", err)
	}
	c.preimage = r.appendPreimage(c.preimage[:0], c.canonical)
	if sha256.Sum256(c.preimage) != r.Hash {
		return "the hash is not that of the record"
	}
	return c.owner.wrong(c.canonical)
}
