package chain

import (
	"context"
	"errors"
	"fmt"
	"maps"
)

// Key makes an append idempotent: of all drafts of a chain whose keys have one Name, the first alone becomes a record, and the others are
// answered with that record, for as long as the storage keeps the key.
type Key struct {
	Name    Hash // SHA-256 of what the caller calls the append
	Request Hash // of all that it asks for: another request under the same name is refused
}

// Appended is the answer to a draft.
type Appended struct {
	Record
	Replayed bool // the record was there before, under the draft's key
}

// ErrKeyReused: the name of a key stands for another request already.
var ErrKeyReused = errors.New("chain: the key was used for another request")

// DraftError says which draft of an append was refused; the others were not written either.
type DraftError struct {
	Draft int
	Err   error
}

func (e *DraftError) Error() string { return fmt.Sprintf("draft %d: %v", e.Draft, e.Err) }
func (e *DraftError) Unwrap() error { return e.Err }

// AppendAll is Append for several drafts: all of them are durable, or none.
func (l *Log) AppendAll(ctx context.Context, drafts []Draft) ([]Appended, error) {
	w := &waiter{drafts: drafts, done: make(chan struct{})}
	if err := l.do(ctx, w); err != nil {
		return nil, err
	}
	appended := make([]Appended, len(drafts))
	for i := range appended {
		appended[i] = Appended{w.records[i], w.source(i) != source{}}
	}
	return appended, nil
}

// source says where the record of a draft comes from when the draft does not become one itself.
type source struct {
	record *Record // it is on disk
	of     *waiter // it is that of an earlier draft of the same batch
	draft  int     // of that
}

// source is that of a draft; the zero source when the draft becomes a record.
func (s *waiter) source(draft int) source {
	if s.sources == nil {
		return source{}
	}
	return s.sources[draft]
}

// resolve finds out which drafts of a batch that have keys are records already, or will be with an earlier draft. A caller whose key stands
// for another request is answered alone; any other error names whom it concerns, as that of transact does.
func resolve(tx Transaction, batch []*waiter) (spoilers []*waiter, err error) {
	fresh := freshKeys{}
	for _, s := range batch {
		if s.rows != nil { // its rows are written by now, so that it could not be refused any more: it has no keys
			continue
		}
		s.sources, s.err = nil, nil // of an attempt that was given up
		for i := 0; i < len(s.drafts) && s.err == nil; i++ {
			if s.drafts[i].Key == nil {
				continue
			}
			if s.sources == nil {
				s.sources = make([]source, len(s.drafts))
			}
			s.sources[i], err = fresh.find(tx, s, i)
			if err != nil && tx.Err() != nil {
				return batch, err
			}
			if err != nil {
				s.err = &DraftError{i, err}
			}
		}
		if s.err != nil {
			fresh.forget(s)
		}
	}
	return nil, nil
}

// freshKeys are the keys of a batch under which no record is on disk, and the drafts that become one.
type freshKeys map[chainKey]source

type chainKey struct {
	chain int64
	name  Hash
}

// find returns where the record of a draft with a key comes from.
func (f freshKeys) find(tx Transaction, s *waiter, draft int) (source, error) {
	d := &s.drafts[draft]
	key := chainKey{d.Chain, d.Key.Name}
	if from, known := f[key]; known {
		if from.of.drafts[from.draft].Key.Request != d.Key.Request {
			return source{}, ErrKeyReused
		}
		return from, nil
	}
	record, err := tx.Recorded(d.Chain, d.Key)
	if record == nil && err == nil {
		f[key] = source{of: s, draft: draft}
	}
	return source{record: record}, err
}

// forget takes back what a caller who is refused would have written.
func (f freshKeys) forget(s *waiter) {
	maps.DeleteFunc(f, func(_ chainKey, from source) bool { return from.of == s })
}
