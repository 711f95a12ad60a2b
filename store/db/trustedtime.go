package db

import (
	"context"
	"errors"
	"fmt"
	"time"

	"attestd/chain"
)

// ErrClockLeapt means that the wall clock has leapt ahead while this process was running, and is
// not trusted yet.
var ErrClockLeapt = errors.New("the clock has leapt ahead, and is not trusted for a day")

// TrustedTime returns the time by which rows have ended, and payloads are old, when the clock says
// wall; see KeyClock. What is deleted by it does not come back, so it is never later than the wall
// clock, nor on PostgreSQL than the clock of the database, and after a leap there is none:
// errClockLeapt.
func (d *DB) TrustedTime(ctx context.Context, wall time.Time) (now time.Time, err error) {
	if d.keyClock == nil {
		return wall, ErrReadOnly
	}
	err = d.Read(ctx, func(c *Conn) (err error) {
		var leapt bool
		now, leapt, err = d.keyClock.Now(c, wall)
		if err == nil && leapt {
			err = fmt.Errorf("%w: it says %s", ErrClockLeapt, chain.FormatTime(wall))
		}
		if err != nil || !d.isPostgres {
			return err
		}
		var theirs int64
		if err := c.One([]any{&theirs}, `SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint`); err != nil {
			return err
		}
		if at := time.UnixMilli(theirs); at.Before(now) {
			now = at
		}
		return nil
	})
	return now, err
}
