package ledger

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"attestd/chain/search"
	"attestd/store/db"
)

// SizeAt returns how many of the first size records of a chain have a timestamp before a time, in
// the format of the API. The timestamps of a chain never decrease. A missing record is a
// *search.DamageError.
func (v *View) SizeAt(ctx context.Context, number, size int64, at string) (before int64, err error) {
	err = v.Read(ctx, func(r *db.Conn) error {
		before = int64(sort.Search(int(size), func(i int) bool {
			var of string
			if err == nil {
				err = r.One([]any{&of}, `SELECT timestamp FROM record WHERE id = ?`, db.RecordID(number, int64(i)))
				if errors.Is(err, db.ErrNotFound) {
					err = &search.DamageError{Index: int64(i), Cause: errors.New("it is missing")}
				}
			}
			return of >= at
		}))
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("size of chain %d at %s: %w", number, at, err)
	}
	return before, nil
}
