package tlog_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"strconv"
	"testing"

	"attestd/chain/tlog"
)

const origin = "log.example/v1/log/0123456789abcdef0123456789abcdef"

var (
	key       = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	otherKey  = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, ed25519.SeedSize))
	vkey      = tlog.VKey{Name: origin, Type: tlog.TypeEd25519, Public: key.Public().(ed25519.PublicKey)}
	otherVKey = tlog.VKey{Name: origin, Type: tlog.TypeEd25519, Public: otherKey.Public().(ed25519.PublicKey)}

	errMissing = errors.New("missing")
)

// leaf returns leaf i of all trees in these tests.
func leaf(i int64) tlog.Leaf {
	text := strconv.FormatInt(i, 10)
	var signature [ed25519.SignatureSize]byte
	copy(signature[:], "signature "+text)
	return tlog.NewLeaf(sha256.Sum256([]byte(text)), signature, tlog.KeyDigest(vkey.Public))
}

// memoryTree is a Reader of a tree in memory. It has the root of every size, and counts the hashes
// that are read of each level.
type memoryTree struct {
	frontier tlog.Frontier
	roots    []tlog.Hash
	leaves   []tlog.Hash
	nodes    map[[2]int64]tlog.Hash
	read     map[int]int
}

// grow returns a tree of n leaves.
func grow(n int64) *memoryTree {
	g := &memoryTree{roots: []tlog.Hash{tlog.EmptyRoot()}, nodes: make(map[[2]int64]tlog.Hash), read: make(map[int]int)}
	for i := range n {
		l := leaf(i)
		g.leaves = append(g.leaves, l.Hash())
		var nodes []tlog.Node
		g.frontier, nodes = g.frontier.Append(g.leaves[i])
		for _, node := range nodes {
			g.nodes[[2]int64{int64(node.Level), node.Index}] = node.Hash
		}
		g.roots = append(g.roots, g.frontier.Root())
	}
	return g
}

func (g *memoryTree) tree(size int64) tlog.Tree { return tlog.Tree{Size: size, Root: g.roots[size]} }

func (g *memoryTree) Hashes(_ context.Context, level int, from, to int64) ([]tlog.Hash, error) {
	g.read[level] += int(to - from)
	if level == 0 {
		if from < 0 || to > int64(len(g.leaves)) {
			return nil, errMissing
		}
		return g.leaves[from:to], nil
	}
	hashes := make([]tlog.Hash, 0, to-from)
	for i := from; i < to; i++ {
		h, ok := g.nodes[[2]int64{int64(level), i}]
		if !ok {
			return nil, errMissing
		}
		hashes = append(hashes, h)
	}
	return hashes, nil
}

// checkpoint returns the signed checkpoint of a size.
func (g *memoryTree) checkpoint(t testing.TB, size int64) []byte {
	t.Helper()
	signed, err := tlog.Checkpoint{Origin: origin, Tree: g.tree(size)}.Sign(key)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// flip returns h with bit n, modulo its length, flipped.
func flip(h tlog.Hash, n int) tlog.Hash {
	h[n/8%len(h)] ^= 1 << (n % 8)
	return h
}
