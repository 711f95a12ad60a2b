package store_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/storetest"
)

// The server measures the difference between its clock and the database's clock in either
// direction.
func TestClockIsComparedWithDatabase(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := openWith(t, storetest.Shared(t), store.RunOptions{})
	for _, wrong := range []time.Duration{0, 300 * time.Second, -300 * time.Second} {
		ahead, within, err := s.ClockAhead(ctx, func() time.Time { return time.Now().Add(wrong) })
		must.OK(t, err)
		if off := (ahead - wrong).Abs(); off > within+time.Millisecond || within > 5*time.Second {
			t.Errorf("a clock that is %v ahead: %v, within %v", wrong, ahead, within)
		}
	}
	path := storetest.New(t)
	if storetest.OnPostgres() {
		return
	}
	if ahead, _, err := open(t, path).ClockAhead(ctx, time.Now); ahead != 0 || err != nil {
		t.Errorf("a file: %v, %v", ahead, err)
	}
}

// A database whose sessions fire no triggers is not served, and verification gives the reason.
func TestDatabaseWithDisabledTriggersIsRefused(t *testing.T) {
	t.Parallel()
	url := storetest.Shared(t)
	s := openWith(t, url, store.RunOptions{})
	c, _ := company(t, s, "acme")
	attest(t, s, c, 3)
	must.OK(t, s.Close())
	name, _, _ := strings.Cut(url[strings.LastIndexByte(url, '/')+1:], "?")
	db := got(sql.Open("pgx", url))(t)
	defer db.Close()
	_, err := db.Exec("ALTER DATABASE " + name + " SET session_replication_role = replica")
	must.OK(t, err)
	if err := opened(store.Open(ctx, url, "", store.Options{Master: master()})); !errors.Is(err, store.ErrRefused) || !strings.Contains(err.Error(), "session_replication_role is replica") {
		t.Errorf("served: %v", err)
	}
	r := got(store.OpenReadOnly(ctx, url))(t)
	defer r.Close()
	if err := r.Check(ctx, ""); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), "no guard fires in the sessions of every role in this database") {
		t.Errorf("verified: %v", err)
	}
}
