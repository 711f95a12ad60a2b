package keysets

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"attestd/crypto/idtoken"
	"attestd/crypto/strictjson"
)

// timeout is for a fetch: of the metadata of an issuer and of the key set.
const timeout = 5 * time.Second

// entry returns the entry of a source. A company that has too many loses the one that was unused
// longest; where all have too many, the company with the most does. A bounded.Map would let one
// company displace the sets of others.
func (s *Sets) entry(of int64, from Source, now time.Time) (*company, *entry) {
	c := s.companies[of]
	if c == nil {
		c = &company{number: of, sets: map[Source]*entry{}}
		s.companies[of] = c
	}
	e := c.sets[from]
	if e == nil {
		if len(c.sets) >= maxSets {
			s.drop(c, c.oldest())
		} else if s.sets >= maxAllSets {
			s.shrink()
		}
		e = &entry{}
		c.sets[from] = e
		s.sets++
	}
	e.used = now
	return c, e
}

func (c *company) oldest() (source Source) {
	var since time.Time
	for from, e := range c.sets {
		if since.IsZero() || e.used.Before(since) {
			source, since = from, e.used
		}
	}
	return source
}

// shrink makes room for a set at the cost of the company that has the most.
func (s *Sets) shrink() {
	var most *company
	for _, c := range s.companies {
		if most == nil || len(c.sets) > len(most.sets) {
			most = c
		}
	}
	s.drop(most, most.oldest())
}

func (s *Sets) drop(c *company, from Source) {
	delete(c.sets, from)
	s.sets--
	s.dismiss(c)
}

// dismiss drops what is counted of a company when nothing is left to count.
func (s *Sets) dismiss(c *company) {
	if len(c.sets) == 0 && c.running == 0 && c.waiting == 0 {
		delete(s.companies, c.number)
	}
}

// start starts to fetch a set, unless that is under way, the last attempt ended less than so long
// ago, or too many run.
func (s *Sets) start(c *company, e *entry, from Source, now time.Time, since time.Duration) {
	soon := !e.tried.IsZero() && now.Before(e.tried.Add(since))
	if e.done != nil || soon || c.running >= maxFetches || s.running >= maxAllRuns || s.ctx.Err() != nil {
		return
	}
	done := make(chan struct{})
	e.done = done
	c.running++
	s.running++
	s.fetches.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, timeout)
		set, fresh, err := s.fetch(ctx, from)
		cancel()

		s.mu.Lock()
		defer s.mu.Unlock()
		c.running--
		s.running--
		e.tried, e.failure, e.done = time.Now(), err, nil
		if err != nil {
			s.failed++
		} else {
			s.fetched++
			e.set, e.fetched, e.fresh = set, e.tried, e.tried.Add(fresh)
			e.retention = e.fresh.Add(retention)
		}
		close(done)
		s.dismiss(c)
	})
}

// fetch returns a key set and how long it is fresh.
func (s *Sets) fetch(ctx context.Context, from Source) (*idtoken.KeySet, time.Duration, error) {
	url, fresh := from.URL, maxFresh
	if url == "" {
		metadata, err := s.getter.Get(ctx, strings.TrimSuffix(from.Issuer, "/")+"/.well-known/openid-configuration")
		if err != nil {
			return nil, 0, fmt.Errorf("the issuer's metadata: %w", err)
		}
		if url, err = keySetOf(metadata.Body, from.Issuer); err != nil {
			return nil, 0, err
		}
		fresh = bounded(metadata.Fresh)
	}
	document, err := s.getter.Get(ctx, url)
	if err != nil {
		return nil, 0, err
	}
	set, err := idtoken.ParseKeySet(document.Body)
	if err != nil {
		return nil, 0, fmt.Errorf("it %w", err)
	}
	return set, min(fresh, bounded(document.Fresh)), nil
}

// keySetOf returns the URL of the key set in the metadata of an issuer (OpenID Connect Discovery
// 1.0 §4.3).
func keySetOf(metadata []byte, issuer string) (string, error) {
	var iss, uri string
	err := strictjson.EachMember(metadata, maxDepth, func(name, value []byte) {
		switch string(name) {
		case "issuer":
			iss, _ = strictjson.AsString(value)
		case "jwks_uri":
			uri, _ = strictjson.AsString(value)
		}
	})
	switch {
	case err != nil:
		return "", errors.New("the issuer's metadata are not a JSON object without duplicate members")
	case iss != issuer:
		return "", errors.New("the issuer's metadata are of another issuer")
	case uri == "":
		return "", errors.New("the issuer's metadata have no jwks_uri")
	}
	return uri, nil
}

const maxDepth = 32 // of a member of the metadata

// bounded is how long we take a document to be fresh.
func bounded(lifetime time.Duration) time.Duration {
	if lifetime < 0 {
		return defaultFresh
	}
	return min(max(lifetime, minFresh), maxFresh)
}
