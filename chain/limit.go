package chain

import (
	"errors"
	"fmt"
	"slices"
)

// The reasons for which a storage refuses records; each wraps no other.
var (
	// ErrClosedChain reports that the Limit of the chain says Closed.
	ErrClosedChain = errors.New("the operator has closed the chain")
	// ErrQuota reports that the chain, or all chains together, would exceed a bound: *QuotaError.
	ErrQuota = errors.New("chain: quota exceeded")
	// ErrRevision reports that a draft was decided by policies that are no longer in force: it MUST
	// be decided again.
	ErrRevision = errors.New("chain: the policies of the decision are no longer in force")
)

// QuotaError says which bound an append would exceed.
type QuotaError struct {
	All   bool   // the bound of all chains together, not that of one
	Of    string // records or bytes
	Most  int64  // the bound; 0 for All
	Chain int64
}

func (e *QuotaError) Error() string {
	if e.All {
		return fmt.Sprintf("%v: all chains together have no room for more %s", ErrQuota, e.Of)
	}
	return fmt.Sprintf("%v: chain %d may have %d %s", ErrQuota, e.Chain, e.Most, e.Of)
}

func (e *QuotaError) Unwrap() error { return ErrQuota }

// account is what one chain has, with the drafts of the batch that were admitted.
type account struct{ records, bytes int64 }

// admit refuses the waiters of a batch whose records would exceed a bound, in order of arrival, so
// that no bound is ever exceeded but by drafts that are Exempt. An append is refused alone. The
// rows of a change are written already, so its error ends the transaction and applies to failed.
func admit(room Room, bases map[int64]signedHead, batch []*waiter) (failed []*waiter, err error) {
	if !room.Bounded && !anyLimit(bases) {
		return nil, nil
	}
	chains := make(map[int64]account, len(bases))
	for _, s := range batch {
		if s.err != nil {
			continue
		}
		refused := s.admit(&room, bases, chains)
		switch {
		case refused == nil:
		case s.rows != nil && err == nil:
			failed, err = []*waiter{s}, refused
		case s.rows != nil:
			// others fail with them that are refused for the same reason; the rest is tried again
			if refused.Error() == err.Error() {
				failed = append(failed, s)
			}
		default:
			s.err = refused
		}
	}
	return failed, err
}

func anyLimit(bases map[int64]signedHead) bool {
	for _, from := range bases {
		if from.limit != (Limit{}) {
			return true
		}
	}
	return false
}

// admit counts the drafts of a waiter that become records, or none of them. A draft whose record is
// one of a waiter that was refused is refused too.
func (s *waiter) admit(room *Room, bases map[int64]signedHead, chains map[int64]account) error {
	left := *room
	var before map[int64]account // of the chains but the last one
	var number int64
	var a account
	for i := range s.drafts {
		d := &s.drafts[i]
		switch from := s.source(i); {
		case from.of != nil && from.of.err != nil:
			return from.of.err
		case from != (source{}):
			continue
		}
		if number != d.Chain { // an append has drafts of one chain
			if number != 0 {
				before = withAccount(before, number, a)
			}
			number, a = d.Chain, chains[d.Chain]
			if counted, is := before[number]; is {
				a = counted
			}
		}
		size := int64(len(d.Payload) + len(d.Delegation))
		a.records, a.bytes = a.records+1, a.bytes+size
		left.Records, left.Bytes = left.Records-1, left.Bytes-size
		if d.Exempt {
			continue
		}
		if err := left.check(); err != nil {
			return err
		}
		from := bases[number]
		if err := from.limit.check(number, from.Length+a.records, from.Bytes+a.bytes); err != nil {
			return err
		}
	}
	*room = left
	for chain, counted := range before {
		chains[chain] = counted
	}
	if number != 0 {
		chains[number] = a
	}
	return nil
}

func withAccount(m map[int64]account, chain int64, a account) map[int64]account {
	if m == nil {
		m = make(map[int64]account)
	}
	m[chain] = a
	return m
}

func (r *Room) check() error {
	switch {
	case r.Bounded && r.Records < 0:
		return &QuotaError{All: true, Of: "records"}
	case r.Bounded && r.Bytes < 0:
		return &QuotaError{All: true, Of: "bytes"}
	}
	return nil
}

// check returns why a chain may not come to have so many records and bytes.
func (l *Limit) check(chain, records, bytes int64) error {
	switch {
	case l.Closed:
		return ErrClosedChain
	case l.Records > 0 && records > l.Records:
		return &QuotaError{Of: "records", Most: l.Records, Chain: chain}
	case l.Bytes > 0 && bytes > l.Bytes:
		return &QuotaError{Of: "bytes", Most: l.Bytes, Chain: chain}
	}
	return nil
}

// refuseOutdated refuses the waiters of a batch that have a draft whose decision has another
// Revision than its chain. One that has written rows is in failed: its error ends the transaction.
func refuseOutdated(bases map[int64]signedHead, batch []*waiter) (failed []*waiter) {
	for _, s := range batch {
		for i := range s.drafts {
			d := &s.drafts[i]
			if !d.Decided || s.err != nil || s.source(i) != (source{}) || bases[d.Chain].revision == d.Revision {
				continue
			}
			if s.rows == nil {
				s.err = ErrRevision
			} else if !slices.Contains(failed, s) {
				failed = append(failed, s)
			}
		}
	}
	return failed
}
