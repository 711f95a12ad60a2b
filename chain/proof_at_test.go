package chain

import (
	"slices"
	"testing"
)

// ProveAt returns, for every former size, the proof of that time.
func TestProveAt(t *testing.T) {
	t.Parallel()
	f := plant(600)
	for _, size := range []int64{1, 2, 3, 5, 8, 255, 256, 257, 300, 511, 512, 513, 599, 600} {
		then := plant(size)
		for index := int64(0); index < size; index += 1 + index/7 {
			want, err := Prove(t.Context(), then, 1, index, then.head())
			if err != nil {
				t.Fatal(err)
			}
			got, root, err := ProveAt(t.Context(), f, 1, index, size, f.head())
			if err != nil || root != then.head().Root || !slices.Equal(got, want) {
				t.Fatalf("record %d at size %d: %v, root %v, %v", index, size, got, root, err)
			}
		}
	}
	for _, c := range [][2]int64{{-1, 5}, {5, 5}, {5, 601}, {0, 0}} {
		if _, _, err := ProveAt(t.Context(), f, 1, c[0], c[1], f.head()); err == nil {
			t.Errorf("a proof of record %d at size %d", c[0], c[1])
		}
	}
	f.byID[[2]int64{8, 0}] = Hash{}
	if _, _, err := ProveAt(t.Context(), f, 1, 300, 400, f.head()); err == nil {
		t.Error("a proof was built over a wrong stored node")
	}
}
