package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"attestd/chain"
	"attestd/crypto/tokenkey"
	"attestd/store/atrest"
	"attestd/store/db"
	"attestd/store/projection"
)

// TokenKeys are the keys with which companies sign tokens for others.
type TokenKeys struct {
	db *base

	sets *db.Cache[int64, db.Dated[tokenKeySet]]
	// has one element while token keys are generated
	generating chan struct{}
	// of the first token keys of companies, for unauthenticated readers of a set
	readPace *pace
	// the same, for tokens
	signedPace *pace
}

// TokenLife is how long a token for others may be valid: so long after its end a key still
// verifies, and is published.
const TokenLife = time.Hour

// tokenKeyNotice is how long a key is published before it first signs: longer than anybody may
// cache a key set.
const tokenKeyNotice = 10 * time.Minute

// tokenKeyNew is longer than the commit of a key.
const tokenKeyNew = time.Second

// TokenKey is a key with which a company signs tokens for others. Times are as in control records.
type TokenKey struct {
	KID, Algorithm string
	CreatedAt      string
	SignsFrom      string
	EndedAt        string // "" while no other follows it
	CompromisedAt  string // "" while it is not
	Public         *tokenkey.Public

	company int64
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

var tokenKeys = right[TokenKey, projection.TokenKey]{
	table: projection.TableTokenKey, subject: "token-key:", title: "kid", order: "kid",
	columns: func(k *TokenKey) []column {
		return []column{
			plain("company", &k.company),
			plain("kid", &k.KID).as("kid"),
			plain("alg", &k.Algorithm).as("alg"),
			plain("jwk", &k.jwk).asJSON("jwk"),
			optional("private", &k.stored),
			plain("created_at", &k.CreatedAt),
			plain("signs_from", &k.SignsFrom).as("signsFrom"),
			optional("ended_at", &k.EndedAt),
			optional("compromised_at", &k.CompromisedAt),
		}
	},
	row: func(k *TokenKey) projection.TokenKey {
		return projection.TokenKey{Algorithm: k.Algorithm, JWK: k.jwk, SignsFrom: k.SignsFrom, EndedAt: k.EndedAt, Compromised: k.CompromisedAt != ""}
	},
	wrong: func(s *base, c *Company, k *TokenKey) string {
		if k.stored == nil || !s.IsUnsealed() {
			return ""
		}
		err := s.parseTokenKey(c, k)
		if err == nil {
			_, err = k.private()
		}
		if err != nil {
			return "its private part is of another key"
		}
		return ""
	},
}

// tokenKeySet is what is remembered of a company's keys.
type tokenKeySet struct {
	keys []TokenKey
	// whether each algorithm has a key that has not ended; once it has, it always does, except for
	// a moment after a compromise
	whole bool
	gone  string // when the last key left the set for its age; "" where none has
	// as of the last time that was asked about
	published *atomic.Pointer[PublishedKeys]
}

func (s TokenKeys) known(ctx context.Context, by Caller) (tokenKeySet, error) {
	known, err := db.Lookup(s.sets, by.Company.Chain, by.At, func() (set tokenKeySet, err error) {
		err = s.db.Read(ctx, func(r *db.Conn) error {
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
	err = s.db.Read(ctx, func(r *db.Conn) error {
		set, err := s.load(r, by.Company, by.At)
		keys = set.keys
		return err
	})
	return keys, err
}

// load reads the keys that ended at most TokenLife ago, and compares each that is not compromised
// with the newest control record about it.
func (s TokenKeys) load(r *db.Conn, company *Company, at time.Time) (set tokenKeySet, err error) {
	since := chain.FormatTime(at.Add(-TokenLife))
	var gone sql.NullString
	if err := r.One([]any{&gone}, `SELECT max(ended_at) FROM token_key WHERE company = ? AND ended_at <= ?`, company.Chain, since); err != nil {
		return set, err
	}
	set.gone, set.published = gone.String, new(atomic.Pointer[PublishedKeys])
	found, err := tokenKeys.known(r, "company = ? AND (ended_at IS NULL OR ended_at > ?) ORDER BY kid", company.Chain, since)
	for _, k := range found {
		if err == nil && k.row.CompromisedAt == "" {
			err = s.check(r, company, &k)
		}
		set.keys = append(set.keys, k.row)
	}
	if err != nil {
		return tokenKeySet{}, err
	}
	set.whole = len(missingAlgorithms(set.keys)) == 0
	return set, nil
}

// missingAlgorithms returns those of which no key is there that has not ended.
func missingAlgorithms(keys []TokenKey) []string {
	return slices.DeleteFunc(slices.Clone(tokenkey.Algorithms), func(algorithm string) bool {
		return slices.ContainsFunc(keys, func(k TokenKey) bool { return k.Algorithm == algorithm && k.EndedAt == "" })
	})
}

// check compares a key with the newest control record about it, and parses it.
func (s TokenKeys) check(r *db.Conn, company *Company, k *known[TokenKey]) error {
	l, err := controlRecord(r, company, k.latest)
	if err != nil {
		return s.db.noted(company, err)
	}
	if err := s.db.checked(company, l.TokenKey(k.row.KID, tokenKeys.row(&k.row))); err != nil {
		return err
	}
	return s.db.parseTokenKey(company, &k.row)
}

// parse reads the public part of a key, and prepares reading its private part.
func (s *base) parseTokenKey(company *Company, k *TokenKey) (err error) {
	if k.Public, err = tokenkey.ParsePublic(k.Algorithm, k.jwk); err == nil && k.Public.KID != k.KID {
		err = fmt.Errorf("it is the key %s", k.Public.KID)
	}
	if err != nil {
		return fmt.Errorf("%w: token key %s: %w", db.ErrCorrupt, k.KID, err)
	}
	kid, stored := k.KID, k.stored
	k.private = sync.OnceValues(func() (*tokenkey.Private, error) {
		der, err := s.Secrets().Open(stored, atrest.SigningTokenKeyPlace(company.Chain, kid))
		if err != nil {
			return nil, fmt.Errorf("private part of token key %s: %w", kid, err)
		}
		private, err := tokenkey.ParsePrivate(der)
		if err == nil && private.Public().KID != kid {
			err = fmt.Errorf("it is that of another key")
		}
		if err != nil {
			return nil, fmt.Errorf("%w: private part of token key %s: %w", db.ErrCorrupt, kid, err)
		}
		return private, nil
	})
	return nil
}
