package store

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"attestd/store/atrest"
	"attestd/store/db"
)

// rowKeys knows the key of the HMACs of access tokens and of rows.
type rowKeys struct {
	db *base

	key *atomic.Pointer[[]byte] // nil while it is not known
	// the control log says that each row which may have an HMAC has one
	required *atomic.Bool
}

// tokenKeySetting names the setting with the key that authenticates access tokens, and the rows of
// rowmac.go. Tokens are too many for control records. Instead, each row has an HMAC over its
// content, with a key in the settings that is sealed like other secrets. So an attacker who can
// write rows, but does not have that key, cannot create a token, nor change a token's client or
// expiry.
const tokenKeySetting = "token_key"

// tokenRow is the authenticated content of an access token's row.
type tokenRow struct {
	hash    [sha256.Size]byte // of the token
	company int64
	holder  string // ID of the client, or heldBy
	expires int64  // Unix milliseconds
	scope   Scope
	jkt     string // of a client's
	details string // authorization details in canonical form; "" for none
}

// heldBy replaces a client's ID where an agent has signed in with a key.
func heldBy(thumbprint string, bound bool) string {
	return "agent-key:" + thumbprint + ":" + strconv.FormatBool(bound)
}

func (t tokenRow) mac(key []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(t.hash[:])
	// writing to a hash never fails
	_ = binary.Write(mac, binary.BigEndian, [2]int64{t.company, t.expires})
	mac.Write([]byte(t.holder))
	// older rows have none of these, and no holder has a newline
	if t.scope != "" || t.jkt != "" || t.details != "" {
		mac.Write([]byte("\n" + string(t.scope) + "\n" + t.jkt))
	}
	if t.details != "" { // which have no newline either
		mac.Write([]byte("\n" + t.details))
	}
	return mac.Sum(nil)
}

// tokenKey returns the key of the HMACs, or ErrNotFound if there is none yet.
func (s rowKeys) tokenKey(c *db.Conn) ([]byte, error) {
	if key := s.key.Load(); key != nil {
		return *key, nil
	}
	key, err := s.readTokenKey(c)
	if err == nil {
		s.key.Store(&key)
	}
	return key, err
}

func (s rowKeys) readTokenKey(c *db.Conn) ([]byte, error) {
	var text string
	if err := c.One([]any{&text}, `SELECT value FROM setting WHERE name = ?`, tokenKeySetting); err != nil {
		return nil, err
	}
	stored, err := hex.DecodeString(text)
	if err == nil {
		stored, err = s.db.Secrets().Open(stored, atrest.TokenKeyPlace)
	}
	if err != nil || len(stored) != sha256.Size {
		return nil, fmt.Errorf("%w: the setting %s is not what it was: %w", db.ErrCorrupt, tokenKeySetting, err)
	}
	return stored, nil
}

// sharedKey returns the key of the HMACs, which it creates if there is none.
func (s rowKeys) sharedKey(ctx context.Context) (key []byte, err error) {
	read := func() error {
		return s.db.Read(ctx, func(r *db.Conn) (err error) {
			key, err = s.tokenKey(r)
			return err
		})
	}
	if err = read(); errors.Is(err, db.ErrNotFound) {
		err = s.db.Write(ctx, func(w *db.Conn) error {
			_, err := s.needTokenKey(w)
			return err
		})
		if err == nil {
			err = read()
		}
	}
	return key, err
}

// knowTokenKey caches the key of the HMACs before a transaction that needs it. In one it cannot be
// cached, because it may be of a change that fails. If it cannot be read, the transaction says why.
func (s rowKeys) knowTokenKey(ctx context.Context) {
	if s.key.Load() == nil {
		_ = s.db.Read(ctx, func(r *db.Conn) error {
			_, err := s.tokenKey(r)
			return err
		})
	}
}

// needTokenKey returns the key of the HMACs in a transaction, and creates it if there is none. If
// two servers create one, both use the first.
func (s rowKeys) needTokenKey(w *db.Conn) ([]byte, error) {
	if known := s.key.Load(); known != nil {
		return *known, nil
	}
	key, err := s.readTokenKey(w)
	if !errors.Is(err, db.ErrNotFound) {
		return key, err
	}
	key = make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never returns an error
	if _, err := w.Exec(`INSERT INTO setting (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING`,
		tokenKeySetting, hex.EncodeToString(s.db.Secrets().Keep(key, atrest.TokenKeyPlace))); err != nil {
		return nil, err
	}
	return s.readTokenKey(w) // it is cached by a later read, after the commit
}
