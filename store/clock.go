package store

import (
	"context"
	"fmt"
	"time"

	"attestd/chain"
)

// maxGap is how many years after the newest time in the file nothing is written any more: a clock
// that far ahead is wrong more often than the file is old, and the times of a chain never go back.
const maxGap = 10

// ClockAhead is by how much a clock is ahead of that of the database's server, which several
// servers share, and how exact that is. Of a file it is nothing.
func (s *Store) ClockAhead(ctx context.Context, clock func() time.Time) (ahead, within time.Duration, err error) {
	if !s.isPostgres {
		return 0, 0, nil
	}
	err = s.read(ctx, func(c *conn) error {
		var at int64
		before := clock()
		if err := c.one([]any{&at}, `SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`); err != nil {
			return err
		}
		within = clock().Sub(before) / 2
		ahead = before.Add(within).Sub(time.UnixMicro(at))
		return nil
	})
	return ahead, within, err
}

// clock guards the file against a wrong clock. The writer owns it.
type clock struct {
	known  bool   // newest holds the times of the file
	newest string // "" when there is none
}

// advance makes a time count that is in the file, or that somebody vouches for.
func (k *clock) advance(now time.Time) { k.newest = max(k.newest, chain.FormatTime(now)) }

// check refuses a time too long after the newest one: ErrClock.
func (k *clock) check(c *conn, now time.Time) error {
	if !k.known {
		found, err := newest(c)
		if err != nil {
			return err
		}
		k.newest, k.known = max(k.newest, found), true
	}
	if k.newest != "" && chain.FormatTime(now.AddDate(-maxGap, 0, 0)) >= k.newest {
		return fmt.Errorf("%w: it says %s, and the newest time in the file is %s", ErrClock, chain.FormatTime(now), k.newest)
	}
	return nil
}
