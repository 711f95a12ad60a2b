package chain

import (
	"context"
	"testing"
)

func BenchmarkTreeAppend(b *testing.B) {
	var t tree
	var nodes []Node
	h := leaf(0)
	b.ReportAllocs()
	for b.Loop() {
		nodes = t.append(h, nodes[:0])
	}
}

// BenchmarkTreeAppendAndRoot measures the cost of each event of the stream at a million records.
func BenchmarkTreeAppendAndRoot(b *testing.B) {
	t := tree{length: 1<<20 - 1, frontier: make([]Hash, 20)}
	h := leaf(0)
	b.ReportAllocs()
	for b.Loop() {
		t.append(h, nil)
		h = t.root()
	}
}

// million is a Reader of a million leaves without read costs. The hash of a leaf derives from its
// index.
type million struct {
	*forest
	leaves []Hash
}

func (m million) Hashes(ctx context.Context, c int64, level int, from, to int64) ([]Hash, error) {
	if level == 0 {
		return append([]Hash(nil), m.leaves[from:to]...), nil
	}
	return m.forest.Hashes(ctx, c, level, from, to)
}

func BenchmarkProveAtMillion(b *testing.B) {
	const n = 1_000_000
	f := plant(n)
	m := million{f, leaves(n)}
	head := f.head()
	b.ReportAllocs()
	i := int64(0)
	for b.Loop() {
		if _, err := Prove(context.Background(), m, 1, i%n, head); err != nil {
			b.Fatal(err)
		}
		i += 123_457
	}
}
