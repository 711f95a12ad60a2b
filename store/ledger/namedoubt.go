package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"attestd/chain"
	"attestd/internal/wake"
	"attestd/store/db"
	"attestd/store/names"
)

// A name of a statement is free where idempotency_key has no row of it. Nothing in that table shows
// that a row was deleted. On a file, SQLite reveals an external write. From then on the names of no
// company are called free until they were compared with its records. Statements newer than what
// this process remembers of its own appends are excepted: a file has one writer, so only that can
// have recorded them. So no statement is recorded twice, and agents can go on making statements. On
// PostgreSQL other servers write too, and nothing reveals who deletes a row. There, as after a
// start, the next comparison finds the deleted row of a record that this process has not just made.

// errNamesDoubted means that the names of statements are not known to be complete.
var errNamesDoubted = fmt.Errorf("%w: somebody else has written the database, and the names of statements are being compared with the records",
	db.ErrUnavailable)

// NameDoubt knows of which chains the names are complete. The zero value calls all complete.
type NameDoubt struct {
	recent recentNames // owned by the goroutine that writes

	mu         sync.Mutex
	generation int64           // number of external writes
	trusted    map[int64]int64 // generation in which the names of a chain were compared
	// comparisons of a chain that found nothing, and were overtaken by another external write
	overtaken map[int64]int
	broken    map[int64]error // chains whose names differ from their records
	asked     map[int64]bool  // chains that are waited for
	Wake      wake.Signal     // set when a chain is waited for, or after an external write
}

// maxOvertaken is after how many comparisons in a row that were overtaken a chain is trusted: where
// a program such as Litestream writes for ever, no comparison of a long log is ever the last.
const maxOvertaken = 3

func NewNameDoubt() *NameDoubt {
	return &NameDoubt{trusted: map[int64]int64{}, overtaken: map[int64]int{}, broken: map[int64]error{}, asked: map[int64]bool{},
		Wake: wake.NewSignal()}
}

// raise marks the names of all chains as not known to be complete.
func (d *NameDoubt) raise() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.generation++
	clear(d.trusted)
	d.Wake.Set()
}

// Now returns the generation for a later settle.
func (d *NameDoubt) Now() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.generation
}

// Settle stores the result of a comparison that began in a generation.
func (d *NameDoubt) Settle(number, generation int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.broken[number] = err
		return
	}
	delete(d.broken, number)
	delete(d.asked, number)
	if generation != d.generation {
		d.overtaken[number]++
		return
	}
	delete(d.overtaken, number)
	if generation > 0 {
		d.trusted[number] = generation
	}
}

// free returns nil if no record of a chain has the names of keys without an entry. If this process
// remembers a record that had one of them, it returns the place of that key, and the record's
// index.
func (d *NameDoubt) free(number int64, keys []chain.Key) (of int, index int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.broken[number]; err != nil {
		return -1, 0, err
	}
	isNew := true // no process before this one can have recorded them
	for i := range keys {
		if index, known := d.recent.names[shortName(number, keys[i].Name)]; known {
			return i, index, nil
		}
		isNew = isNew && !d.recent.since.IsZero() && !keys[i].Since.Before(d.recent.since)
	}
	if isNew || d.trusted[number] == d.generation || d.overtaken[number] >= maxOvertaken {
		return -1, 0, nil
	}
	d.asked[number] = true
	d.Wake.Set()
	return -1, 0, errNamesDoubted
}

// Drain returns the chains that are waited for.
func (d *NameDoubt) Drain() []int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	asked := slices.Collect(maps.Keys(d.asked))
	clear(d.asked)
	return asked
}

// maxRecentNames bounds the names of statements that a process remembers: some 30 MiB.
const maxRecentNames = 1 << 19

// recentNames are the names of statements that this process has recorded last, each with the index
// of its record. A name is remembered by 8 bytes of it and its chain. The oldest name goes first,
// unlike in a bounded.Map: since says that no later one is missing.
type recentNames struct {
	since time.Time // all names of records from then on are here; zero for never
	names map[uint64]int64
	order []recentName // a ring once it is full
	next  int          // the oldest in the ring
}

type recentName struct {
	name uint64
	at   time.Time // of its record
}

func shortName(number int64, name chain.Hash) uint64 {
	// the first half of a name may be the time, or a session
	return binary.BigEndian.Uint64(name[24:]) ^ binary.BigEndian.Uint64(name[16:]) ^ uint64(number)*0x9e3779b97f4a7c15
}

// begin says that all names of records from a time on are remembered. A process calls it before its
// first append to a file.
func (d *NameDoubt) begin(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.recent.since.IsZero() {
		d.recent.since = now
	}
}

// put remembers a name of a record that was made at a time.
func (n *recentNames) put(number int64, name chain.Hash, index int64, at time.Time) {
	if n.names == nil {
		n.names = map[uint64]int64{}
	}
	r := recentName{shortName(number, name), at}
	if len(n.order) < maxRecentNames {
		n.order = append(n.order, r)
	} else {
		oldest := &n.order[n.next]
		delete(n.names, oldest.name)
		n.since = oldest.at.Add(time.Millisecond) // others of its time may have gone
		*oldest = r
		n.next = (n.next + 1) % maxRecentNames
	}
	n.names[r.name] = index
}

// check returns nil if keys without an entry are free. That one is not is a chain.ForgedError, if
// the record that this process remembers is still there: a database may have gone back.
func (d *NameDoubt) check(c *db.Conn, number int64, keys []chain.Key) error {
	of, index, err := d.free(number, keys)
	if err != nil || of < 0 {
		return err
	}
	r, err := ReadRecord(c, number, index)
	if errors.Is(err, chain.ErrMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	if n, err := names.Of(r); err != nil || !n.Takes(keys[of].Name, keys[of].Request) {
		return nil
	}
	return &chain.ForgedError{Name: keys[of].Name, Index: index, Reason: fmt.Sprintf("is missing, and is a name of record %d", index)}
}

// remember remembers the names for good of an extension, once it is durable.
func (d *NameDoubt) remember(e *chain.Extension) {
	if len(e.Keys) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range e.Keys {
		if k := &e.Keys[i]; k.Unique && !k.Since.IsZero() {
			at, err := db.ParseTime(e.Records[k.Index-e.From.Length].Timestamp)
			if err == nil {
				d.recent.put(e.Chain, k.Name, k.Index, at)
			}
		}
	}
}
