package pgtest_test

import (
	"context"
	"testing"

	"attestd/internal/testenv"
	"attestd/store/postgres/pgtest"
)

// Everything that was acknowledged before the primary ended, by SIGKILL or by shutdown, is present
// after the promotion and after the rebuild. The cluster is then complete again, so the end of the
// next primary loses nothing either.
func TestClusterLosesNothingAcknowledged(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick)
	c := pgtest.NewCluster(t)
	execute(t, connect(t, c.URL()), "CREATE TABLE written (n int)")
	rows := 0
	for _, end := range []func(){c.Kill, c.Stop, c.Kill} {
		writing, acknowledged := write(t, c.URL())
		<-writing
		end()
		rows += <-acknowledged
		c.Promote()
		before := count(t, c.URL())
		if before < rows {
			t.Fatalf("%d rows were acknowledged, and %d are there", rows, before)
		}
		c.Rebuild()
		// The last row may have been written although its answer was lost.
		if rows = count(t, c.URL()); rows != before {
			t.Fatalf("%d rows were there before the rebuilding, and %d after it", before, rows)
		}
	}
}

// The commits of a cluster are synced and wait for the standby.
func TestClusterIsSynchronous(t *testing.T) {
	c := pgtest.NewCluster(t)
	var synchronous bool
	if err := connect(t, c.URL()).QueryRow(t.Context(), `SELECT current_setting('fsync') = 'on' AND current_setting('synchronous_commit') = 'on'
		AND (SELECT array_agg(sync_state) = ARRAY['sync'] FROM pg_stat_replication)`).Scan(&synchronous); err != nil || !synchronous {
		t.Fatal(synchronous, err)
	}
}

// write inserts rows until that fails. It sends a value when some are written, and then the number
// of acknowledged rows.
func write(t *testing.T, url string) (writing chan struct{}, acknowledged chan int) {
	t.Helper()
	db := connect(t, url)
	writing, acknowledged = make(chan struct{}), make(chan int, 1)
	go func() {
		n := 0
		for {
			if _, err := db.Exec(context.Background(), "INSERT INTO written VALUES (1)"); err != nil {
				break
			}
			if n++; n == 50 {
				close(writing)
			}
		}
		if n < 50 {
			close(writing)
		}
		acknowledged <- n
	}()
	return writing, acknowledged
}

func count(t *testing.T, url string) (rows int) {
	t.Helper()
	db := connect(t, url)
	if err := db.QueryRow(t.Context(), "SELECT count(*) FROM written").Scan(&rows); err != nil {
		t.Fatal(err)
	}
	return rows
}
