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
	"time"

	"attestd/chain"
	"attestd/chain/tlog"
)

var (
	key      = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	otherKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, ed25519.SeedSize))
	public   = key.Public().(ed25519.PublicKey)

	errNotFound = errors.New("no such chain")
	errDisk     = errors.New("disk failed")
	errLost     = errors.New("transaction is lost") // a fault that wraps it ends the transaction
)

// disk is a chain.Storage and chain.Reader in memory. Tests may change all of it, as an intruder
// could change a file.
type disk struct {
	mu       sync.Mutex
	chains   map[int64]*stored
	table    []string // rows other than chains
	external bool     // another process has written since the last Begin
	// other logs write concurrently, so that Commit detects moved heads
	shared bool
	// called before each step; "committed" after the commit
	fault   func(step string, chain int64) error
	steps   map[string]int // calls of each step
	batches []int          // sizes of the committed batches
	tx      *transaction   // the one that is open
	limits  map[int64]chain.Limit
	room    chain.Room
}

// transaction is a chain.Transaction: what will be on disk when it commits.
type transaction struct {
	d          *disk
	extensions []chain.Extension
	table      []string
	rekeyed    []int64
	keys       map[int64]signing // of the chains in rekeyed
	lost       error
}

// stored is one chain on disk, with rows by index.
type stored struct {
	head  chain.Head
	gone  bool // the head
	keys  signing
	prune chain.Pruned
	rows  []chain.Record
	keyed map[chain.Hash]chain.KeyEntry // by name
	nodes map[[2]int64]chain.Hash
	log   map[[2]int64]tlog.Hash // the same nodes in the log tree
}

// signing is the keys of a chain: all public parts, and the private one of the last.
type signing struct {
	set     chain.KeySet
	private ed25519.PrivateKey
}

func signingBy(k ed25519.PrivateKey) signing {
	return signing{chain.KeySet{{Key: k.Public().(ed25519.PublicKey)}}, k}
}

func newDisk(chains ...int64) *disk {
	d := &disk{chains: make(map[int64]*stored), steps: make(map[string]int)}
	for _, c := range chains {
		d.chains[c] = &stored{head: chain.EmptyHead(), keys: signingBy(key), keyed: make(map[chain.Hash]chain.KeyEntry), nodes: make(map[[2]int64]chain.Hash), log: make(map[[2]int64]tlog.Hash)}
	}
	return d
}

// step counts a step and returns the test's fault. It calls the test's function without the lock,
// so that it may block.
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

// setFault sets the fault for the next steps.
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
	d.external = true
}

// clone returns an independent copy, without faults.
func (d *disk) clone() *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := newDisk()
	for c, s := range d.chains {
		n.chains[c] = &stored{head: s.head, keys: s.keys, prune: s.prune, rows: slices.Clone(s.rows), keyed: maps.Clone(s.keyed), nodes: maps.Clone(s.nodes), log: maps.Clone(s.log)}
	}
	return n
}

func (d *disk) find(c int64) (*stored, error) {
	if s := d.chains[c]; s != nil {
		return s, nil
	}
	return nil, errNotFound
}

func (d *disk) Begin(time.Time) (chain.Transaction, bool, error) {
	err := d.step("begin", 0)
	d.mu.Lock()
	defer d.mu.Unlock()
	external := d.external
	d.external = false
	if err != nil {
		return nil, external, err
	}
	if d.tx != nil && !d.shared {
		panic("two transactions at once")
	}
	tx := &transaction{d: d, table: slices.Clone(d.table), keys: make(map[int64]signing)}
	if d.shared {
		return tx, false, nil
	}
	d.tx = tx
	return d.tx, external, nil
}

// put is a row that a change writes.
func (d *disk) put(row string) { d.tx.table = append(d.tx.table, row) }

// failed stores an error if it ends the transaction.
func (tx *transaction) failed(err error) error {
	if errors.Is(err, errLost) {
		tx.lost = err
	}
	return err
}

func (tx *transaction) Err() error { return tx.lost }

func (tx *transaction) Bases(chains []int64) []chain.Base {
	bases := make([]chain.Base, len(chains))
	for i, c := range chains {
		bases[i] = tx.base(c)
	}
	return bases
}

func (tx *transaction) base(c int64) chain.Base {
	if err := tx.d.step("head", c); err != nil {
		return chain.Base{Err: tx.failed(err)}
	}
	tx.d.mu.Lock()
	defer tx.d.mu.Unlock()
	s, err := tx.d.find(c)
	if err != nil {
		return chain.Base{Err: err}
	}
	if s.gone {
		return chain.Base{Err: fmt.Errorf("head: %w", chain.ErrMissing)}
	}
	if k, changed := tx.keys[c]; changed {
		return chain.Base{Head: s.head, Key: k.private, Limit: tx.d.limits[c]}
	}
	return chain.Base{Head: s.head, Key: s.keys.private, Limit: tx.d.limits[c]}
}

// rekey changes the key of a chain, as a row function does.
func (d *disk) rekey(c int64, k ed25519.PrivateKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, now := d.chains[c], d.chains[c].keys
	if changed, ok := d.tx.keys[c]; ok {
		now = changed
	}
	next := chain.KeyRange{From: s.head.Length, Key: k.Public().(ed25519.PublicKey)}
	d.tx.keys[c] = signing{append(slices.Clone(now.set), next), k}
	d.tx.rekeyed = append(d.tx.rekeyed, c)
}

func (tx *transaction) Rekeyed() ([]int64, bool) { return tx.rekeyed, false }

func (tx *transaction) Room() chain.Room { return tx.d.room }

func (tx *transaction) Extend(e *chain.Extension) error {
	if err := tx.d.step("extend", e.Chain); err != nil {
		return tx.failed(err)
	}
	tx.d.mu.Lock()
	defer tx.d.mu.Unlock()
	if !tx.d.shared && !sameHead(tx.d.chains[e.Chain].head, e.From) {
		return chain.ErrStale
	}
	tx.extensions = append(tx.extensions, *e)
	return nil
}

func (tx *transaction) KeyEntries(names map[int64][]chain.Hash, yield func(int64, chain.Hash, chain.KeyEntry)) (int64, error) {
	for c := range names {
		if err := tx.readKeys(c, names[c], func(name chain.Hash, kept chain.KeyEntry) { yield(c, name, kept) }); err != nil {
			return c, err
		}
	}
	return 0, nil
}

func (tx *transaction) readKeys(c int64, names []chain.Hash, yield func(chain.Hash, chain.KeyEntry)) error {
	if err := tx.d.step("kept", c); err != nil {
		return tx.failed(err)
	}
	tx.d.mu.Lock()
	defer tx.d.mu.Unlock()
	s, err := tx.d.find(c)
	if err != nil {
		return err
	}
	for _, name := range names {
		if entry, ok := s.keyed[name]; ok {
			yield(name, entry)
		}
	}
	return nil
}

func (tx *transaction) Free(c int64, _ []chain.Key) error { return tx.d.step("names", c) }

func (tx *transaction) Record(c, index int64) (*chain.Record, error) {
	if err := tx.d.step("record", c); err != nil {
		return nil, tx.failed(err)
	}
	tx.d.mu.Lock()
	defer tx.d.mu.Unlock()
	r := tx.d.chains[c].rows[index].Clone()
	return &r, nil
}

func (tx *transaction) Savepoint(rows func() error) error {
	before, keys := len(tx.table), maps.Clone(tx.keys)
	tx.d.step("savepoint", 0)
	err := rows()
	if err != nil {
		tx.table, tx.keys = tx.table[:before], keys
	}
	return err
}

func (tx *transaction) Commit() ([]int64, error) {
	defer tx.Rollback()
	if err := tx.d.step("commit", 0); err != nil {
		return nil, err
	}
	tx.d.mu.Lock()
	size := 0
	var stale []int64
	for _, e := range tx.extensions {
		s := tx.d.chains[e.Chain]
		if !sameHead(s.head, e.From) {
			stale = append(stale, e.Chain)
			continue
		}
		s.head = e.Head
		s.rows = append(s.rows, e.Records...)
		for _, k := range e.Keys {
			s.keyed[k.Name] = chain.KeyEntry{Request: k.Request, Index: k.Index}
		}
		for _, n := range e.Nodes {
			s.nodes[[2]int64{int64(n.Level), n.Index}] = n.Hash
			s.log[[2]int64{int64(n.Level), n.Index}] = n.LogHash
		}
		size += len(e.Records)
	}
	for c, k := range tx.keys {
		tx.d.chains[c].keys = k
	}
	tx.d.table = tx.table
	tx.d.batches = append(tx.d.batches, size)
	tx.d.mu.Unlock()
	return stale, tx.d.step("committed", 0)
}

func (tx *transaction) Rollback() {
	tx.d.mu.Lock()
	defer tx.d.mu.Unlock()
	tx.d.tx = nil
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

// Owner allows all payloads.
func (d *disk) Owner(context.Context, int64) (chain.Owner, error) { return chain.Owner{}, nil }

// Pruned returns what the test says.
func (d *disk) Pruned(_ context.Context, c int64) (chain.Pruned, error) {
	if err := d.step("pruned", c); err != nil {
		return chain.Pruned{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s, err := d.find(c)
	if err != nil {
		return chain.Pruned{}, err
	}
	return s.prune, nil
}

func (d *disk) KeySet(_ context.Context, c int64) (chain.KeySet, error) {
	if err := d.step("keys", c); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s, err := d.find(c)
	if err != nil {
		return nil, err
	}
	return s.keys.set, nil
}

// Records overwrites the record after each call of yield, as a database driver may.
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

func (d *disk) Node(_ context.Context, c int64, level int, index int64) (chain.Node, error) {
	if err := d.step("hashes", c); err != nil {
		return chain.Node{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s, err := d.find(c)
	if err != nil {
		return chain.Node{}, err
	}
	at := [2]int64{int64(level), index}
	hash, ok := s.nodes[at]
	if !ok {
		return chain.Node{}, fmt.Errorf("node: %w", chain.ErrMissing)
	}
	return chain.Node{Level: level, Index: index, Hash: hash, LogHash: s.log[at]}, nil
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
