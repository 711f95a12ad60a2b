package chain

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"sort"
	"strconv"

	"attestd/chain/tlog"
)

// KeyRange is one key of a chain. It signs the records from From on, up to where the next range
// begins.
type KeyRange struct {
	From int64
	Key  ed25519.PublicKey
	// Flaw is the reason why the key is not proven to belong to the chain, or "". No record of a
	// key with a flaw verifies.
	Flaw string
}

// KeySet has all keys of a chain in the order of their ranges, the first from index 0. A KeySet
// MUST NOT be changed after it was returned.
type KeySet []KeyRange

// At returns the range of a record: the last one that begins at or before its index, because a key
// may have been replaced before it signed a record. Without such a range it returns the zero
// KeyRange, which has no key.
func (s KeySet) At(index int64) KeyRange {
	after := sort.Search(len(s), func(i int) bool { return s[i].From > index })
	if after == 0 {
		return KeyRange{}
	}
	return s[after-1]
}

// Leaves makes the leaves of records in the log tree, each with the key of its record. It MUST be
// used by one goroutine at a time.
type Leaves struct {
	Keys KeySet

	key    ed25519.PublicKey // the key of the cached digest
	digest [sha256.Size]byte
}

// Of returns the leaf of a record.
func (l *Leaves) Of(r *Record) tlog.Leaf {
	if key := l.Keys.At(r.Index).Key; l.key == nil || !bytes.Equal(key, l.key) {
		l.key, l.digest = key, tlog.KeyDigest(key)
	}
	return tlog.NewLeaf(r.Hash, r.Signature, l.digest)
}

// terms is a hash of what the first length records of a chain are checked against: their owner, the
// keys assigned to them, and whether the log tree is checked. It does not depend on later keys, so
// a rotation does not invalidate earlier verifications.
func (s KeySet) terms(length int64, owner Owner, hasLog bool) (sum Hash) {
	h := sha256.New()
	field := func(b []byte) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(b))))
		h.Write(b)
	}
	field([]byte(owner.CompanyID))
	field([]byte(owner.Log))
	field([]byte(strconv.FormatBool(hasLog)))
	for i, r := range s {
		end := length
		if i+1 < len(s) {
			end = min(end, s[i+1].From)
		}
		if r.From >= end {
			continue
		}
		field(binary.BigEndian.AppendUint64(nil, uint64(r.From)))
		if r.Flaw == "" {
			field(r.Key)
		} else {
			field(nil)
		}
	}
	h.Sum(sum[:0])
	return sum
}

// flaw returns the first unproven key as the failure of a chain of the given length. Verifying the
// records detects such a key too, unless it has signed none yet.
func (s KeySet) flaw(length int64) error {
	for _, r := range s {
		if r.Flaw != "" {
			return &failure{max(0, min(r.From, length)), r.Flaw}
		}
	}
	return nil
}
