package witness_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	modtlog "golang.org/x/mod/sumdb/tlog"

	"attestd/chain/tlog"
	"attestd/chain/witness"
	"attestd/internal/must"
)

const (
	origin      = "log.example/v1/log/0123456789abcdef0123456789abcdef"
	witnessName = "witness.example/w1"
)

var (
	logKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	// the second key of the same log
	nextKey    = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{6}, ed25519.SeedSize))
	otherKey   = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, ed25519.SeedSize))
	witnessKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{9}, ed25519.SeedSize))
	noon       = time.Unix(1_772_600_000, 0)
	ctx        = context.Background()
)

func vkey(name string, kind byte, private ed25519.PrivateKey) tlog.VKey {
	return tlog.VKey{Name: name, Type: kind, Public: private.Public().(ed25519.PublicKey)}
}

// history is a log in memory, with all hashes that proofs need. Histories of different names have
// different leaves.
type history struct{ hashes []tlog.Hash }

func grow(t testing.TB, name string, size int64) *history {
	t.Helper()
	h := new(history)
	for i := range size {
		stored, err := modtlog.StoredHashes(i, []byte(name+strconv.FormatInt(i, 10)), h)
		must.OK(t, err)
		h.hashes = append(h.hashes, stored...)
	}
	return h
}

func (h *history) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		if index >= int64(len(h.hashes)) {
			return nil, errors.New("missing")
		}
		hashes[i] = h.hashes[index]
	}
	return hashes, nil
}

func (h *history) tree(t testing.TB, size int64) tlog.Tree {
	t.Helper()
	if size == 0 {
		return tlog.Tree{Root: tlog.EmptyRoot()}
	}
	root, err := modtlog.TreeHash(size, h)
	must.OK(t, err)
	return tlog.Tree{Size: size, Root: root}
}

// checkpoint returns the checkpoint of the log at a size, signed with a key.
func (h *history) checkpoint(t testing.TB, size int64, private ed25519.PrivateKey) []byte {
	t.Helper()
	signed, err := tlog.Checkpoint{Origin: origin, Tree: h.tree(t, size)}.Sign(private)
	must.OK(t, err)
	return signed
}

// prove implements witness.Prover.
func (h *history) prove(_ context.Context, from int64, to tlog.Tree) ([]tlog.Hash, error) {
	if from == 0 || from == to.Size {
		return nil, nil
	}
	return modtlog.ProveTree(to.Size, from, h)
}

// request returns an add-checkpoint request from one size to another.
func (h *history) request(t testing.TB, from, to int64) witness.Request {
	t.Helper()
	proof, err := h.prove(ctx, from, h.tree(t, to))
	must.OK(t, err)
	return witness.Request{Old: from, Proof: proof, Checkpoint: h.checkpoint(t, to, logKey)}
}

// memory is a State in memory. It returns fail as its error when that is set.
type memory struct {
	fail error

	mu     sync.Mutex
	latest map[string]tlog.Tree
	signed map[string][]byte // the cosigned checkpoint, by origin
	trees  []tlog.Tree       // in the order in which they became the latest
}

func newMemory() *memory {
	return &memory{latest: make(map[string]tlog.Tree), signed: make(map[string][]byte)}
}

func (m *memory) Latest(_ context.Context, origin string) (tlog.Tree, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if tree, ok := m.latest[origin]; ok {
		return tree, m.fail
	}
	return tlog.Tree{Root: tlog.EmptyRoot()}, m.fail
}

func (m *memory) Advance(_ context.Context, origin string, from, to tlog.Tree, checkpoint []byte) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	latest, ok := m.latest[origin]
	if !ok {
		latest.Root = tlog.EmptyRoot()
	}
	if m.fail != nil || latest != from {
		return false, m.fail
	}
	m.latest[origin], m.signed[origin] = to, checkpoint
	m.trees = append(m.trees, to)
	return true, nil
}

// cosigner returns a Cosigner that knows two keys of the log.
func cosigner(t testing.TB, state witness.State) *witness.Cosigner {
	t.Helper()
	c, err := witness.NewCosigner(witnessName, witnessKey, []tlog.PolicyLog{
		{Key: vkey(origin, tlog.TypeEd25519, logKey)}, {Key: vkey("other.example", tlog.TypeEd25519, otherKey)}, {Key: vkey(origin, tlog.TypeEd25519, nextKey)},
	}, state)
	must.OK(t, err)
	return c
}
