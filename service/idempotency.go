package service

import (
	"context"
	"crypto/sha256"
	"errors"
	"strconv"
	"strings"

	"attestd/chain"
	"attestd/store"
)

// keyName is what an idempotency key is stored by: its first half is the key's own beginning, its
// second that of the key's SHA-256. Keys that begin with a time, as those of our clients do, so
// stand beside one another on disk, and a commit that stores many of them writes few pages.
func keyName(key string) (name chain.Hash) {
	copy(name[:16], key)
	sum := sha256.Sum256([]byte(key))
	copy(name[16:], sum[:16])
	return name
}

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
	const digits = 15 // of 16: keyName keeps the order of so many
	at := strconv.FormatUint(unixNano>>4, 16)
	return "\x00" + strings.Repeat("0", digits-len(at)) + at + by.Credential + "\x00" + key
}

// requestOf is what a key is bound to: all that POST /v1/attest is asked for. An item of a batch is
// bound to the same, so that what was tried alone can be sent again with others. What is done for a
// person is another request than the same for another person.
func requestOf(d *chain.Draft, by store.Caller, delegation string) (request chain.Hash) {
	h := sha256.New()
	h.Write([]byte("POST /v1/attest\n"))
	h.Write(d.Canonical)
	h.Write([]byte("\n" + delegation)) // the canonical form has no line feed
	if by.Delegation != "" {
		person, _ := delegationOf(by) // verify reads it again
		h.Write([]byte("\n" + person.Subject))
	}
	h.Sum(request[:0])
	return request
}

// orRecorded returns the record that stands under the first of a draft's keys that is there;
// refused where none is.
func (a *Attestations) orRecorded(ctx context.Context, by store.Caller, keys []chain.Key, refused error) (*chain.Record, error) {
	for i := range keys {
		record, err := a.Store.Recorded(ctx, by, &keys[i])
		if !errors.Is(err, store.ErrNotFound) {
			return record, takenError(err)
		}
	}
	return nil, refused
}

// known says whether anything stands under an idempotency key, be it another request.
func (a *Attestations) known(ctx context.Context, by store.Caller, key string) (bool, error) {
	_, err := a.Store.Recorded(ctx, by, &chain.Key{Name: keyName(key)})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return false, nil
	case errors.Is(err, chain.ErrKeyReused):
		return true, nil
	}
	return err == nil, err
}
