package tlog_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"filippo.io/torchwood"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"
	modtlog "golang.org/x/mod/sumdb/tlog"

	"attestd/chain/tlog"
	"attestd/internal/testenv"
)

// others checks proofs with other implementations.
type others struct {
	t      *testing.T
	tree   *memoryTree
	policy torchwood.Policy
}

func newOthers(t *testing.T, g *memoryTree) others {
	t.Helper()
	v, err := note.NewVerifier(vkey.String())
	if err != nil {
		t.Fatal(err)
	}
	return others{t, g, torchwood.ThresholdPolicy(2, torchwood.OriginPolicy(origin), torchwood.SingleVerifierPolicy(v))}
}

// inclusion proves leaf index in the tree of size. torchwood and merkle must accept the proof.
// Neither they nor we may accept it with one bit flipped.
func (o others) inclusion(signed []byte, size, index int64) {
	o.t.Helper()
	tree, leaf := o.tree.tree(size), leaf(index)
	hashes, err := tlog.ProveInclusion(o.t.Context(), o.tree, tree, index)
	if err != nil {
		o.t.Fatal(err)
	}
	text := tlog.Proof{Index: index, Hashes: hashes, Checkpoint: signed}.Format()
	if err := torchwood.VerifyProof(o.policy, modtlog.RecordHash(leaf[:]), text); err != nil {
		o.t.Fatalf("torchwood: leaf %d of %d: %v", index, size, err)
	}
	hash := leaf.Hash()
	merkle := func(hashes []tlog.Hash, root tlog.Hash) error {
		return proof.VerifyInclusion(rfc6962.DefaultHasher, uint64(index), uint64(size), hash[:], raw(hashes), root[:])
	}
	if err := merkle(hashes, tree.Root); err != nil {
		o.t.Fatalf("merkle: leaf %d of %d: %v", index, size, err)
	}
	bit := int(size*31 + index)
	if len(hashes) == 0 {
		if wrong := flip(tree.Root, bit); merkle(hashes, wrong) == nil || tlog.CheckInclusion(hashes, tlog.Tree{Size: size, Root: wrong}, index, hash) == nil {
			o.t.Fatalf("leaf %d of %d: bit %d of the root does not matter", index, size, bit)
		}
		return
	}
	flipped := slices.Clone(hashes)
	flipped[bit%len(hashes)] = flip(flipped[bit%len(hashes)], bit)
	refused := tlog.CheckInclusion(flipped, tree, index, hash) != nil && merkle(flipped, tree.Root) != nil
	if size%8 == index%8 { // torchwood checks the signature each time
		text = tlog.Proof{Index: index, Hashes: flipped, Checkpoint: signed}.Format()
		refused = refused && torchwood.VerifyProof(o.policy, hash, text) != nil
	}
	if !refused {
		o.t.Fatalf("leaf %d of %d: bit %d of the proof does not matter", index, size, bit)
	}
}

// consistency proves that the tree of size from is a prefix of the tree of size to. merkle and
// x/mod, which torchwood's witness uses, must accept the proof. Neither they nor we may accept it
// with one bit flipped.
func (o others) consistency(from, to int64) {
	o.t.Helper()
	first, second := o.tree.tree(from), o.tree.tree(to)
	hashes, err := tlog.ProveConsistency(o.t.Context(), o.tree, from, second)
	if err != nil {
		o.t.Fatal(err)
	}
	merkle := func(hashes []tlog.Hash, second tlog.Tree) error {
		return proof.VerifyConsistency(rfc6962.DefaultHasher, uint64(from), uint64(to), raw(hashes), first.Root[:], second.Root[:])
	}
	witness := func(hashes []tlog.Hash, second tlog.Tree) error {
		return modtlog.CheckTree(hashes, to, second.Root, from, first.Root)
	}
	if err := merkle(hashes, second); err != nil {
		o.t.Fatalf("merkle: from %d to %d: %v", from, to, err)
	}
	if err := tlog.CheckConsistency(hashes, first, second); err != nil {
		o.t.Fatal(err)
	}
	if from == 0 {
		return // nothing to flip, and x/mod knows no empty tree
	}
	if err := witness(hashes, second); err != nil {
		o.t.Fatalf("x/mod: from %d to %d: %v", from, to, err)
	}
	bit := int(to*31 + from)
	if len(hashes) > 0 {
		hashes = slices.Clone(hashes)
		hashes[bit%len(hashes)] = flip(hashes[bit%len(hashes)], bit)
	} else {
		second.Root = flip(second.Root, bit)
	}
	if tlog.CheckConsistency(hashes, first, second) == nil || merkle(hashes, second) == nil || witness(hashes, second) == nil {
		o.t.Fatalf("from %d to %d: bit %d does not matter", from, to, bit)
	}
}

func raw(hashes []tlog.Hash) [][]byte {
	out := make([][]byte, len(hashes))
	for i := range hashes {
		out[i] = hashes[i][:]
	}
	return out
}

// torchwood and merkle accept proofs of every leaf in trees of all sizes to 300. In 500 trees of
// random sizes to 100,000 they accept proofs of the first leaf, the last, and four random ones.
func TestTransparencyDevAcceptsInclusion(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	most, random := int64(testenv.Rounds(70, 300)), testenv.Rounds(50, 500)
	o := newOthers(t, grow(100_000))
	for size := int64(1); size <= most; size++ {
		signed := o.tree.checkpoint(t, size)
		for index := range size {
			o.inclusion(signed, size, index)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range random {
		size := 1 + r.Int64N(100_000)
		signed := o.tree.checkpoint(t, size)
		for _, index := range []int64{0, size - 1, r.Int64N(size), r.Int64N(size), r.Int64N(size), r.Int64N(size)} {
			o.inclusion(signed, size, index)
		}
	}
}

// merkle and x/mod accept proofs between all pairs of sizes to 100, and 2,000 random pairs to
// 100,000.
func TestTransparencyDevAcceptsConsistency(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	o := newOthers(t, grow(100_000))
	for to := range int64(101) {
		for from := range to + 1 {
			o.consistency(from, to)
		}
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		to := r.Int64N(100_001)
		o.consistency(r.Int64N(to+1), to)
	}
}

// tileServer serves our tiles and bundles to torchwood's client: by path, and only within a size.
type tileServer struct {
	t    *testing.T
	g    *memoryTree
	size int64
	flip int64 // index of the leaf that is served with one bit flipped; -1 for none
}

func (s tileServer) ReadTiles(ctx context.Context, tiles []modtlog.Tile) (data [][]byte, err error) {
	for _, wanted := range tiles {
		tile, err := tlog.ParseTilePath(torchwood.TilePath(wanted))
		if err != nil || !tile.Within(s.size) {
			s.t.Errorf("size %d: %s: %v", s.size, torchwood.TilePath(wanted), err)
			return nil, errMissing
		}
		if tile.Level != tlog.Entries {
			hashes, err := tlog.ReadTile(ctx, s.g, tile, s.size)
			if err != nil {
				return nil, err
			}
			data = append(data, hashes)
			continue
		}
		var bundle []byte
		from, to := tile.Range()
		for i := from; i < to; i++ {
			l := leaf(i)
			if i == s.flip {
				l[40] ^= 1
			}
			if bundle, err = torchwood.AppendTileEntry(bundle, l[:]); err != nil {
				return nil, err
			}
		}
		data = append(data, bundle)
	}
	return data, nil
}

func (tileServer) SaveTiles([]modtlog.Tile, [][]byte) {}

func (tileServer) ReadEndpoint(context.Context, string) ([]byte, error) { return nil, errMissing }

// torchwood's client reads whole logs from our tiles, and detects a changed leaf.
func TestTorchwoodReadsTiles(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	g := grow(70_000)
	for _, size := range []int64{0, 1, 255, 256, 257, 511, 512, 65_535, 65_536, 65_537, 70_000} {
		for _, changed := range []int64{-1, size - 1} {
			client, err := torchwood.NewClient(tileServer{t, g, size, changed})
			if err != nil {
				t.Fatal(err)
			}
			next := int64(0)
			for i, entry := range client.AllEntries(t.Context(), modtlog.Tree{N: size, Hash: g.roots[size]}, 0) {
				if l := leaf(i); i != next || !slices.Equal(entry, l[:]) {
					t.Fatalf("size %d: leaf %d differs", size, i)
				}
				next++
			}
			if good := changed < 0; (client.Err() == nil) != good || good && next != size {
				t.Errorf("size %d: %d leaves read, %v", size, next, client.Err())
			}
		}
	}
}
