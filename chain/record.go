package chain

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strconv"

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
