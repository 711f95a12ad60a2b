package store

import (
	"context"
	"fmt"
	"time"

	"attestd/crypto/tokenkey"
	"attestd/store/db"
)

// PublishedKeys are the keys of a company whose tokens may be valid at some time, or may be soon.
// They are shared and immutable.
type PublishedKeys struct {
	*tokenkey.Set
	Keys []TokenKey // in the order of their names, which is that of the set

	from, until time.Time // of the time at which these are the keys; until is zero for no end
}

// Published returns the keys of the caller's company whose tokens may be valid at the caller's
// time, or may be soon, and when their set has last changed. It makes none; see Publish. Answers
// are cached; a key that is compromised is gone before RotateKey returns.
func (s TokenKeys) Published(ctx context.Context, by Caller) (*PublishedKeys, error) {
	known, err := s.known(ctx, by)
	if err != nil {
		return nil, err
	}
	return known.publishedAt(by)
}

// publishedAt is publish with the previous answer where that is still valid.
func (set tokenKeySet) publishedAt(by Caller) (*PublishedKeys, error) {
	if p := set.published.Load(); p != nil && !by.At.Before(p.from) && (p.until.IsZero() || by.At.Before(p.until)) {
		return p, nil
	}
	p, err := set.publish(by.At)
	if err != nil {
		return nil, fmt.Errorf("token keys of company %q: %w", by.Company.ID, err)
	}
	set.published.Store(p)
	return p, nil
}

// publish returns the keys that are published at a time.
func (set tokenKeySet) publish(at time.Time) (*PublishedKeys, error) {
	p := new(PublishedKeys)
	var changed time.Time
	var public []*tokenkey.Public
	gone := func(ended string) (time.Time, error) {
		end, err := db.ParseTime(ended)
		return end.Add(TokenLife), err
	}
	if set.gone != "" {
		var err error
		if changed, err = gone(set.gone); err != nil {
			return nil, err
		}
	}
	for _, k := range set.keys {
		came, err := db.ParseTime(max(k.CreatedAt, k.CompromisedAt))
		if err != nil {
			return nil, err
		}
		changed = db.Later(changed, came)
		if k.CompromisedAt != "" {
			continue
		}
		if k.EndedAt != "" {
			goes, err := gone(k.EndedAt)
			if err != nil {
				return nil, err
			}
			if !at.Before(goes) {
				changed, p.from = db.Later(changed, goes), db.Later(p.from, goes)
				continue
			}
			if p.until.IsZero() || goes.Before(p.until) {
				p.until = goes
			}
		}
		p.Keys, public = append(p.Keys, k), append(public, k.Public)
	}
	p.Set = tokenkey.NewSet(public, changed)
	return p, nil
}
