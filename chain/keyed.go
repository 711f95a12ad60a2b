package chain

import (
	"context"
	"errors"
	"fmt"
	"maps"
)

// Key makes an append idempotent. Of all drafts of a chain whose keys have the same Name, only the
// first becomes a record. The others return that record, as long as the storage has the key.
type Key struct {
	Name    Hash // hash of the caller's idempotency key
	Request Hash // hash of the request; another request with the same name is refused
}

// KeyEntry is the stored entry of an idempotency key.
type KeyEntry struct {
	Request Hash
	Index   int64 // of the record
}

// Appended is the result of a draft.
type Appended struct {
	Record
	Replayed bool // the record already existed under the draft's key
}

// ErrKeyReused reports that the name of a key was used for another request.
var ErrKeyReused = errors.New("chain: the key was used for another request")

// DraftError names the refused draft of an append. The other drafts were not written either.
type DraftError struct {
	Draft int
	Err   error
}

func (e *DraftError) Error() string { return fmt.Sprintf("draft %d: %v", e.Draft, e.Err) }
func (e *DraftError) Unwrap() error { return e.Err }

// AppendAll is Append for several drafts of one chain, which become durable together or not at all.
func (l *Log) AppendAll(ctx context.Context, drafts []Draft) ([]Appended, error) {
	for i := range drafts {
		if drafts[i].Chain != drafts[0].Chain {
			return nil, errors.New("chain: the drafts of one append are of several chains")
		}
	}
	w := &waiter{drafts: drafts, done: make(chan struct{})}
	if err := l.enqueue(ctx, w); err != nil {
		return nil, err
	}
	if err := l.wait(ctx, w); err != nil {
		return nil, err
	}
	appended := make([]Appended, len(drafts))
	for i := range appended {
		appended[i] = Appended{w.records[i], w.source(i) != source{}}
	}
	return appended, nil
}

// source is the origin of a draft's record if the draft does not become one itself.
type source struct {
	record *Record // it is on disk
	of     *waiter // it is the record of an earlier draft of the same batch
	draft  int     // of that
}

// source returns the source of a draft, or the zero source if it becomes a record.
func (s *waiter) source(draft int) source {
	if s.sources == nil {
		return source{}
	}
	return s.sources[draft]
}

// resolve finds the drafts of a batch whose keys belong to an existing record or to an earlier
// draft. A waiter with an unusable key fails alone. Other errors apply to the returned waiters.
func resolve(tx Transaction, batch []*waiter) (failed []*waiter, err error) {
	keys := batchKeys{tx: tx}
	if failed, err = keys.read(batch); err != nil {
		return failed, err
	}
	for _, s := range batch {
		for i := range s.sources {
			if s.drafts[i].Key == nil {
				continue
			}
			if s.sources[i], err = keys.find(s, i); err != nil && tx.Err() != nil {
				return batch, err
			}
			if err != nil {
				s.err = &DraftError{i, err}
				keys.forget(s)
				break
			}
		}
	}
	return nil, nil
}

// chainKey is the name of a key in its chain.
type chainKey struct {
	chain int64
	name  Hash
}

// batchKeys holds the entries of the keys of a batch.
type batchKeys struct {
	tx      Transaction
	entries map[chainKey]KeyEntry // on disk
	records map[chainKey]*Record  // records of these entries, as far as read
	fresh   map[chainKey]source   // for new keys, the drafts that become records
}

// read reads the entries of all keys of a batch.
func (k *batchKeys) read(batch []*waiter) (failed []*waiter, err error) {
	names, users := make(map[int64][]Hash), make(map[int64][]*waiter)
	for _, s := range batch {
		// its rows are already written, so it can no longer be refused; it has no keys
		if s.rows != nil {
			continue
		}
		s.sources, s.err = nil, nil // left over from an abandoned attempt
		for i := range s.drafts {
			d := &s.drafts[i]
			if d.Key == nil {
				continue
			}
			if s.sources == nil {
				s.sources = make([]source, len(s.drafts))
			}
			names[d.Chain] = append(names[d.Chain], d.Key.Name)
			if u := users[d.Chain]; len(u) == 0 || u[len(u)-1] != s {
				users[d.Chain] = append(u, s)
			}
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	k.entries, k.records, k.fresh = make(map[chainKey]KeyEntry), make(map[chainKey]*Record), make(map[chainKey]source)
	chain, err := k.tx.KeyEntries(names, func(chain int64, name Hash, entry KeyEntry) { k.entries[chainKey{chain, name}] = entry })
	if err != nil && k.tx.Err() != nil {
		return batch, err
	}
	if err != nil {
		return users[chain], err
	}
	return nil, nil
}

// find returns where the record of a draft with a key comes from.
func (k *batchKeys) find(s *waiter, draft int) (source, error) {
	d := &s.drafts[draft]
	key := chainKey{d.Chain, d.Key.Name}
	if entry, known := k.entries[key]; known {
		if entry.Request != d.Key.Request {
			return source{}, ErrKeyReused
		}
		record, read := k.records[key]
		if !read {
			var err error
			if record, err = k.tx.Record(d.Chain, entry.Index); err != nil {
				return source{}, err
			}
			k.records[key] = record
		}
		return source{record: record}, nil
	}
	from, known := k.fresh[key]
	if !known {
		k.fresh[key] = source{of: s, draft: draft}
	} else if from.of.drafts[from.draft].Key.Request != d.Key.Request {
		return source{}, ErrKeyReused
	}
	return from, nil
}

// forget removes the drafts of a refused waiter.
func (k *batchKeys) forget(s *waiter) {
	maps.DeleteFunc(k.fresh, func(_ chainKey, from source) bool { return from.of == s })
}
