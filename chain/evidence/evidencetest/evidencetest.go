// Package evidencetest makes keys, records and logs in memory, for tests of what is handed out of
// logs.
package evidencetest

import (
	"bytes"
	"context"
	"crypto/ed25519"

	"attestd/chain"
	"attestd/chain/evidence"
	"attestd/chain/tlog"
	"attestd/chain/witness"
	"attestd/crypto/jcs"
	"attestd/crypto/keyring"
	"attestd/crypto/keys"
)

// Private returns the key n, which is always the same.
func Private(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

// Public returns the public key n.
func Public(n byte) ed25519.PublicKey { return Private(n).Public().(ed25519.PublicKey) }

// Fingerprint returns that of the key n.
func Fingerprint(n byte) string { return keys.Describe(Public(n)).Fingerprint }

// NewLog returns a log with the key 0.
func NewLog(name, id string) evidence.Log {
	return evidence.Log{Name: name, ID: id, Origin: "log.example/v1/log/" + id,
		Keys: []keyring.Key{{Public: Public(0)}}}
}

// Rotate gives a log the key n after the key before, from an index on.
func Rotate(l *evidence.Log, n byte, from int64) {
	l.Keys = append(l.Keys, keyring.Key{Generation: int64(n), Public: Public(n), From: from,
		Rotation: keyring.Rotate(l.Origin, from, Private(n-1), Private(n))})
}

// Sign gives a record its hash, and its signature by the key n. It returns the record's leaf.
func Sign(r *chain.Record, n byte) (tlog.Hash, error) {
	canonical, err := jcs.Append(nil, r.Payload, 200)
	if err != nil {
		return tlog.Hash{}, err
	}
	r.Hash = r.ComputeHash(canonical)
	copy(r.Signature[:], ed25519.Sign(Private(n), r.Hash[:]))
	leaf := tlog.NewLeaf(r.Hash, r.Signature, tlog.KeyDigest(Public(n)))
	return leaf.Hash(), nil
}

// Leaves are those of a log.
type Leaves []tlog.Hash

// Hashes implements tlog.Reader.
func (l Leaves) Hashes(_ context.Context, level int, from, to int64) ([]tlog.Hash, error) {
	if level == 0 {
		return l[from:to], nil
	}
	var nodes []tlog.Hash
	for i := from; i < to; i++ {
		nodes = append(nodes, l[i<<level:(i+1)<<level].Frontier().Root())
	}
	return nodes, nil
}

// Frontier returns that of their tree.
func (l Leaves) Frontier() tlog.Frontier {
	var f tlog.Frontier
	f, _ = f.Append(l...)
	return f
}

// Consistency returns a checkpoint by the key n of the log that has an origin and these leaves, and
// the proof that its first from leaves are a prefix of it, in the format of a request to a
// witness.
func (l Leaves) Consistency(ctx context.Context, origin string, n byte, from int64) ([]byte, error) {
	tree := l.Frontier().Tree()
	note, err := tlog.Checkpoint{Origin: origin, Tree: tree}.Sign(Private(n))
	if err != nil {
		return nil, err
	}
	proof, err := tlog.ProveConsistency(ctx, l, from, tree)
	return witness.Request{Old: from, Proof: proof, Checkpoint: note}.Format(), err
}
