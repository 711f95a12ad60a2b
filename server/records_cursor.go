package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"

	"attestd/chain/search"
)

// cursor is where a search goes on. In text it is base64url of a byte that says the version of this
// form, the digest, size and at, eight bytes each. It gives nothing that its bearer could not ask
// for: whoever makes one up chooses a place in a log that he may read.
type cursor struct {
	digest   digest
	size, at int64 // of the log; of the border between what was decided and what was not
}

// digest stands for a question: the log, the order and all filters.
type digest [16]byte

const (
	cursorVersion = 1
	cursorSize    = 1 + len(digest{}) + 8 + 8
)

func digestOf(logID string, backward bool, f *search.Filter, since, until string) (d digest) {
	// texts and a truth value are never refused
	text, _ := json.Marshal([]any{logID, backward, f.Agent, f.Action, f.DelegatedBy, f.Text, since, until, []byte(f.Hash)})
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

// parseCursor reads what String has written, and nothing else.
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
