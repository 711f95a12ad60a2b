package export

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	"attestd/chain"
)

// Start is where the export of a log begins that has no position yet. The zero Start is the first
// record.
type Start struct {
	Now bool      // behind the last record that there is
	At  time.Time // at the first record of this time or later
}

// begin returns the position at which the export of a log begins, and saves it, so that a later
// start goes on from there. The log's opening line says where that is, and proves it.
func (e *Exporter) begin(ctx context.Context, l Log) (at Position, err error) {
	index, err := e.startOf(ctx, l)
	if err != nil || index == 0 {
		return at, err
	}
	if at.Frontier, err = e.Source.Frontier(ctx, l, index); err != nil {
		return at, err
	}
	at.Previous = index
	return at, e.Cursors.Save(map[Log]Position{l: at})
}

// startOf returns the index of the first record of a log that is exported.
func (e *Exporter) startOf(ctx context.Context, l Log) (int64, error) {
	size, err := e.Source.Size(ctx, l)
	if err != nil || e.From.Now {
		return size, err
	}
	at := chain.FormatTime(e.From.At)
	found := sort.Search(int(size), func(i int) bool { // times never go back
		if err != nil {
			return true
		}
		var recorded string
		err = e.Source.Records(ctx, l, int64(i), int64(i)+1, func(r *chain.Record) error {
			recorded = r.Timestamp
			return nil
		})
		if err == nil && recorded == "" {
			err = fmt.Errorf("record %d is missing", i)
		}
		return recorded >= at
	})
	return int64(found), err
}

// isNew reports whether a log has no position.
func (p Position) isNew() bool { return p.Frontier.Size == 0 && p.Previous == 0 }

// ErrBegun means that an export has a position already, so that a Start would change nothing.
var ErrBegun = errors.New("the export has begun already")
