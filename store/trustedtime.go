package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"attestd/chain"
)

// errClockLeapt means that the wall clock has leapt ahead while this process was running, and is
// not trusted yet.
var errClockLeapt = errors.New("the clock has leapt ahead, and is not trusted for a day")

// trustedTime returns the time by which rows have ended, and payloads are old, when the clock says
// wall; see keyClock. What is deleted by it does not come back, so it is never later than the wall
// clock, nor on PostgreSQL than the clock of the database, and after a leap there is none:
// errClockLeapt.
func (s *Store) trustedTime(ctx context.Context, wall time.Time) (now time.Time, err error) {
	if s.writer == nil {
		return wall, errReadOnly
	}
	err = s.read(ctx, func(c *conn) (err error) {
		var leapt bool
		now, leapt, err = s.writer.keyClock.now(c, wall)
		if err == nil && leapt {
			err = fmt.Errorf("%w: it says %s", errClockLeapt, chain.FormatTime(wall))
		}
		if err != nil || !s.isPostgres {
			return err
		}
		var theirs int64
		if err := c.one([]any{&theirs}, `SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint`); err != nil {
			return err
		}
		if at := time.UnixMilli(theirs); at.Before(now) {
			now = at
		}
		return nil
	})
	return now, err
}
