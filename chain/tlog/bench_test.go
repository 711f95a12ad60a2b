package tlog_test

import (
	"testing"

	modtlog "golang.org/x/mod/sumdb/tlog"

	"attestd/chain/tlog"
)

func BenchmarkLeaf(b *testing.B) {
	l := leaf(0)
	b.ReportAllocs()
	for b.Loop() {
		l.Hash()
	}
}

func BenchmarkNode(b *testing.B) {
	hash := tlog.EmptyRoot()
	b.ReportAllocs()
	for b.Loop() {
		hash = modtlog.NodeHash(hash, hash)
	}
}

// BenchmarkAppend is what one record alone costs a log of a million: leaf, frontier and root.
func BenchmarkAppend(b *testing.B) {
	f := tlog.Frontier{Size: 1_000_000, Roots: make([]tlog.Hash, 7)}
	l := leaf(0)
	b.ReportAllocs()
	for b.Loop() {
		grown, _ := f.Append(l.Hash())
		grown.Root()
	}
}

// BenchmarkAppendThousand is what a backfill costs: 1,000 records at a time.
func BenchmarkAppendThousand(b *testing.B) {
	var f tlog.Frontier
	l := leaf(0)
	hashes := make([]tlog.Hash, 1000)
	b.ReportAllocs()
	for b.Loop() {
		for i := range hashes {
			hashes[i] = l.Hash()
		}
		f, _ = f.Append(hashes...)
	}
}

func BenchmarkCheckpoint(b *testing.B) {
	c := tlog.Checkpoint{Origin: origin, Tree: tlog.Tree{Size: 1_000_000, Root: tlog.EmptyRoot()}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Sign(key); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAtMillion(b *testing.B) {
	const n = 1_000_000
	g := grow(n)
	signed := g.checkpoint(b, n)
	b.Run("inclusion", func(b *testing.B) {
		b.ReportAllocs()
		for i := int64(0); b.Loop(); i += 123_457 {
			if _, err := tlog.ProveInclusion(b.Context(), g, g.tree(n), i%n); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("consistency", func(b *testing.B) {
		b.ReportAllocs()
		for i := int64(0); b.Loop(); i += 123_457 {
			if _, err := tlog.ProveConsistency(b.Context(), g, i%n, g.tree(n)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("tlog-proof", func(b *testing.B) {
		b.ReportAllocs()
		for i := int64(0); b.Loop(); i += 123_457 {
			hashes, err := tlog.ProveInclusion(b.Context(), g, g.tree(n), i%n)
			if err != nil {
				b.Fatal(err)
			}
			_ = tlog.Proof{Index: i % n, Hashes: hashes, Checkpoint: signed}.Format()
		}
	})
	b.Run("frontier", func(b *testing.B) {
		b.ReportAllocs()
		for i := int64(0); b.Loop(); i += 123_457 {
			if _, err := tlog.FrontierAt(b.Context(), g, i%n); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("tile", func(b *testing.B) {
		b.ReportAllocs()
		for i := int64(0); b.Loop(); i += 1237 {
			if _, err := tlog.ReadTile(b.Context(), g, tlog.Tile{Index: i % (n / 256), Width: 256}, n); err != nil {
				b.Fatal(err)
			}
		}
	})
}
