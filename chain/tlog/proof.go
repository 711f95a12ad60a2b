package tlog

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/tlog"
)

const (
	proofHeader = "c2sp.org/tlog-proof@v1\n"

	maxExtra  = 64 << 10 // bytes before encoding
	maxHashes = 60       // hashes of a proof: one for each level of the largest tree
	maxProof  = maxCheckpoint + maxExtra*3/2 + 4096
)

// Proof is a tlog-proof. It proves offline that a leaf is in a log.
type Proof struct {
	Extra      []byte // nothing authenticates it; nil when there is none
	Index      int64
	Hashes     []Hash // the inclusion proof, from the leaf up
	Checkpoint []byte // the signed checkpoint, as published
}

// Format returns the text of the proof. Extra MUST have at most 64 KiB.
func (p Proof) Format() []byte {
	if len(p.Extra) == 0 {
		return torchwood.FormatProof(p.Index, p.Hashes, p.Checkpoint)
	}
	return torchwood.FormatProofWithExtraData(p.Index, p.Extra, p.Hashes, p.Checkpoint)
}

// ParseProof parses the text of a proof. It checks neither signatures nor hashes: Check does.
// Errors wrap ErrMalformed.
func ParseProof(text []byte) (Proof, error) {
	malformed := fmt.Errorf("%w tlog-proof", ErrMalformed)
	head, signed, ok := bytes.Cut(text, []byte("\n\n"))
	if !ok || len(text) > maxProof {
		return Proof{}, malformed
	}
	if _, _, err := ParseSignedCheckpoint(signed); err != nil {
		return Proof{}, err
	}
	rest, ok := strings.CutPrefix(string(head), proofHeader)
	if !ok {
		return Proof{}, malformed
	}
	p := Proof{Checkpoint: bytes.Clone(signed)}
	lines := strings.Split(rest, "\n")
	if extra, ok := strings.CutPrefix(lines[0], "extra "); ok {
		if p.Extra, ok = parseBase64(extra); !ok || len(p.Extra) == 0 || len(p.Extra) > maxExtra || len(lines) < 2 {
			return Proof{}, malformed
		}
		lines = lines[1:]
	}
	index, ok := strings.CutPrefix(lines[0], "index ")
	if !ok || len(lines)-1 > maxHashes {
		return Proof{}, malformed
	}
	if p.Index, ok = ParseDecimal(index); !ok {
		return Proof{}, malformed
	}
	for _, line := range lines[1:] {
		hash, ok := ParseHash(line)
		if !ok {
			return Proof{}, malformed
		}
		p.Hashes = append(p.Hashes, hash)
	}
	return p, nil
}

// Check verifies that the leaf with this hash is in the tree of the proof's checkpoint, and that
// one of the log's keys has signed the checkpoint, as [OpenCheckpoint] demands. It returns the
// checkpoint. Errors wrap ErrMalformed, ErrSignature or ErrProof.
func (p Proof) Check(leaf Hash, keys ...VKey) (Checkpoint, error) {
	c, _, err := OpenCheckpoint(p.Checkpoint, keys...)
	if err == nil {
		err = CheckInclusion(p.Hashes, c.Tree, p.Index, leaf)
	}
	if err != nil {
		return Checkpoint{}, err
	}
	return c, nil
}

// maxProvable is the size of the largest tree that can be read, in leaves. A larger one would need
// nodes that more than 256 stored hashes make up.
const maxProvable = 1 << 40

// Root computes the root of the first size leaves. It reads at most 256 hashes of each stored level
// below log₂ size.
func Root(ctx context.Context, r Reader, size int64) (Hash, error) {
	if size < 0 || size > maxProvable {
		return Hash{}, fmt.Errorf("tlog: size %d is not from 0 to %d", size, int64(maxProvable))
	}
	root, err := newSubtrees(ctx, r, size).root(size)
	if err != nil {
		return Hash{}, fmt.Errorf("tlog: root of size %d: %w", size, err)
	}
	return root, nil
}

// FrontierAt computes the frontier of the first size leaves. It reads at most 256 hashes of each
// stored level below log₂ size.
func FrontierAt(ctx context.Context, r Reader, size int64) (Frontier, error) {
	if size < 0 || size > maxProvable {
		return Frontier{}, fmt.Errorf("tlog: size %d is not from 0 to %d", size, int64(maxProvable))
	}
	roots, err := newSubtrees(ctx, r, size).ReadHashes(torchwood.RightEdge(size))
	if err != nil {
		return Frontier{}, fmt.Errorf("tlog: frontier of size %d: %w", size, err)
	}
	return Frontier{size, roots}, nil
}

// ProveInclusion builds the proof of RFC 6962 §2.1.1 that leaf index is in tree: the siblings on
// the way from the leaf to the root. It reads at most 512 hashes of each stored level below log₂ n,
// those around the leaf and those at the end of the tree, and computes as many. It checks the
// result against tree.Root, and returns an error when they differ.
func ProveInclusion(ctx context.Context, r Reader, tree Tree, index int64) ([]Hash, error) {
	return NewProver(ctx, r, tree).Prove(index)
}

// Prover builds many proofs of one tree. It keeps what it reads, at most some 2 MiB of it, so that
// proofs of leaves that are near one another cost little.
type Prover struct {
	tree     Tree
	subtrees *subtrees
}

// NewProver returns a Prover of a tree, which reads as long as ctx lasts.
func NewProver(ctx context.Context, r Reader, tree Tree) *Prover {
	return &Prover{tree, newSubtrees(ctx, r, tree.Size)}
}

// Prove is [ProveInclusion].
func (p *Prover) Prove(index int64) ([]Hash, error) {
	tree, s := p.tree, p.subtrees
	if index < 0 || index >= tree.Size || tree.Size > maxProvable {
		return nil, fmt.Errorf("tlog: leaf %d is outside a tree of %d", index, tree.Size)
	}
	proof, err := tlog.ProveRecord(tree.Size, index, s)
	if err != nil {
		return nil, fmt.Errorf("tlog: proof of leaf %d in a tree of %d: %w", index, tree.Size, err)
	}
	leaf, err := s.Root(0, index)
	if err != nil {
		return nil, fmt.Errorf("tlog: leaf %d: %w", index, err)
	}
	if CheckInclusion(proof, tree, index, leaf) != nil {
		return nil, fmt.Errorf("tlog: hashes on disk do not lead from leaf %d to the root of size %d", index, tree.Size)
	}
	return proof, nil
}

// ProveConsistency builds the proof of RFC 6962 §2.1.2 that the tree of the first from leaves is a
// prefix of tree. The proof is empty when from is 0 or tree.Size. It reads at most 512 hashes of
// each stored level below log₂ n, those at the ends of both trees, and computes about twice as
// many. It checks the result against tree.Root, and returns an error when they differ.
func ProveConsistency(ctx context.Context, r Reader, from int64, tree Tree) ([]Hash, error) {
	if from < 0 || from > tree.Size || tree.Size > maxProvable {
		return nil, fmt.Errorf("tlog: size %d is not a prefix of a tree of %d", from, tree.Size)
	}
	if from == 0 || from == tree.Size {
		return nil, nil
	}
	s := newSubtrees(ctx, r, tree.Size)
	proof, err := tlog.ProveTree(tree.Size, from, s)
	if err != nil {
		return nil, fmt.Errorf("tlog: consistency from %d to %d: %w", from, tree.Size, err)
	}
	root, err := s.root(from)
	if err != nil {
		return nil, fmt.Errorf("tlog: root of size %d: %w", from, err)
	}
	if CheckConsistency(proof, Tree{from, root}, tree) != nil {
		return nil, fmt.Errorf("tlog: hashes on disk do not lead from size %d to the root of size %d", from, tree.Size)
	}
	return proof, nil
}

// CheckInclusion verifies that proof leads from the hash of leaf index to the root of tree. Its
// error wraps ErrProof.
func CheckInclusion(proof []Hash, tree Tree, index int64, leaf Hash) error {
	if tree.Size > maxSize || tlog.CheckRecord(proof, tree.Size, tree.Root, index, leaf) != nil {
		return fmt.Errorf("%w: leaf %d in the tree of %d", ErrProof, index, tree.Size)
	}
	return nil
}

// CheckConsistency verifies that proof shows the tree from to be a prefix of the tree to. A tree
// without leaves is a prefix of every tree, and its proof is empty. The error wraps ErrProof.
func CheckConsistency(proof []Hash, from, to Tree) error {
	valid := false
	switch {
	case from.Size < 0 || from.Size > to.Size || to.Size > maxSize:
	case from.Size == 0:
		valid = len(proof) == 0 && from.Root == EmptyRoot() && (to.Size > 0 || to.Root == EmptyRoot())
	default:
		valid = tlog.CheckTree(proof, to.Size, to.Root, from.Size, from.Root) == nil
	}
	if !valid {
		return fmt.Errorf("%w: size %d as a prefix of size %d", ErrProof, from.Size, to.Size)
	}
	return nil
}

// subtrees is the tlog.HashReader of x/mod over a Reader. It MUST NOT be used for more than one
// call of this package.
type subtrees struct{ Subtrees[Hash] }

func newSubtrees(ctx context.Context, r Reader, size int64) *subtrees {
	return &subtrees{Subtrees[Hash]{
		Size: size,
		Read: func(level int, from, to int64) ([]Hash, error) { return r.Hashes(ctx, level, from, to) },
		Node: func(left, right *Hash) Hash { return tlog.NodeHash(*left, *right) },
	}}
}

func (s *subtrees) root(size int64) (Hash, error) { return tlog.TreeHash(size, s) }

// ReadHashes implements tlog.HashReader.
func (s *subtrees) ReadHashes(indexes []int64) ([]Hash, error) {
	hashes := make([]Hash, len(indexes))
	for i, index := range indexes {
		var err error
		if hashes[i], err = s.Root(tlog.SplitStoredHashIndex(index)); err != nil {
			return nil, err
		}
	}
	return hashes, nil
}
