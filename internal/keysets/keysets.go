// Package keysets remembers the key sets that tenants name by a URL: those of the issuers that they
// trust, and of their OAuth clients. They are fetched in the background.
//
// A set is fresh for as long as its Cache-Control says, but at least a minute and at most an hour;
// ten minutes if its headers do not say. The first request after that starts a fetch, and gets the
// set that is there if within the last minute that was fresh, or its server was asked in vain. A
// set that cannot be fetched again counts for one more hour, and then nothing does. A fetch that
// has failed is tried again after 30 s at the earliest. What no key of a set has signed starts a
// fetch too, once a minute at most: the key may be new, or another one under a former name. A set
// that was fetched replaces the former one, so a key that is not in it counts no more.
//
// A request waits only where nothing else could answer it: there is no set, it is long stale, or it
// has not signed what the request presents. It waits for the fetch that is under way, two seconds
// at most, and of a company no more than eight requests at once. Sets, fetches and waiting requests
// are counted by company, so that an issuer that hangs or lies costs no other company anything.
package keysets

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"attestd/crypto/idtoken"
	"attestd/crypto/jose"
	"attestd/internal/sleep"
)

const (
	minFresh     = time.Minute
	maxFresh     = time.Hour
	defaultFresh = 10 * time.Minute

	retention    = time.Hour        // how long a set counts that cannot be fetched again
	lapse        = time.Minute      // how long a stale set answers at once
	retryAfter   = 30 * time.Second // between attempts that fail
	unknownAfter = time.Minute      // between fetches for what a set has not signed
	maxWait      = 2 * time.Second  // of a request

	maxSets    = 64     // of a company
	maxAllSets = 10_000 // of all
	maxFetches = 4      // at once, of a company
	maxAllRuns = 512    // at once, of all
	maxWaiting = 8      // requests of a company
)

// Source says where a key set is.
type Source struct {
	URL    string // of the key set; "" where the issuer's metadata names it
	Issuer string // whose metadata is asked for it (OpenID Connect Discovery 1.0)
}

// Getter fetches documents.
type Getter interface {
	// Get returns the document at a URL. Its error MUST NOT contain addresses, which would show a
	// private network to the tenant that named the URL.
	Get(ctx context.Context, url string) (Document, error)
}

// Document is what was fetched.
type Document struct {
	Body  []byte
	Fresh time.Duration // as its server says; negative where it says nothing
}

// Sets remembers key sets. It is safe for concurrent use.
type Sets struct {
	getter  Getter
	ctx     context.Context // of the fetches
	cancel  context.CancelFunc
	fetches sync.WaitGroup

	mu        sync.Mutex // of all that follows
	companies map[int64]*company
	sets      int // of all companies
	running   int // fetches
	fetched   int64
	failed    int64 // fetches that were no good
}

// company is what there is of one company.
type company struct {
	number           int64
	sets             map[Source]*entry
	running, waiting int
}

// entry is a set, or the reason why there is none.
type entry struct {
	set              *idtoken.KeySet // nil without one
	fetched          time.Time
	fresh, retention time.Time     // until when
	tried            time.Time     // when the last fetch ended
	failure          error         // of the last fetch
	done             chan struct{} // closed when the fetch that is under way ends; nil without one
	used             time.Time
}

// New returns no sets. The caller MUST call Close.
func New(g Getter) *Sets {
	ctx, cancel := context.WithCancel(context.Background())
	return &Sets{getter: g, ctx: ctx, cancel: cancel, companies: map[int64]*company{}}
}

// Close ends all fetches and waits for them. There is no Get after it, but perhaps a Warm.
func (s *Sets) Close() {
	s.mu.Lock() // no fetch begins from here on
	s.cancel()
	s.mu.Unlock()
	s.fetches.Wait()
}

// Unavailable is the error that there is no key set to answer with.
type Unavailable struct {
	Reason string // which can be shown to everybody
	Soon   bool   // a fetch is under way or about to be, so another try makes sense
}

func (e *Unavailable) Error() string { return "the key set cannot be fetched: " + e.Reason }

var (
	errUnderWay = &Unavailable{"the first attempt is under way; ask again in a few seconds", true}
	errBusy     = &Unavailable{"too many others are being fetched; ask again in a few seconds", true}
)

// Check calls check with the key set at a source that a company has named, which may be stale by
// the rules of this package. Where the error of check is [jose.ErrSignature], and there is another
// set soon, it calls check once more with that. The error is that of the last check, *Unavailable,
// or that of ctx.
func (s *Sets) Check(ctx context.Context, of int64, from Source, check func(*idtoken.KeySet) error) error {
	set, err := s.get(ctx, of, from, nil)
	if err != nil {
		return err
	}
	if err = check(set); !errors.Is(err, jose.ErrSignature) {
		return err
	}
	switch next, failed := s.get(ctx, of, from, set); {
	case failed != nil:
		return failed
	case next != set:
		return check(next)
	}
	return err
}

// get returns the key set at a source. Where that is one that a request has no use for, it starts a
// fetch, and returns another set if there is one soon.
func (s *Sets) get(ctx context.Context, of int64, from Source, useless *idtoken.KeySet) (*idtoken.KeySet, error) {
	set, wait, err := s.lookup(of, from, useless)
	if wait == nil {
		return set, err
	}
	defer s.leave(of)
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	select {
	case <-wait:
	case <-timer.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return s.after(of, from)
}

// lookup returns what there is, or what to wait for: then the caller is counted as waiting.
func (s *Sets) lookup(of int64, from Source, useless *idtoken.KeySet) (*idtoken.KeySet, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	c, e := s.entry(of, from, now)
	counts := e.set != nil && now.Before(e.retention)
	switch {
	case counts && e.set == useless:
		s.start(c, e, from, now, unknownAfter)
	case counts && now.Before(e.fresh):
		return e.set, nil, nil
	default:
		s.start(c, e, from, now, retryAfter)
		inVain := e.failure != nil && now.Before(e.tried.Add(lapse))
		if counts && (inVain || now.Before(e.fresh.Add(lapse))) {
			return e.set, nil, nil
		}
	}
	if e.done != nil && c.waiting < maxWaiting {
		c.waiting++
		return nil, e.done, nil
	}
	set, err := e.answer(now)
	return set, nil, err
}

// after returns what there is after a wait.
func (s *Sets) after(of int64, from Source) (*idtoken.KeySet, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	_, e := s.entry(of, from, now)
	return e.answer(now)
}

func (s *Sets) leave(of int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.companies[of] // there while anybody waits
	c.waiting--
	s.dismiss(c)
}

// answer is the set where it counts, and otherwise why there is none.
func (e *entry) answer(now time.Time) (*idtoken.KeySet, error) {
	switch {
	case e.set != nil && now.Before(e.retention):
		return e.set, nil
	case e.failure != nil && e.done == nil:
		return nil, &Unavailable{Reason: e.failure.Error()}
	case e.done != nil:
		return nil, errUnderWay
	}
	return nil, errBusy
}

// State is what an administrator sees of a source.
type State struct {
	Fetched time.Time // when the set was; zero without one
	Keys    int       // of the set
	Failure string    // of the last attempt; "" where it was good, or there was none
}

// State returns what is known of a source, and starts nothing.
func (s *Sets) State(of int64, from Source) (state State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.companies[of]
	if c == nil || c.sets[from] == nil {
		return state
	}
	e := c.sets[from]
	if e.set != nil && time.Now().Before(e.retention) {
		state.Fetched, state.Keys = e.fetched, e.set.Len()
	}
	if e.failure != nil {
		state.Failure = e.failure.Error()
	}
	return state
}

// Status is what a server tells its operator about all sets.
type Status struct {
	Sets, Running   int   // fetches that run
	Fetched, Failed int64 // fetches since the start
}

// Status may be called at any time.
func (s *Sets) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Status{s.sets, s.running, s.fetched, s.failed}
}

// Prepare starts to fetch a set that is not there yet, and waits for nothing.
func (s *Sets) Prepare(of int64, from Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if c, e := s.entry(of, from, now); e.set == nil {
		s.start(c, e, from, now, retryAfter)
	}
}

const (
	// Warm spreads its first fetches over this time, so that servers that start together do not ask
	// the same issuers in one moment.
	warmWithin = 2 * time.Second
	warmers    = 4 // sets that Warm fetches at once
)

// Named is a source that a company has named.
type Named struct {
	Company int64
	Source
}

// Warm fetches sets that no request has used yet, a few at a time and in their order, and returns
// when each was tried once, or when ctx is done. It takes nothing from requests: theirs are fetched
// at once, and a failure here keeps no request from an attempt of its own.
func (s *Sets) Warm(ctx context.Context, wanted []Named) {
	next := make(chan Named)
	var all sync.WaitGroup
	for range min(warmers, len(wanted)) {
		all.Go(func() {
			_ = sleep.For(ctx, rand.N(warmWithin))
			for w := range next {
				if ctx.Err() == nil {
					s.try(ctx, w)
				}
			}
		})
	}
	for _, w := range wanted {
		select {
		case next <- w:
		case <-ctx.Done():
		}
	}
	close(next)
	all.Wait()
}

// try fetches a set that is not there, and returns when that has ended.
func (s *Sets) try(ctx context.Context, w Named) {
	s.Prepare(w.Company, w.Source)
	e, done := s.underWay(w)
	if done == nil {
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.set == nil && e.done == nil {
		e.tried = time.Time{}
	}
}

func (s *Sets) underWay(w Named) (*entry, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.companies[w.Company]
	if c == nil || c.sets[w.Source] == nil {
		return nil, nil
	}
	e := c.sets[w.Source]
	return e, e.done
}
