package chain

import (
	"encoding/binary"
	"errors"
)

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
