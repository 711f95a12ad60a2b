package store

import (
	"fmt"
	"maps"
	"sync"

	"attestd/chain"
)

// A name of a statement is free where idempotency_key has no row of it. Nothing in that table shows
// that a row was taken out. On a file, SQLite shows that somebody else has written: then the names
// of no company are called free until they were compared with its records, and no statement is
// recorded twice. On PostgreSQL other servers write too, and nothing shows who deletes a row:
// there, as after a start, it is found by the next comparison.

// errNamesDoubted means that the names of statements are not known to be complete.
var errNamesDoubted = fmt.Errorf("%w: somebody else has written the database, and the names of statements are being compared with the records",
	ErrUnavailable)

// nameDoubt knows of which chains the names are complete. The zero value calls all complete.
type nameDoubt struct {
	mu         sync.Mutex
	generation int64           // number of external writes
	trusted    map[int64]int64 // generation in which the names of a chain were compared
	broken     map[int64]error // chains whose names differ from their records
	asked      map[int64]bool  // chains that are waited for
	wake       chan struct{}   // has a token when a chain is waited for
}

func newNameDoubt() *nameDoubt {
	return &nameDoubt{trusted: map[int64]int64{}, broken: map[int64]error{}, asked: map[int64]bool{}, wake: make(chan struct{}, 1)}
}

// raise doubts the names of all chains.
func (d *nameDoubt) raise() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.generation++
	clear(d.trusted)
	d.ring()
}

func (d *nameDoubt) ring() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// now returns the generation for a later settle.
func (d *nameDoubt) now() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.generation
}

// settle takes the result of a comparison that began in a generation.
func (d *nameDoubt) settle(number, generation int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.broken[number] = err
		return
	}
	delete(d.broken, number)
	if delete(d.asked, number); generation == d.generation && generation > 0 {
		d.trusted[number] = generation
	}
}

// complete returns nil if every name that the chain's records have is in the table.
func (d *nameDoubt) complete(number int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.broken[number]; err != nil {
		return err
	}
	if d.trusted[number] == d.generation {
		return nil
	}
	d.asked[number] = true
	d.ring()
	return errNamesDoubted
}

// drain returns the chains that are waited for.
func (d *nameDoubt) drain() (asked []int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for number := range maps.Keys(d.asked) {
		asked = append(asked, number)
	}
	clear(d.asked)
	return asked
}

// NamesComplete implements chain.Transaction.
func (tx *transaction) NamesComplete(number int64) error { return tx.w.doubt.complete(number) }

// NamesComplete implements chain.Transaction.
func (tx *pgTransaction) NamesComplete(number int64) error { return tx.w.doubt.complete(number) }

// ExternalWrites returns how often somebody else has written the file, as far as this process has
// noticed. On PostgreSQL nothing shows that.
func (s Tables) ExternalWrites() int64 { return s.db.doubt.now() }

// Doubted has a token when somebody else has written the file, or a company waits for the
// comparison of its names. Waiting says which companies wait.
func (s Tables) Doubted() <-chan struct{} { return s.db.doubt.wake }

// Waiting returns the companies that wait for the comparison of their names, by number, and forgets
// them.
func (s Tables) Waiting() (numbers []int64) {
	for _, number := range s.db.doubt.drain() {
		company, _ := logOf(number)
		numbers = append(numbers, company)
	}
	return numbers
}

var _ chain.Transaction = (*transaction)(nil)
