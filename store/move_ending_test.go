package store_test

import (
	"errors"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/storetest"
)

// PostgreSQL lists the connections of a process for a moment after its end. A move waits for that;
// connections that stay longer mean that the database is served.
func TestMoveWaitsForConnectionsThatEnd(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain, testenv.NotRaced)
	storetest.NotOnPostgres(t, "moves between both engines in any case")
	bothEngines(t)
	t.Parallel()
	path, _ := sample(t)
	url := storetest.Shared(t)
	got(move(t, path, url))(t)
	must.OK(t, stranger(t, url, "INSERT INTO writer (started_at, touched) VALUES ('', now() - interval '61 seconds')").Close())

	stays := stranger(t, url+"&application_name=attestd", "SELECT 1")
	if _, err := move(t, url, target(t)); !errors.Is(err, store.ErrInUse) {
		t.Errorf("while somebody is connected: %v", err)
	}
	time.AfterFunc(500*time.Millisecond, func() { stays.Close() })
	got(move(t, url, target(t)))(t)
}
