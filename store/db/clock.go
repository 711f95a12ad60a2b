package db

import (
	"context"
	"fmt"
	"time"

	"attestd/chain"
)

// maxGap is the number of years after the newest time in the file from which writes are refused. A
// clock that far ahead is more likely wrong than the file is old, and the times of a chain never go
// back.
const maxGap = 10

// ClockAhead returns by how much a clock is ahead of the database server's clock, which several
// servers share, and the uncertainty of the measurement. Both are zero for a file.
func (d *DB) ClockAhead(ctx context.Context, clock func() time.Time) (ahead, within time.Duration, err error) {
	if !d.isPostgres {
		return 0, 0, nil
	}
	err = d.Read(ctx, func(c *Conn) error {
		var at int64
		before := clock()
		if err := c.One([]any{&at}, `SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`); err != nil {
			return err
		}
		within = clock().Sub(before) / 2
		ahead = before.Add(within).Sub(time.UnixMicro(at))
		return nil
	})
	return ahead, within, err
}

// Clock protects the file from a wrong clock. The writer owns it.
type Clock struct {
	Known  bool   // newest includes the times in the file
	Newest string // "" for none
}

// Advance adds a time that is in the file, or that the operator has confirmed.
func (k *Clock) Advance(now time.Time) { k.Newest = max(k.Newest, chain.FormatTime(now)) }

// Check returns ErrClock for a time more than maxGap years after the newest one.
func (k *Clock) Check(c *Conn, now time.Time) error {
	if !k.Known {
		found, err := newest(c)
		if err != nil {
			return err
		}
		k.Newest, k.Known = max(k.Newest, found), true
	}
	return checkGap(now, k.Newest)
}

func checkGap(now time.Time, newest string) error {
	if newest != "" && chain.FormatTime(now.AddDate(-maxGap, 0, 0)) >= newest {
		return fmt.Errorf("%w: it says %s, and the newest time in the file is %s", ErrClock, chain.FormatTime(now), newest)
	}
	return nil
}

// CheckClock compares a time with the newest one in the database, which it returns; "" for none. It
// returns ErrClock for a time at which a server would refuse to write.
func (d *DB) CheckClock(ctx context.Context, now time.Time) (at string, err error) {
	err = d.Read(ctx, func(c *Conn) error {
		at, err = newest(c)
		return err
	})
	if err == nil {
		err = checkGap(now, at)
	}
	return at, err
}
