package lines

import (
	"encoding/binary"
	"errors"
	"testing"

	"attestd/chain"
	"attestd/chain/tlog"
)

// Opening lines may go back to any record of the lines, also to those that are not remembered any
// more: that is a verdict, whatever follows.
func TestOpeningLinesBeforeWhatIsRemembered(t *testing.T) {
	t.Parallel()
	const first, n = 5, remembered + remembered/4 + 10
	leafOf := func(index int64) (leaf tlog.Hash) {
		binary.BigEndian.PutUint64(leaf[:], uint64(index))
		return leaf
	}
	var frontiers []tlog.Frontier // of the sizes first, first+1 and so on
	var f tlog.Frontier
	for i := range int64(first) {
		f, _ = f.Append(leafOf(i))
	}
	for i := range int64(4) {
		frontiers = append(frontiers, f)
		f, _ = f.Append(leafOf(first + i))
	}
	for _, openings := range [][]int64{{0, 1}, {0, 0, 3}, {1, 0, 1}, {2, 3}} {
		l := newLogCheck("actions", "", frontiers[0])
		for i := range int64(n) {
			r := &chain.Record{Index: first + i}
			if err := l.record(l.runs[0], r, leafOf(r.Index), func() bool { return true }); err != nil {
				t.Fatal(err)
			}
		}
		var failed *failure
		for _, at := range openings {
			if err := l.opening(l.runs[0], first+at, frontiers[at]); err != nil && !errors.As(err, &failed) {
				t.Fatal(err)
			}
		}
		if failed == nil || failed.code != Repeated {
			t.Errorf("openings at %v: %v", openings, failed)
		}
	}
}
