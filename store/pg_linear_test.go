package store_test

import (
	"fmt"
	"testing"

	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/postgres/pgtest"
)

// A chain that several servers write is a single list for all writers and readers on all servers:
// contiguous, valid and linearizable. This also holds if the network of a server fails now and
// then.
func TestSeveralServersWriteOneList(t *testing.T) {
	testenv.Concurrent(t)
	testenv.Needs(t, testenv.NotQuick, testenv.Plain)
	t.Parallel()
	for _, servers := range []int{2, 3} {
		t.Run(fmt.Sprint(servers, " servers"), func(t *testing.T) {
			t.Parallel()
			database := pgtest.Database(t)
			bad, url := through(t, database)
			urls := []string{database, url, database}[:servers]
			var all []*store.Store
			for _, u := range urls {
				all = append(all, openWith(t, u, store.RunOptions{}))
			}
			c, _ := company(t, all[0], "acme")
			l := newLoad(c, all...)
			l.run(t, 8*servers)
			rounds := 10
			if testenv.Night() {
				rounds = 150
			}
			for n := range rounds {
				l.await(t, 50)
				bad.cut(fromServer, int64(n*37%500))
				l.await(t, 50)
				bad.heal()
			}
			l.stop()
			l.check(t, all[0])
		})
	}
}
