package store_test

import (
	"fmt"
	"sync"
	"testing"

	"attestd/store"
	"attestd/store/postgres/pgtest"
)

// Two servers write one chain at the same time: it has no gap, both read all of it, and it verifies.
func TestTwoServersOneChain(t *testing.T) {
	t.Parallel()
	const callers, each = 16, 50
	url := pgtest.Database(t)
	servers := []*store.Store{openWith(t, url, store.RunOptions{}), openWith(t, url, store.RunOptions{})}
	c, _ := company(t, servers[0], "acme")
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for n := range each {
				d := draft(c)
				d.Payload = fmt.Appendf(nil, `{"caller":%d,"n":%d}`, i, n)
				d.Canonical = d.Payload
				if _, err := servers[i%2].Append(ctx, d); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for _, s := range servers {
		must(t, s.VerifyAll(ctx, "", 2, nil, nil))
		if n := length(t, s, c); n != callers*each {
			t.Errorf("length %d", n)
		}
	}
}
