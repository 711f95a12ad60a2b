package store_test

import (
	"testing"
	"time"

	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/postgres/pgtest"
)

// While 16 callers append to one chain on two servers, the primary is stopped, in turn by shutdown
// and by SIGKILL, and its standby is promoted. No acknowledged record is lost, there is no gap and
// no duplicate, and no answer was wrong. Appending resumes without intervention.
func TestFailover(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	rounds := 2
	if testenv.Night() {
		rounds = 20
	}
	cluster := pgtest.NewCluster(t)
	servers := []*store.Store{openWith(t, cluster.URL(), store.RunOptions{}), openWith(t, cluster.URL(), store.RunOptions{})}
	c, _ := company(t, servers[0], "acme")
	l := newLoad(c, servers...)
	l.run(t, 16)
	const slow = 15 * time.Second // no answer takes longer, however busy the machine is
	for round := range rounds {
		l.await(t, 200)
		if round%2 == 0 {
			cluster.Kill()
		} else {
			cluster.Stop()
		}
		cluster.Promote()
		resumed := l.await(t, 1)
		t.Logf("round %d: appends resumed %v after the promotion", round, resumed)
		if resumed > slow {
			t.Errorf("round %d: appends resumed only %v after the promotion", round, resumed)
		}
		l.await(t, 200)
		cluster.Rebuild()
	}
	l.stop()
	l.check(t, servers[0])
}
