package store_test

import (
	"database/sql"
	"errors"
	"sync"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/postgres/pgtest"
)

// While the standby receives nothing, no append is acknowledged and none can be read, even if an
// operator cancels the wait of the backend, which PostgreSQL reports as a success with a warning.
// The append waits on or ends with an unknown outcome. When the standby is back, each record exists
// at most once, and appending resumes.
func TestNothingIsAcknowledgedWithoutStandby(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	var cases sync.WaitGroup // both at once, because they only wait
	defer cases.Wait()
	for _, canceled := range []bool{false, true} {
		cases.Go(func() { appendWithoutStandby(t, canceled) })
	}
}

func appendWithoutStandby(t *testing.T, canceled bool) {
	cluster := pgtest.NewCluster(t)
	servers := []*store.Store{openWith(t, cluster.URL(), store.RunOptions{}), openWith(t, cluster.URL(), store.RunOptions{})}
	c, _ := company(t, servers[0], "acme")
	attest(t, servers[0], c, 3)
	db := got(sql.Open("pgx", cluster.URL()))(t)
	defer db.Close()
	cluster.HaltStandby()
	answers := make(chan error)
	go func() {
		_, err := servers[0].Append(ctx, draft(c))
		answers <- err
	}()
	const waiting = `FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE 'WITH mine%'`
	for n := 0; n == 0; {
		must.OK(t, db.QueryRow("SELECT count(*) "+waiting).Scan(&n))
	}
	if canceled {
		_, err := db.Exec("SELECT pg_cancel_backend(pid) " + waiting)
		must.OK(t, err)
	}
	if err := <-answers; !errors.Is(err, store.ErrUnknown) {
		t.Errorf("canceled %v: the answer was %v", canceled, err)
	}
	if n := length(t, servers[1], c); !canceled && n != 3 {
		t.Errorf("%d records are seen, and the standby has 3", n)
	}
	cluster.ResumeStandby()
	attest(t, servers[0], c, 1)
	attest(t, servers[1], c, 1)
	if n := length(t, servers[1], c); n != 5 && n != 6 {
		t.Errorf("canceled %v: %d records", canceled, n)
	}
	must.OK(t, servers[1].VerifyAll(ctx, "", 2, nil, nil))
}
