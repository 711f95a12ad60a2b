package store_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"sync"
	"sync/atomic"
	"testing"

	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/storetest"
)

// dutiful is a server that competes for a duty.
type dutiful struct {
	took, lost chan struct{}
	stop       func()
}

func atDuty(t *testing.T, s *store.Store) *dutiful {
	d := &dutiful{took: make(chan struct{}, 8), lost: make(chan struct{}, 8)}
	running, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Duty(running, "webhooks", func() { d.took <- struct{}{} }, func() { d.lost <- struct{}{} })
	}()
	d.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	t.Cleanup(d.stop)
	return d
}

// One server at a time has a duty. Another server takes it over when the first gives it up or does
// not renew it; a server that finds another one in its place has lost the duty.
func TestDutyHasOneServer(t *testing.T) {
	testenv.Concurrent(t)
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	url := storetest.Shared(t)
	a := atDuty(t, openWith(t, url, store.RunOptions{}))
	<-a.took
	b := atDuty(t, openWith(t, url, store.RunOptions{}))
	select {
	case <-b.took:
		t.Fatal("both have it")
	case <-a.took:
		t.Fatal("taken twice")
	default:
	}
	a.stop()
	<-b.took

	db := connectPG(t, url)
	_, err := db.Exec(`UPDATE duty SET holder = 'one that has stopped', until = now() + interval '3 seconds'`)
	must(t, err)
	<-b.lost
	<-b.took // the first server never gave it up
}

// The only server of a file has every duty at once.
func TestSQLiteServerHasAllDuties(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	<-atDuty(t, s).took
}

// Several servers together never count more than the budget, at any pace.
func TestServersShareABudget(t *testing.T) {
	testenv.Concurrent(t)
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	url := storetest.Shared(t)
	servers := []*store.Store{openWith(t, url, store.RunOptions{}), openWith(t, url, store.RunOptions{})}
	account := sha256.Sum256([]byte("an account"))
	var admitted atomic.Int64
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			spent, err := servers[i%2].Spend(ctx, account, 10)
			if err != nil || !spent.Counted || spent.Left < 0 || spent.Frees <= 0 {
				t.Errorf("%+v, %v", spent, err)
			}
			if spent.OK {
				admitted.Add(1)
			}
		})
	}
	all.Wait()
	if n := admitted.Load(); n != 10 {
		t.Errorf("%d calls of 10", n)
	}
	if spent, err := servers[0].Spend(ctx, sha256.Sum256(nil), 10); err != nil || !spent.OK || spent.Left != 9 {
		t.Errorf("another account: %+v, %v", spent, err)
	}

	// The window slides: use of more than a minute ago no longer counts.
	db := connectPG(t, url)
	_, err := db.Exec(`UPDATE budget SET spent = ARRAY (SELECT at - interval '61 seconds' FROM unnest(spent[1:4]) AS at) || spent[5:10]`)
	must(t, err)
	fresh := openWith(t, url, store.RunOptions{}) // this server has refused nobody yet
	for i := range 5 {
		spent, err := fresh.Spend(ctx, account, 10)
		if err != nil || spent.OK != (i < 4) {
			t.Errorf("call %d: %+v, %v", i, spent, err)
		}
	}
}

// connectPG opens a connection that is independent of the store.
func connectPG(t *testing.T, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", url)
	must(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}
