package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"

	"attestd/chain/search"
)

// cursor is the position at which a search continues. Its text is the base64url of a version byte,
// the digest, size and at, with eight bytes for each number. A forged cursor gives no access: it
// only selects a position in a log that the caller may read.
type cursor struct {
	digest   digest
	size, at int64 // of the log; of the border between the searched and the remaining part
}

// digest identifies a search: the log, the order and all filters.
type digest [16]byte

const (
	cursorVersion = 1
	cursorSize    = 1 + len(digest{}) + 8 + 8
)

func digestOf(logID string, backward bool, f *search.Filter, since, until string) (d digest) {
	all := []any{logID, backward, f.Agent, f.Action, f.DelegatedBy, f.Text, since, until, []byte(f.Hash)}
	if f.Decision != "" || f.Policy != "" {
		all = append(all, []string{f.Decision, f.Policy})
	}
	if f.Members != nil {
		all = append(all, f.Members.String())
	}
	text, _ := json.Marshal(all) // strings and a boolean can always be encoded
	sum := sha256.Sum256(text)
	copy(d[:], sum[:])
	return d
}

func (c cursor) String() string {
	raw := append(append(make([]byte, 0, cursorSize), cursorVersion), c.digest[:]...)
	raw = binary.BigEndian.AppendUint64(raw, uint64(c.size))
	raw = binary.BigEndian.AppendUint64(raw, uint64(c.at))
	return base64.RawURLEncoding.EncodeToString(raw)
}

// parseCursor parses exactly the output of String.
func parseCursor(text string) (c cursor, ok bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != cursorSize || raw[0] != cursorVersion || bytes.ContainsAny([]byte(text), "\r\n") {
		return c, false
	}
	copy(c.digest[:], raw[1:])
	raw = raw[1+len(c.digest):]
	c.size, c.at = int64(binary.BigEndian.Uint64(raw)), int64(binary.BigEndian.Uint64(raw[8:]))
	return c, 0 <= c.at && c.at <= c.size
}
