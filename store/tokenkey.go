package store

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"attestd/store/atrest"
)

// Access tokens are too many to have control records. So the row of each carries an HMAC over all
// that it says, under a key that stands among the settings, sealed where other secrets are: whoever
// writes rows without that key gives nobody a token, and no token another client or end.
const tokenKeySetting = "token_key"

// tokenRow is what the row of an access token says.
type tokenRow struct {
	hash     [sha256.Size]byte // of the token
	company  int64
	clientID string
	expires  int64 // Unix milliseconds
}

func (t tokenRow) mac(key []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(t.hash[:])
	_ = binary.Write(mac, binary.BigEndian, [2]int64{t.company, t.expires}) // a hash takes all
	mac.Write([]byte(t.clientID))
	return mac.Sum(nil)
}

// tokenKey returns the key of the HMACs; ErrNotFound where none was made yet.
func (s Credentials) tokenKey(c *conn) ([]byte, error) {
	if key := s.db.tokens.Load(); key != nil {
		return *key, nil
	}
	key, err := s.readTokenKey(c)
	if err == nil {
		s.db.tokens.Store(&key)
	}
	return key, err
}

func (s Credentials) readTokenKey(c *conn) ([]byte, error) {
	var text string
	if err := c.one([]any{&text}, `SELECT value FROM setting WHERE name = ?`, tokenKeySetting); err != nil {
		return nil, err
	}
	stored, err := hex.DecodeString(text)
	if err == nil {
		stored, err = s.db.secrets.Open(stored, atrest.TokenKeyPlace)
	}
	if err != nil || len(stored) != sha256.Size {
		return nil, fmt.Errorf("%w: the setting %s is not what it was: %w", ErrCorrupt, tokenKeySetting, err)
	}
	return stored, nil
}

// needTokenKey is tokenKey in a change, where the key is made when there is none. Of two servers
// that make one, the first has made it for both.
func (s Credentials) needTokenKey(w *conn) ([]byte, error) {
	if known := s.db.tokens.Load(); known != nil {
		return *known, nil
	}
	key, err := s.readTokenKey(w)
	if !errors.Is(err, ErrNotFound) {
		return key, err
	}
	key = make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never returns an error
	if _, err := w.exec(`INSERT INTO setting (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING`,
		tokenKeySetting, hex.EncodeToString(s.db.secrets.Keep(key, atrest.TokenKeyPlace))); err != nil {
		return nil, err
	}
	return s.readTokenKey(w) // and remembered when it is read after the commit that makes it true
}
