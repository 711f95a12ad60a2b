package jobs

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"attestd/store"
)

// Companies that cannot be counted are not known: neither zero nor what they were.
func TestCompaniesThatCannotBeCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var fails atomic.Bool
		c := NewCompanyCount(func(ctx context.Context) (store.Usage, error) {
			if fails.Load() {
				<-ctx.Done() // the database hangs
				return store.Usage{}, ctx.Err()
			}
			return store.Usage{Companies: 7}, nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		synctest.Wait()
		if u := c.Status(); u == nil || u.Companies != 7 {
			t.Errorf("at the start: %+v", u)
		}
		fails.Store(true)
		time.Sleep(countEvery + countTimeout + time.Second)
		synctest.Wait()
		if u := c.Status(); u != nil {
			t.Errorf("while the database hangs: %+v", u)
		}
		fails.Store(false)
		c.Recount()
		time.Sleep(countEvery + countTimeout + time.Second)
		synctest.Wait()
		if u := c.Status(); u == nil || u.Companies != 7 {
			t.Errorf("after it: %+v", u)
		}
		cancel()
		<-ended
	})
}
