package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"attestd/chain"
	"attestd/crypto/tokenkey"
	"attestd/store/atrest"
	"attestd/store/db"
)

// A company has no token keys until a request needs one. Then it gets one of each algorithm, before
// a token of it is signed and before its set is read. So every reader of the set knows the first
// key of each algorithm.

// ErrTokenKeysBusy reports that the first keys of a company are not made now, because those of many
// others were made just before.
var ErrTokenKeysBusy = errors.New("the first token keys of many companies were made just before")

// How many companies get their first keys at once, and then how often another one does. One
// occupies a processor for a tenth of a second, or a few. Unauthenticated callers read sets, and
// register companies where that is open; a caller with a credential does not wait for them.
const (
	firstKeysRead     = 20
	firstKeysReadIn   = 2 * time.Second
	firstKeysSigned   = 100
	firstKeysSignedIn = time.Second / 2
)

// pace admits a burst, and then one in each interval.
type pace struct {
	burst int
	every time.Duration

	mu    sync.Mutex
	empty time.Time // when nothing that has passed counts any more
}

// pass reports whether one may pass at a time. Requests do not come in the order of their times, so
// half an interval does not count. A clock that was set back makes no request wait longer than a
// burst.
func (p *pace) pass(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	full := now.Add(time.Duration(p.burst) * p.every)
	if p.empty.Before(now) {
		p.empty = now
	}
	if p.empty.After(full) {
		p.empty = full
	}
	if full.Sub(p.empty) < p.every/2 {
		return false
	}
	p.empty = p.empty.Add(p.every)
	return true
}

// Signer returns the key of an algorithm that signs at the caller's time. Where the company lacks
// keys, it makes them, and all servers publish them when Signer returns. The error is
// ErrTokenKeysBusy where that has to wait.
func (s TokenKeys) Signer(ctx context.Context, by Caller, algorithm string) (*tokenkey.Private, error) {
	known, err := s.whole(ctx, by, s.signedPace)
	if err != nil {
		return nil, err
	}
	k := signing(known.keys, algorithm, by.At)
	if k == nil {
		return nil, fmt.Errorf("company %q has no token key of the algorithm %q", by.Company.ID, algorithm)
	}
	if chain.FormatTime(by.At.Add(-tokenKeyNew)) < k.CreatedAt { // not every server may know it
		s.db.WaitPropagation(ctx)
	}
	return k.private()
}

// Publish is Published for those who verify tokens of the caller's company. Where the company lacks
// keys, it makes them first. The error is ErrTokenKeysBusy where that has to wait.
func (s TokenKeys) Publish(ctx context.Context, by Caller) (*PublishedKeys, error) {
	known, err := s.whole(ctx, by, s.readPace)
	if err != nil {
		return nil, err
	}
	return known.publishedAt(by)
}

// whole returns the keys of a company, with one of each algorithm that has not ended. It makes what
// is missing, at a pace; nil for at once. Of many requests at once, on any server, one makes them.
func (s TokenKeys) whole(ctx context.Context, by Caller, p *pace) (tokenKeySet, error) {
	known, err := s.known(ctx, by)
	const tries = 5 // keys that a rotation compromises at once are followed by others
	for range tries {
		if err != nil || known.whole {
			return known, err
		}
		if err = s.makeMissing(ctx, by, p); err == nil {
			known, err = s.known(ctx, by)
		}
	}
	if err == nil && !known.whole {
		err = fmt.Errorf("%w: its keys are compromised as they are made", db.ErrUnavailable)
	}
	if err != nil {
		return tokenKeySet{}, fmt.Errorf("token keys of company %q: %w", by.Company.ID, err)
	}
	return known, nil
}

// makeMissing makes a key of each algorithm of which a company has none that has not ended. Keys
// are generated outside of any transaction, and this process generates those of one company at a
// time.
func (s TokenKeys) makeMissing(ctx context.Context, by Caller, p *pace) error {
	began := time.Now()
	select {
	case s.generating <- struct{}{}:
		defer func() { <-s.generating }()
	case <-ctx.Done():
		return ctx.Err()
	}
	defer s.sets.Forget(by.Company.Chain) // whatever the outcome
	keys, err := s.read(ctx, by)
	if err != nil {
		return err
	}
	missing := missingAlgorithms(keys)
	if len(missing) == 0 {
		return nil
	}
	if p != nil && !p.pass(by.At) {
		return ErrTokenKeysBusy
	}
	made := make([]*tokenkey.Private, len(missing))
	for i, algorithm := range missing {
		if made[i], err = tokenkey.Generate(algorithm); err != nil {
			return err
		}
	}
	return s.db.controlled(ctx, by, func(w *db.Conn) (events []controlEvent, err error) {
		at := by.At.Add(time.Since(began))
		for _, next := range made {
			// Another request may have made one in this very transaction, whose records come last.
			var others int64
			err := w.One([]any{&others}, `SELECT count(*) FROM token_key WHERE company = ? AND alg = ? AND ended_at IS NULL`, by.Company.Chain,
				next.Public().Algorithm)
			if err != nil {
				return nil, err
			}
			if others > 0 {
				continue
			}
			event, err := s.insert(w, by.Company, next, at, at)
			if err != nil {
				return nil, err
			}
			events = append(events, event)
		}
		return events, nil
	})
}

// insert stores a new key.
func (s TokenKeys) insert(w *db.Conn, company *Company, private *tokenkey.Private, created, signsFrom time.Time) (e controlEvent, err error) {
	der, err := private.PKCS8()
	if err != nil {
		return e, err
	}
	public := private.Public()
	k := TokenKey{company: company.Chain, KID: public.KID, Algorithm: public.Algorithm, jwk: public.JWK(), stored: s.db.Secrets().Keep(der, atrest.SigningTokenKeyPlace(company.Chain, public.KID)),
		CreatedAt: chain.FormatTime(created), SignsFrom: chain.FormatTime(signsFrom)}
	_, err = tokenKeys.insert(w, &k, "")
	return tokenKeys.created(TokenKeyCreated, &k, nil), err
}
