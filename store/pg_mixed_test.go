package store_test

import (
	"database/sql"
	"fmt"
	"sync"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/storetest"
)

// Row changes and appends to many chains run on several servers at once: each is carried out, and
// every chain verifies. Transactions that deadlock are repeated.
func TestChangesAndAppendsOfManyCompanies(t *testing.T) {
	testenv.Concurrent(t)
	testenv.Needs(t, testenv.NotQuick, testenv.Plain)
	t.Parallel()
	const each = 60
	database := storetest.Shared(t)
	servers := []*store.Store{openWith(t, database, store.RunOptions{}), openWith(t, database, store.RunOptions{})}
	var companies []*store.Company
	for i := range 8 {
		c, _ := company(t, servers[0], fmt.Sprint("acme", i))
		companies = append(companies, c)
	}
	var callers sync.WaitGroup
	for i := range 32 {
		s, c := servers[i%2], companies[i/2%8]
		callers.Go(func() {
			for n := range each {
				var err error
				if i < 8 {
					_, err = s.Agents.Register(ctx, by(c, now), fmt.Sprint("bot", i, "-", n), nil, many)
				} else {
					_, err = s.Append(ctx, draft(c))
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	must.OK(t, servers[0].VerifyAll(ctx, "", 2, nil, nil))
	db := got(sql.Open("pgx", database))(t)
	defer db.Close()
	var deadlocks, records int64
	must.OK(t, db.QueryRow("SELECT (SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()), (SELECT sum(length) FROM head)").Scan(&deadlocks, &records))
	t.Logf("%d records, %d circles", records, deadlocks)
	// These are the control logs of the companies, and the log of the companies.
	if made := int64(3*len(companies) + 1); records != made+32*each {
		t.Errorf("%d records", records)
	}
}
