package chain_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"sync"

	"attestd/chain"
)

var (
	key      = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	otherKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, ed25519.SeedSize))
	public   = key.Public().(ed25519.PublicKey)

	errNotFound = errors.New("no such chain")
	errDisk     = errors.New("disk failed")
)

// disk is a chain.Storage and chain.Reader in memory. A test may change all of it, as an intruder could change a file.
type disk struct {
	mu      sync.Mutex
	chains  map[int64]*stored
	foreign bool                                 // someone else has written since the last Extend
	fault   func(step string, chain int64) error // before each step; "committed" comes after the commit
	steps   map[string]int                       // how often each was made
	batches []int                                // sizes of the committed batches
}

// stored is one chain on disk: rows by index, as a table would hold them.
type stored struct {
	head  chain.Head
	gone  bool // the head
	rows  []chain.Record
	nodes map[[2]int64]chain.Hash
}

func newDisk(chains ...int64) *disk {
	d := &disk{chains: make(map[int64]*stored), steps: make(map[string]int)}
	for _, c := range chains {
		d.chains[c] = &stored{head: chain.EmptyHead(), nodes: make(map[[2]int64]chain.Hash)}
	}
	return d
}

// step counts a step and fails it where the test says so. The test's function runs without the lock, so that it may wait.
func (d *disk) step(name string, c int64) error {
	d.mu.Lock()
	d.steps[name]++
	fault := d.fault
	d.mu.Unlock()
	if fault == nil {
		return nil
	}
	return fault(name, c)
}

// setFault gives the next steps to fault.
func (d *disk) setFault(fault func(step string, chain int64) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = fault
}

// tamper changes a chain behind the back of the process.
func (d *disk) tamper(c int64, change func(*stored)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(d.chains[c])
	d.foreign = true
}

// clone returns an independent copy, without faults.
func (d *disk) clone() *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := newDisk()
	for c, s := range d.chains {
		n.chains[c] = &stored{head: s.head, rows: slices.Clone(s.rows), nodes: maps.Clone(s.nodes)}
	}
	return n
}

func (d *disk) find(c int64) (*stored, error) {
	if s := d.chains[c]; s != nil {
		return s, nil
	}
	return nil, errNotFound
}

func (d *disk) Head(_ context.Context, c int64) (chain.Head, error) {
	if err := d.step("head", c); err != nil {
		return chain.Head{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s, err := d.find(c)
	if err != nil {
		return chain.Head{}, err
	}
	if s.gone {
		return chain.Head{}, fmt.Errorf("head: %w", chain.ErrMissing)
	}
	return s.head, nil
}

func (d *disk) Extend(_ context.Context, batch []chain.Extension) (bool, error) {
	if err := d.step("extend", batch[0].Chain); err != nil {
		return false, err
	}
	foreign, err := d.commit(batch)
	if err != nil {
		return foreign, err
	}
	return foreign, d.step("committed", batch[0].Chain)
}

func (d *disk) commit(batch []chain.Extension) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	foreign := d.foreign
	d.foreign = false
	for _, e := range batch {
		if !sameHead(d.chains[e.Chain].head, e.From) {
			return foreign, fmt.Errorf("chain %d: %w", e.Chain, chain.ErrStale)
		}
	}
	size := 0
	for _, e := range batch {
		s := d.chains[e.Chain]
		s.head = e.Head
		s.rows = append(s.rows, e.Records...)
		for _, n := range e.Nodes {
			s.nodes[[2]int64{int64(n.Level), n.Index}] = n.Hash
		}
		size += len(e.Records)
	}
	d.batches = append(d.batches, size)
	return foreign, nil
}

func sameHead(a, b chain.Head) bool {
	return a.Length == b.Length && a.Root == b.Root && a.Timestamp == b.Timestamp && slices.Equal(a.Frontier, b.Frontier)
}

func (d *disk) Tip(_ context.Context, c int64) (chain.Head, int64, error) {
	if err := d.step("tip", c); err != nil {
		return chain.Head{}, 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s, err := d.find(c)
	if err != nil {
		return chain.Head{}, 0, err
	}
	if s.gone {
		return chain.Head{}, 0, fmt.Errorf("head: %w", chain.ErrMissing)
	}
	next := int64(0)
	if len(s.rows) > 0 {
		next = s.rows[len(s.rows)-1].Index + 1
	}
	return s.head, next, nil
}

// Records lends its memory as a database driver may: it is overwritten after each call of yield.
func (d *disk) Records(_ context.Context, c, from, to int64, yield func(*chain.Record) error) error {
	if err := d.step("records", c); err != nil {
		return err
	}
	d.mu.Lock()
	s, err := d.find(c)
	if err != nil {
		d.mu.Unlock()
		return err
	}
	first := sort.Search(len(s.rows), func(i int) bool { return s.rows[i].Index >= from })
	end := sort.Search(len(s.rows), func(i int) bool { return s.rows[i].Index >= to })
	rows := slices.Clone(s.rows[first:end])
	d.mu.Unlock()
	var lent []byte
	for _, r := range rows {
		lent = append(append(lent[:0], r.Payload...), r.Delegation...)
		r.Payload, r.Delegation = lent[:len(r.Payload)], lent[len(r.Payload):]
		if err := yield(&r); err != nil {
			return err
		}
		clear(lent)
		r = chain.Record{}
	}
	return nil
}

func (d *disk) Hashes(_ context.Context, c int64, level int, from, to int64) ([]chain.Hash, error) {
	if err := d.step("hashes", c); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s, err := d.find(c)
	if err != nil {
		return nil, err
	}
	var hashes []chain.Hash
	for i := from; i < to; i++ {
		if level == 0 {
			if i < int64(len(s.rows)) {
				hashes = append(hashes, s.rows[i].Hash)
			}
		} else if h, ok := s.nodes[[2]int64{int64(level), i}]; ok {
			hashes = append(hashes, h)
		}
	}
	if int64(len(hashes)) != to-from {
		return nil, fmt.Errorf("level %d: %w", level, chain.ErrMissing)
	}
	return hashes, nil
}
