package store

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"attestd/chain"
	"attestd/crypto/tokenkey"
	"attestd/store/atrest"
	"attestd/store/projection"
)

// TokenLife is how long a token for others may be valid: so long after its end a key still
// verifies, and is published.
const TokenLife = time.Hour

// tokenKeyNotice is how long a key is published before it first signs: longer than anybody may
// cache a key set.
const tokenKeyNotice = 10 * time.Minute

// tokenKeyNew is longer than it takes to commit a key.
const tokenKeyNew = time.Second

// TokenKey is a key with which a company signs tokens for others. Times are as in control records.
type TokenKey struct {
	KID, Algorithm string
	CreatedAt      string
	SignsFrom      string
	EndedAt        string // "" while no other follows it
	CompromisedAt  string // "" while it is not
	Public         *tokenkey.Public

	jwk     string
	stored  []byte // private part; nil once it signs no more
	private func() (*tokenkey.Private, error)
}

// MayDate reports whether a token of the key may be dated at a time: not after the end of the key.
func (k TokenKey) MayDate(iat time.Time) bool {
	return k.EndedAt == "" || chain.FormatTime(iat) <= k.EndedAt
}

// signing returns the key that signs at a time: the newest that has begun, or where the clock of
// another server was ahead, the first that will. nil where a key must be made.
func signing(keys []TokenKey, algorithm string, at time.Time) (found *TokenKey) {
	t := chain.FormatTime(at)
	for i := range keys {
		k := &keys[i]
		if k.Algorithm != algorithm || k.stored == nil || k.CompromisedAt != "" || k.EndedAt != "" && k.EndedAt <= t {
			continue
		}
		begun := k.SignsFrom <= t
		switch {
		case found == nil,
			begun && (found.SignsFrom > t || k.SignsFrom > found.SignsFrom),
			!begun && found.SignsFrom > t && k.SignsFrom < found.SignsFrom:
			found = k
		}
	}
	return found
}

const tokenKeyColumns = "kid, alg, jwk, private, created_at, signs_from, ended_at, compromised_at"

func scanTokenKey(rows *sql.Rows) (TokenKey, error) { return scanTokenKeyAnd(rows) }

func scanTokenKeyAnd(rows *sql.Rows, more ...any) (k TokenKey, err error) {
	var ended, compromised sql.NullString
	err = rows.Scan(append([]any{&k.KID, &k.Algorithm, &k.jwk, &k.stored, &k.CreatedAt, &k.SignsFrom, &ended, &compromised}, more...)...)
	k.EndedAt, k.CompromisedAt = ended.String, compromised.String
	return k, err
}

// projected is the key as its row stands for the control log.
func (k TokenKey) projected() projection.TokenKey {
	return projection.TokenKey{Algorithm: k.Algorithm, JWK: k.jwk, SignsFrom: k.SignsFrom, EndedAt: k.EndedAt, Compromised: k.CompromisedAt != ""}
}

// tokenKeySet is what is remembered of a company's keys.
type tokenKeySet struct {
	keys []TokenKey
	gone string // when the last key left the set for its age; "" where none has
	// as of the last time that was asked about
	published *atomic.Pointer[PublishedKeys]
}

func (s TokenKeys) known(ctx context.Context, by Caller) (tokenKeySet, error) {
	known, err := lookup(s.db, &s.db.tokenKeys, by.Company.Chain, by.At, func() (set tokenKeySet, err error) {
		err = s.db.read(ctx, func(r *conn) error {
			set, err = s.load(r, by.Company, by.At)
			return err
		})
		return set, err
	})
	if err != nil {
		return known, fmt.Errorf("token keys of company %q: %w", by.Company.ID, err)
	}
	return known, nil
}

// read is known without the cache.
func (s TokenKeys) read(ctx context.Context, by Caller) (keys []TokenKey, err error) {
	err = s.db.read(ctx, func(r *conn) error {
		set, err := s.load(r, by.Company, by.At)
		keys = set.keys
		return err
	})
	return keys, err
}

// load reads the keys that ended at most TokenLife ago, and compares each that is not compromised
// with the newest control record about it.
func (s TokenKeys) load(r *conn, company *Company, at time.Time) (set tokenKeySet, err error) {
	since := chain.FormatTime(at.Add(-TokenLife))
	var gone sql.NullString
	if err := r.one([]any{&gone}, `SELECT max(ended_at) FROM token_key WHERE company = ? AND ended_at <= ?`, company.Chain, since); err != nil {
		return set, err
	}
	set.gone, set.published = gone.String, new(atomic.Pointer[PublishedKeys])
	var latest []sql.NullInt64
	err = r.each(func(rows *sql.Rows) error {
		var l sql.NullInt64
		k, err := scanTokenKeyAnd(rows, &l)
		set.keys, latest = append(set.keys, k), append(latest, l)
		return err
	}, "SELECT "+tokenKeyColumns+", "+latestOf("token_key.company", "'token-key:' || kid")+` FROM token_key
		WHERE company = ? AND (ended_at IS NULL OR ended_at > ?) ORDER BY kid`, company.Chain, since)
	for i := range set.keys {
		if err == nil && set.keys[i].CompromisedAt == "" {
			err = s.check(r, company, &set.keys[i], latest[i])
		}
	}
	if err != nil {
		return tokenKeySet{}, err
	}
	return set, nil
}

// check compares a key with the newest control record about it, and parses it.
func (s TokenKeys) check(r *conn, company *Company, k *TokenKey, latest sql.NullInt64) error {
	l, err := r.controlRecord(company, latest)
	if err != nil {
		return s.db.Tables.noted(company, err)
	}
	if err := s.db.Tables.checked(company, l.TokenKey(k.KID, k.projected())); err != nil {
		return err
	}
	return s.parse(company, k)
}

// parse reads the public part of a key, and prepares reading its private part.
func (s TokenKeys) parse(company *Company, k *TokenKey) (err error) {
	if k.Public, err = tokenkey.ParsePublic(k.Algorithm, k.jwk); err == nil && k.Public.KID != k.KID {
		err = fmt.Errorf("it is the key %s", k.Public.KID)
	}
	if err != nil {
		return fmt.Errorf("%w: token key %s: %w", ErrCorrupt, k.KID, err)
	}
	kid, stored := k.KID, k.stored
	k.private = sync.OnceValues(func() (*tokenkey.Private, error) {
		der, err := s.db.secrets.Open(stored, atrest.SigningTokenKeyPlace(company.Chain, kid))
		if err != nil {
			return nil, fmt.Errorf("private part of token key %s: %w", kid, err)
		}
		private, err := tokenkey.ParsePrivate(der)
		if err == nil && private.Public().KID != kid {
			err = fmt.Errorf("it is that of another key")
		}
		if err != nil {
			return nil, fmt.Errorf("%w: private part of token key %s: %w", ErrCorrupt, kid, err)
		}
		return private, nil
	})
	return nil
}

// Signer returns the key of an algorithm that signs at the caller's time. Where the company has
// none it makes one, which all servers publish when Signer returns. Of many requests at once, on
// any server, one makes it.
func (s TokenKeys) Signer(ctx context.Context, by Caller, algorithm string) (*tokenkey.Private, error) {
	known, err := s.known(ctx, by)
	if err != nil {
		return nil, err
	}
	k := signing(known.keys, algorithm, by.At)
	if k == nil {
		if k, err = s.first(ctx, by, algorithm); err != nil {
			return nil, fmt.Errorf("token key of company %q: %w", by.Company.ID, err)
		}
	}
	if chain.FormatTime(by.At.Add(-tokenKeyNew)) < k.CreatedAt { // not every server may know it
		s.db.waitPropagation(ctx)
	}
	return k.private()
}

// first makes the first key of an algorithm, or the next one after a compromise. A key is generated
// outside of any transaction. One of RSA takes a processor for a while, so this process generates
// one of them at a time.
func (s TokenKeys) first(ctx context.Context, by Caller, algorithm string) (*TokenKey, error) {
	if algorithm == tokenkey.RS256 {
		select {
		case s.db.generating <- struct{}{}:
			defer func() { <-s.db.generating }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	const tries = 5 // a key that a rotation compromises at once is followed by another one
	for range tries {
		k, err := s.find(ctx, by, algorithm)
		if err != nil || k != nil {
			return k, err
		}
		if err := s.create(ctx, by, algorithm); err != nil {
			return nil, err
		}
	}
	k, err := s.find(ctx, by, algorithm)
	if err == nil && k == nil {
		err = fmt.Errorf("%w: its keys are compromised as they are made", ErrUnavailable)
	}
	return k, err
}

// find returns the key that signs, without the cache.
func (s TokenKeys) find(ctx context.Context, by Caller, algorithm string) (*TokenKey, error) {
	keys, err := s.read(ctx, by)
	return signing(keys, algorithm, by.At), err
}

// create makes a key of an algorithm of which the company has none that has not ended.
func (s TokenKeys) create(ctx context.Context, by Caller, algorithm string) error {
	began := time.Now()
	next, err := tokenkey.Generate(algorithm)
	if err != nil {
		return err
	}
	defer s.db.tokenKeys.forget(by.Company.Chain) // whatever the outcome
	return s.db.controlled(ctx, by, func(w *conn) ([]controlEvent, error) {
		// Another request may have made one in this very transaction, whose records come last.
		var others int64
		err := w.one([]any{&others}, `SELECT count(*) FROM token_key WHERE company = ? AND alg = ? AND ended_at IS NULL`, by.Company.Chain, algorithm)
		if err != nil || others > 0 {
			return nil, err
		}
		at := by.At.Add(time.Since(began))
		event, err := s.insert(w, by.Company, next, at, at)
		return []controlEvent{event}, err
	})
}

// insert stores a new key.
func (s TokenKeys) insert(w *conn, company *Company, private *tokenkey.Private, created, signsFrom time.Time) (e controlEvent, err error) {
	der, err := private.PKCS8()
	if err != nil {
		return e, err
	}
	k, from := private.Public(), chain.FormatTime(signsFrom)
	_, err = w.exec(`INSERT INTO token_key (company, kid, alg, jwk, private, created_at, signs_from) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		company.Chain, k.KID, k.Algorithm, k.JWK(), s.db.secrets.Keep(der, atrest.SigningTokenKeyPlace(company.Chain, k.KID)), chain.FormatTime(created), from)
	return tokenKeyCreated(k, from), err
}
