package chain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"

	"attestd/chain/decision"
	"attestd/crypto/jcs"
	"attestd/crypto/strictjson"
)

// reused is the error of a draft whose key is another request's.
func (k *Key) reused() error {
	if k.Unique {
		return ErrUniqueKeyReused
	}
	return ErrKeyReused
}

// Matches reports whether r is the record of the request that d makes: of the same payload and
// delegation. It computes the hash of r again from the payload of d, so it can tell of a record
// whose payload was pruned too. Where it is not pruned, its stored bytes are compared as well.
//
// A record with a decision is that of a request that is decided otherwise by now, or not at all. A
// pruned one cannot be told from another of its delegation.
func (d *Draft) Matches(r *Record) bool {
	switch {
	case !d.isDelegated(r.Delegation):
		return false
	case r.ComputeHash(d.Canonical) == r.Hash:
		if r.IsPruned() || bytes.Equal(r.Payload, d.Payload) {
			return true
		}
		canonical, err := jcs.Append(nil, r.Payload, payloadDepth)
		return err == nil && bytes.Equal(canonical, d.Canonical)
	case r.IsPruned():
		return d.Decided || d.MayBeDecided
	}
	canonical, err := jcs.Append(nil, r.Payload, payloadDepth)
	if err != nil || r.ComputeHash(canonical) != r.Hash {
		return false
	}
	has, was := decision.Cut(canonical)
	wants, is := decision.Cut(d.Canonical)
	return (was != nil || is != nil) && bytes.Equal(has, wants)
}

// matchesUnsigned is Matches for the same claims of a statement under another signature, which is
// no other statement: ECDSA has many signatures of one text.
func (d *Draft) matchesUnsigned(r *Record) bool {
	canonical, err := jcs.Append(nil, r.Payload, payloadDepth)
	undecided, _ := decision.Cut(canonical)
	wanted, _ := decision.Cut(d.Canonical)
	has, isSigned := withoutSignature(undecided)
	wants, wantsSigned := withoutSignature(wanted)
	return err == nil && isSigned && wantsSigned && bytes.Equal(has, wants) && d.isDelegated(r.Delegation) &&
		r.ComputeHash(canonical) == r.Hash
}

// withoutSignature returns a canonical payload up to the signature of its statement, a compact JWS,
// which is its last member.
func withoutSignature(canonical []byte) ([]byte, bool) {
	i := bytes.LastIndex(canonical, []byte(`,"statement":"`))
	dot := bytes.LastIndexByte(canonical, '.')
	if i < 0 || dot < i {
		return nil, false
	}
	return canonical[:dot], true
}

// isDelegated reports whether a stored DelegationInfo is the one of the request.
func (d *Draft) isDelegated(stored []byte) bool {
	if d.Replays == (Delegated{}) || len(stored) == 0 {
		return bytes.Equal(d.Delegation, stored) && d.Replays == (Delegated{})
	}
	var has struct{ Subject, TokenID string }
	err := strictjson.EachMember(stored, payloadDepth, func(name, value []byte) {
		switch string(name) {
		case "subject":
			has.Subject, _ = strictjson.AsString(value)
		case "tokenId":
			has.TokenID, _ = strictjson.AsString(value)
		}
	})
	switch {
	case err != nil:
		return false
	case d.Replays.Subject != "":
		return has.Subject == d.Replays.Subject
	}
	return has.TokenID == d.Replays.TokenID && (d.Delegation == nil || bytes.Equal(d.Delegation, stored))
}

// Appended is the result of a draft.
type Appended struct {
	Record
	Replayed bool // the record already existed under the draft's key
}

var (
	// ErrKeyReused reports that the name of a key was used for another request.
	ErrKeyReused = errors.New("chain: the key was used for another request")
	// ErrUniqueKeyReused is ErrKeyReused for a key that is Unique.
	ErrUniqueKeyReused = errors.New("chain: the name is another request's for good")
	// ErrForged reports that the entry of a key is none that Log has written: a ForgedError.
	ErrForged = errors.New("chain: the entry of a key is forged")
)

// ForgedError is the entry of a key that leads to a record of another request, or that is there or
// missing where the others of its draft are not.
type ForgedError struct {
	Name   Hash // of the key
	Index  int64
	Reason string // to be read behind the name
}

func (e *ForgedError) Error() string { return fmt.Sprintf("%v: %x %s", ErrForged, e.Name[:], e.Reason) }
func (e *ForgedError) Unwrap() error { return ErrForged }

// Check returns whether an entry of k leads to the record of a request that has an entry: nil where
// it does, ErrUniqueKeyReused or ErrKeyReused for an entry of another request, or a ForgedError.
// record reads the record at the index of the entry. live is false where the entry is as good as
// none.
func (k *Key) Check(entry KeyEntry, d *Draft, record func(index int64) (*Record, error)) (r *Record, live bool, err error) {
	switch {
	case entry.Expired && k.Unique:
		return nil, true, &ForgedError{k.Name, entry.Index, "has an end, and the name is taken for good"}
	case entry.Expired:
		return nil, false, nil
	case entry.Request != k.Request:
		return nil, true, &ReusedError{Key: *k, Entry: entry}
	}
	r, err = record(entry.Index)
	switch {
	case err != nil || d.Matches(r):
	case k.Unique && r.IsPruned(): // perhaps under another signature, which is gone
		err = &ReusedError{Key: *k, Entry: entry}
	case !k.Unique || !d.matchesUnsigned(r):
		err = &ForgedError{k.Name, entry.Index, fmt.Sprintf("leads to record %d, which is another request's", entry.Index)}
	}
	return r, true, err
}

// ReusedError is ErrKeyReused or, for a key that is Unique, ErrUniqueKeyReused, with the entry that
// says so.
type ReusedError struct {
	Key   Key
	Entry KeyEntry
}

func (e *ReusedError) Error() string { return e.Unwrap().Error() }
func (e *ReusedError) Unwrap() error { return e.Key.reused() }

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
	placed, err := l.enqueue(ctx, w)
	if err != nil {
		return nil, err
	}
	if placed {
		l.sealArrived(w)
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
// draft. A waiter with an unusable key fails alone, unless it has written rows. Other errors apply
// to the returned waiters.
func resolve(tx Transaction, batch []*waiter) (failed []*waiter, err error) {
	keys := batchKeys{tx: tx}
	if failed, err = keys.read(batch); err != nil {
		return failed, err
	}
	for _, s := range batch {
	drafts:
		for i := range s.sources {
			if s.sources[i], err = keys.find(s, i); err != nil && tx.Err() != nil {
				return batch, err
			}
			if err != nil {
				err = &DraftError{i, err}
			} else if s.rows != nil && s.sources[i] != (source{}) {
				err = ErrRecorded
			}
			switch {
			case err == nil:
				continue
			case s.rows != nil: // they are written, so the transaction is tried again without them
				return []*waiter{s}, err
			}
			s.err = err
			keys.forget(s)
			break drafts
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
	fresh   map[chainKey]freshKey // new keys, with the drafts that become records
}

// freshKey is a key of a draft that becomes a record.
type freshKey struct {
	source
	request Hash
}

// read reads the entries of all keys of a batch.
func (k *batchKeys) read(batch []*waiter) (failed []*waiter, err error) {
	names, users := make(map[int64][]Hash), make(map[int64][]*waiter)
	for _, s := range batch {
		if s.sources = nil; s.rows == nil { // left over from an abandoned attempt
			s.err = nil
		}
		for i := range s.drafts {
			d := &s.drafts[i]
			if len(d.Keys) == 0 {
				continue
			}
			if s.sources == nil {
				s.sources = make([]source, len(s.drafts))
			}
			for k := range d.Keys {
				names[d.Chain] = append(names[d.Chain], d.Keys[k].Name)
			}
			if u := users[d.Chain]; len(u) == 0 || u[len(u)-1] != s {
				users[d.Chain] = append(u, s)
			}
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	k.entries, k.records, k.fresh = make(map[chainKey]KeyEntry), make(map[chainKey]*Record), make(map[chainKey]freshKey)
	chain, err := k.tx.KeyEntries(names, func(chain int64, name Hash, entry KeyEntry) { k.entries[chainKey{chain, name}] = entry })
	if err != nil && k.tx.Err() != nil {
		return batch, err
	}
	if err != nil {
		return users[chain], err
	}
	return nil, nil
}

// find returns where the record of a draft comes from that has keys. One key that is another
// request's refuses it, whatever the others say. Keys that are Unique are written with their record
// and never go, so where one entry of a draft is there, those are too.
func (k *batchKeys) find(s *waiter, draft int) (from source, err error) {
	d := &s.drafts[draft]
	var missing []Key // Unique ones without an entry
	for i := range d.Keys {
		found, err := k.lookup(d, &d.Keys[i])
		if err != nil {
			return source{}, err
		}
		if found == (source{}) && d.Keys[i].Unique {
			missing = append(missing, d.Keys[i])
		}
		if from == (source{}) {
			from = found
		}
	}
	if from.record != nil && len(missing) > 0 {
		return source{}, &ForgedError{missing[0].Name, from.record.Index,
			fmt.Sprintf("is missing, and is a name of record %d", from.record.Index)}
	}
	if from == (source{}) {
		if len(missing) > 0 {
			if err := k.tx.Free(d.Chain, missing); err != nil {
				return source{}, err
			}
		}
		for i := range d.Keys {
			k.fresh[chainKey{d.Chain, d.Keys[i].Name}] = freshKey{source{of: s, draft: draft}, d.Keys[i].Request}
		}
	}
	return from, nil
}

// lookup returns the source that has a key already, or the zero source.
func (k *batchKeys) lookup(d *Draft, of *Key) (source, error) {
	key := chainKey{d.Chain, of.Name}
	if fresh, known := k.fresh[key]; known {
		if fresh.request != of.Request {
			return source{}, of.reused()
		}
		return fresh.source, nil
	}
	entry, known := k.entries[key]
	if !known {
		return source{}, nil
	}
	record, live, err := of.Check(entry, d, func(index int64) (*Record, error) { return k.record(key, index) })
	if err != nil || !live {
		return source{}, err
	}
	return source{record: record}, nil
}

// record reads the record of an entry once.
func (k *batchKeys) record(key chainKey, index int64) (record *Record, err error) {
	record, read := k.records[key]
	if !read {
		if record, err = k.tx.Record(key.chain, index); err != nil {
			return nil, err
		}
		k.records[key] = record
	}
	return record, nil
}

// forget removes the drafts of a refused waiter.
func (k *batchKeys) forget(s *waiter) {
	maps.DeleteFunc(k.fresh, func(_ chainKey, fresh freshKey) bool { return fresh.of == s })
}
