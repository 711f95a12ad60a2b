package service

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"attestd/chain"
	"attestd/store"
	"attestd/store/names"
)

// derivedKey is the key of an append that the service itself derives from what a credential has
// sent. No Idempotency-Key can be one, for it begins with a control character, nor can another
// credential have it derived: whoever foretells what will be sent cannot take its key beforehand.
func derivedKey(by store.Caller, key string) string {
	if key == "" {
		return ""
	}
	return "\x00" + by.Credential + "\x00" + key
}

// derivedKeyAt is derivedKey for what has a time, in nanoseconds since 1970. Such keys stand beside
// one another on disk if their times do. The other ones have their second control character at
// another place.
func derivedKeyAt(by store.Caller, unixNano uint64, key string) string {
	const digits = 15 // of 16: names.Key keeps the order of so many
	at := strconv.FormatUint(unixNano>>4, 16)
	return "\x00" + strings.Repeat("0", digits-len(at)) + at + by.Credential + "\x00" + key
}

// requestOf is what the key of a draft is bound to.
func requestOf(d *chain.Draft, by store.Caller, delegation string) chain.Hash {
	if by.Delegation == "" {
		return names.Request(d.Canonical, delegation, "")
	}
	person, _ := delegationOf(by) // verify reads it again
	return names.Request(d.Canonical, delegation, person.Subject)
}

// delegatedBy is the delegation that the record of a request has, whichever token is refused by
// now. Who acts for a person may do so with another token of that person the next time.
func delegatedBy(by store.Caller, token string) (d chain.Delegated) {
	if token == "" && by.Delegation == "" {
		return d
	}
	given, _ := delegationUnverified(by, token) // verify refuses what is none
	d.TokenID = given.TokenID
	if token == "" {
		d.Subject = given.Subject
	}
	return d
}

// orRecorded returns the record that stands under the first of a draft's keys that is there;
// refused where none is.
func (a *Attestations) orRecorded(ctx context.Context, by store.Caller, d *chain.Draft, refused error) (*chain.Record, error) {
	for i := range d.Keys {
		record, err := a.Store.Recorded(ctx, by, &d.Keys[i], d)
		if !errors.Is(err, store.ErrNotFound) {
			return record, a.conflictError(ctx, by, err)
		}
	}
	return nil, refused
}
