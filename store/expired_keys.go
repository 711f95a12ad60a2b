package store

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"attestd/store/db"
)

// keysPage is the number of idempotency keys that one read looks at.
const keysPage = 1024

// RetryKeys deletes idempotency keys that have expired, also of companies that append with no new
// ones; see keySweep. It goes over the whole table, which has no index by time.
func (s Expired) RetryKeys(ctx context.Context, w Sweep) error {
	return s.sweep(ctx, "idempotency keys", w, func(now time.Time) error {
		ended := now.UnixMilli()
		from, more := keyPlace{chain: math.MinInt64, name: []byte{}}, true
		for more {
			began := time.Now()
			var to keyPlace
			var expired int
			err := s.db.Read(ctx, func(c *db.Conn) (err error) {
				to, expired, more, err = expiredKeys(c, from, ended)
				return err
			})
			if err == nil && expired > 0 {
				_, err = s.step(ctx, w, KindRetryKey, began, `DELETE FROM idempotency_key WHERE (chain, name) > (?, ?) AND (chain, name) <= (?, ?)
					AND expires_at <= ?`, from.chain, from.name, to.chain, to.name, ended)
			} else if err == nil {
				err = w.Pace.rest(ctx, began)
			}
			if err != nil {
				return err
			}
			from = to
		}
		return nil
	})
}

// keyPlace is a row of the table idempotency_key.
type keyPlace struct {
	chain   int64
	name    []byte
	expires int64
}

func scanKeyPlace(rows *sql.Rows) (p keyPlace, err error) {
	err = rows.Scan(&p.chain, &p.name, &p.expires)
	return p, err
}

// expiredKeys looks at the keys after a place, keysPage at most, and no more than sweepRows of them
// that have expired. to is the last one that it has looked at.
func expiredKeys(c *db.Conn, from keyPlace, ended int64) (to keyPlace, expired int, more bool, err error) {
	page, err := db.All(c, scanKeyPlace, fmt.Sprintf(`SELECT chain, name, expires_at FROM idempotency_key WHERE (chain, name) > (?, ?)
		ORDER BY chain, name LIMIT %d`, keysPage), from.chain, from.name)
	to = from
	for i, p := range page {
		if to = p; p.expires <= ended {
			expired++
		}
		if expired == sweepRows || i == keysPage-1 {
			return to, expired, true, err
		}
	}
	return to, expired, false, err
}
