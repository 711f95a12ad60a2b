package chain

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"attestd/chain/decision"
	"attestd/chain/tlog"
	"attestd/crypto/jcs"
)

// Record is one entry of a chain, as stored.
type Record struct {
	Index     int64
	Timestamp string
	// JSON {agentId, companyId, actionType, payload}, the inner payload byte for byte as sent
	Payload    []byte
	Delegation []byte // canonical JSON DelegationInfo; empty for none
	Hash       Hash
	Signature  [ed25519.SignatureSize]byte // over the 32 bytes of Hash
}

// AppendJSON appends the AttestationRecord of the API. It copies the stored bytes without parsing.
// A record without its payload has "payload":null,"pruned":true in place of it.
func (r *Record) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, r.Index, 10)
	dst = append(dst, `,"timestamp":`...)
	dst = jcs.AppendString(dst, r.Timestamp)
	dst = append(dst, `,"payload":`...)
	if r.IsPruned() {
		dst = append(dst, `null,"pruned":true`...)
	} else {
		dst = append(dst, r.Payload...)
	}
	if len(r.Delegation) > 0 {
		dst = append(dst, `,"delegation":`...)
		dst = append(dst, r.Delegation...)
	}
	dst = append(dst, `,"hash":"`...)
	dst = hex.AppendEncode(dst, r.Hash[:])
	dst = append(dst, `","signature":"`...)
	dst = base64.RawURLEncoding.AppendEncode(dst, r.Signature[:])
	return append(dst, `"}`...)
}

// AppendLine is AppendJSON without line feeds. It replaces line feeds between the tokens of a
// payload with spaces, which the hash does not cover either.
func (r *Record) AppendLine(dst []byte) []byte {
	start := len(dst)
	dst = r.AppendJSON(dst)
	for i, c := range dst[start:] {
		if c == '\n' || c == '\r' {
			dst[start+i] = ' '
		}
	}
	return dst
}

// appendPreimage appends the preimage of the hash of r; canonical is the RFC 8785 form of
// r.Payload.
func (r *Record) appendPreimage(dst, canonical []byte) []byte {
	dst = strconv.AppendInt(dst, r.Index, 10)
	dst = append(dst, '|')
	dst = append(dst, r.Timestamp...)
	dst = append(dst, '|')
	dst = append(dst, canonical...)
	if len(r.Delegation) > 0 {
		dst = append(dst, '|')
		dst = append(dst, r.Delegation...)
	}
	return dst
}

// ComputeHash returns the hash of the record's content; canonical is the RFC 8785 form of
// r.Payload.
func (r *Record) ComputeHash(canonical []byte) Hash {
	return sha256.Sum256(r.appendPreimage(make([]byte, 0, 64+len(canonical)+len(r.Delegation)), canonical))
}

// seal hashes and signs a record that has its index and time.
func (r *Record) seal(canonical []byte, key ed25519.PrivateKey) {
	r.Hash = r.ComputeHash(canonical)
	copy(r.Signature[:], ed25519.Sign(key, r.Hash[:]))
}

// leafHash returns the hash of the record's leaf in the log tree; keyDigest is that of the signing
// key.
func (r *Record) leafHash(keyDigest *[sha256.Size]byte) tlog.Hash {
	leaf := tlog.NewLeaf(r.Hash, r.Signature, *keyDigest)
	return leaf.Hash()
}

// Clone returns a deep copy.
func (r *Record) Clone() Record {
	c := *r
	c.Payload = bytes.Clone(r.Payload)
	c.Delegation = bytes.Clone(r.Delegation)
	return c
}

// Owner identifies the company and log that each payload of a chain must name. The zero Owner
// allows any payload.
type Owner struct {
	CompanyID string
	Log       string // the member log of each record; "" for records that have none
}

// wrong returns what is wrong with a canonical payload, or "". Canonical members are sorted, so the
// checked ones come first: actionType, agentId, companyId, decision, log, payload. Only an action
// may have a decision.
func (o Owner) wrong(canonical []byte) string {
	if o == (Owner{}) {
		return ""
	}
	rest, found := bytes.CutPrefix(canonical, []byte(`{"actionType":`))
	if found {
		rest, found = bytes.CutPrefix(skipString(rest), []byte(`,"agentId":`))
	}
	if found {
		rest, found = bytes.CutPrefix(skipString(rest), jcs.AppendString([]byte(`,"companyId":`), o.CompanyID))
	}
	if found && o.Log == "" && bytes.HasPrefix(rest, []byte(`,"decision":`)) {
		rest, _ = decision.Skip(rest[1:])
		found = bytes.HasPrefix(rest, []byte(`"payload":`))
	} else if found {
		found = bytes.HasPrefix(rest, o.appendLog(make([]byte, 0, 64)))
	}
	if !found {
		return fmt.Sprintf("the payload is not one of company %q in this log", o.CompanyID)
	}
	return ""
}

func (o Owner) appendLog(dst []byte) []byte {
	if o.Log != "" {
		dst = jcs.AppendString(append(dst, `,"log":`...), o.Log)
	}
	return append(dst, `,"payload":`...)
}

// skipString returns the rest of text after the JSON string at its start, or nil if there is none.
func skipString(text []byte) []byte {
	if len(text) == 0 || text[0] != '"' {
		return nil
	}
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return text[i+1:]
		}
	}
	return nil
}

// ErrUnproven reports that what a log says of pruned payloads does not verify.
var ErrUnproven = errors.New("chain: what was pruned is not proven")

// Pruned says which payloads of a log were given up, and what is left of those records. The company
// has signed it, in a control record.
//
// A record whose payload was pruned keeps its index, timestamp, hash, signature and delegation. Its
// leaf in both trees follows from these, so every root and proof stays. Its hash covers timestamp
// and delegation together with the payload, so without it nothing but the skeleton holds them.
type Pruned struct {
	Records int64 // the payloads of the records [0, Records) may be missing; 0 for none
	// Skeleton is the SHA-256 over these records in their order, each as AppendSkeleton writes it.
	Skeleton Hash
}

// IsPruned reports whether the payload of the record is missing on disk. Only the verification of
// its chain says whether it was pruned.
func (r *Record) IsPruned() bool { return len(r.Payload) == 0 }

// AppendSkeleton appends what is left of a record without its payload: the index and the lengths of
// timestamp and delegation as 8 bytes, big-endian; hash; signature; timestamp; delegation.
func (r *Record) AppendSkeleton(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.Index))
	dst = binary.BigEndian.AppendUint64(dst, uint64(len(r.Timestamp)))
	dst = binary.BigEndian.AppendUint64(dst, uint64(len(r.Delegation)))
	dst = append(dst, r.Hash[:]...)
	dst = append(dst, r.Signature[:]...)
	dst = append(dst, r.Timestamp...)
	return append(dst, r.Delegation...)
}

// Series is the hash of a name under which records of a chain are found together, by their keys:
// the keys of a series are adjacent, in the order of their numbers.
type Series Hash

// At returns the name of the key with a number, which MUST NOT be negative: half of the hash, the
// number, and more of the hash.
func (s Series) At(number int64) (name Hash) {
	copy(name[:], s[:16])
	binary.BigEndian.PutUint64(name[16:], uint64(number))
	copy(name[24:], s[16:])
	return name
}

// Number returns the number of which a name is the key. ok is false where the name is of no key of
// the series: another name may share the first half.
func (s Series) Number(name Hash) (number int64, ok bool) {
	number = int64(binary.BigEndian.Uint64(name[16:]))
	return number, number >= 0 && name == s.At(number)
}

// timeLayout has a fixed width, so that timestamps sort as strings.
const timeLayout = "2006-01-02T15:04:05.000Z"

// LastTime is the last time that a timestamp can have. What lasts for good ends then.
var LastTime = time.Date(9999, 12, 31, 23, 59, 59, int(999*time.Millisecond), time.UTC)

// FormatTime formats t as a timestamp of the service: UTC, milliseconds, Z.
func FormatTime(t time.Time) string { return t.UTC().Format(timeLayout) }

// IsTimestamp reports whether s is in the exact format of FormatTime. Foreign timestamps MUST be
// checked: one with a bar could move the border between timestamp and payload without a change of
// the record's hash.
func IsTimestamp(s string) bool {
	t, err := time.Parse(timeLayout, s)
	// avoids an allocation for every verified record
	var again [len(timeLayout)]byte
	return err == nil && string(t.AppendFormat(again[:0], timeLayout)) == s
}

// Hash is a SHA-256 digest.
type Hash [sha256.Size]byte

// String returns the hash in lower-case hex, the form that is hashed into a node.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// emptyRoot is the root of a tree without leaves.
var emptyRoot = Hash(sha256.Sum256(nil))

// nodeHash returns the parent of two nodes. It takes pointers and allocates nothing, because a tree
// calls it once per record.
func nodeHash(left, right *Hash) Hash {
	var joined [2 * 2 * sha256.Size]byte
	hex.Encode(joined[:len(joined)/2], left[:])
	hex.Encode(joined[len(joined)/2:], right[:])
	return sha256.Sum256(joined[:])
}

// failure is the error of a run on an invalid chain.
type failure struct {
	index  int64
	reason string
}

func (f *failure) Error() string { return fmt.Sprintf("record %d: %s", f.index, f.reason) }

// payloadDepth is one more than the nesting limit of a caller's value, which the stored payload
// wraps.
const payloadDepth = 128 + 1
