package store_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/db"
	"attestd/store/storetest"
)

// dutiful is a server that competes for a duty.
type dutiful struct {
	took chan *db.Held
	lost chan struct{}
	stop func()
}

func atDuty(t *testing.T, s *store.Store) *dutiful {
	d := &dutiful{took: make(chan *db.Held, 8), lost: make(chan struct{}, 8)}
	running, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Duty(running, "webhooks", func(h *db.Held) { d.took <- h }, func() { d.lost <- struct{}{} })
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

	conn := connectPG(t, url)
	_, err := conn.Exec(`UPDATE duty SET holder = 'one that has stopped', until = now() + interval '3 seconds'`)
	must.OK(t, err)
	<-b.lost
	<-b.took // the first server never gave it up
}

// A server that was halted asks the database before it does what another one may do now, and has
// lost the duty, also where the other one has ended meanwhile, so that the row says again who had
// it first. What it saves of its progress then changes nothing, nor does what it saves later.
func TestHaltedServerKnowsThatItLostItsDuty(t *testing.T) {
	testenv.Concurrent(t)
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	url := storetest.Shared(t)
	var steady atomic.Int64 // a clock of this machine
	s := openWith(t, url, store.RunOptions{Steady: func() time.Duration { return time.Duration(steady.Load()) }})
	acme, _ := company(t, s, "acme")
	a := atDuty(t, s)
	held := <-a.took
	conn := connectPG(t, url)
	number := acme.Actions.Chain
	w := got(s.Webhooks.Create(ctx, by(acme, time.Now()), store.Webhook{URL: "https://hooks.example.com/"}, webhookSecret(), 2))(t)
	save := func(h *db.Held, at int64) error {
		must.OK(t, s.Webhooks.SaveProgress(ctx, h, map[string]store.Progress{w.ID: {Next: at}}))
		must.OK(t, s.Calls.SaveNext(ctx, h, map[int64]int64{number: at}))
		return s.SaveExportPositions(ctx, h, "x", map[int64]string{number: fmt.Sprint(at)})
	}
	is := func(want int64) {
		t.Helper()
		var progress, next int64
		must.OK(t, conn.QueryRow(`SELECT next_record FROM webhook`).Scan(&progress))
		must.OK(t, conn.QueryRow(`SELECT next_record FROM call_watch`).Scan(&next))
		position, err := s.ExportPosition(ctx, "x", number)
		must.OK(t, err)
		if progress != want || next != want || position != fmt.Sprint(want) {
			t.Errorf("progress %d, calls %d, export %s; want %d", progress, next, position, want)
		}
	}
	must.OK(t, held.Check(ctx))
	must.OK(t, save(held, 7))
	is(7)
	must.OK(t, save(held, 9))
	is(9)

	// Another server, of this version or of the one before, takes over from one that is halted.
	for _, takesOver := range []string{
		`UPDATE duty SET holder = 'another', until = now() + interval '1 hour', run = 'another'`,
		`INSERT INTO duty (name, holder, until) VALUES ('webhooks', 'another', now() + interval '1 hour')
			ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until`,
	} {
		if _, err := conn.Exec(takesOver); err != nil {
			t.Fatal(err)
		}
		steady.Add(int64(5 * time.Second))
		if err := held.Check(ctx); !errors.Is(err, db.ErrDutyLost) {
			t.Fatalf("when it wakes: %v", err)
		}
		<-a.lost // at once, without waiting for the next renewal
		if err := save(held, 3); !errors.Is(err, db.ErrDutyLost) {
			t.Errorf("a position of before: %v", err)
		}
		is(9)
		// it ends, and the first one has the duty again: as another run
		if _, err := conn.Exec(`DELETE FROM duty`); err != nil {
			t.Fatal(err)
		}
		again := <-a.took
		if again.Run() == held.Run() || again.Run() == "" {
			t.Errorf("the same run: %q", again.Run())
		}
		if err := save(held, 3); !errors.Is(err, db.ErrDutyLost) {
			t.Errorf("of the run before: %v", err)
		}
		if err := held.Check(ctx); !errors.Is(err, db.ErrDutyLost) {
			t.Errorf("the run before: %v", err)
		}
		must.OK(t, again.Check(ctx))
		must.OK(t, save(again, 9))
		is(9)
		held = again
	}

	// The row says that this server has the duty, of another run: it was lost in between.
	if _, err := conn.Exec(`UPDATE duty SET run = 'between'`); err != nil {
		t.Fatal(err)
	}
	steady.Add(int64(5 * time.Second))
	if err := held.Check(ctx); !errors.Is(err, db.ErrDutyLost) {
		t.Errorf("another run of this server: %v", err)
	}
}

// The only server of a file has every duty at once.
func TestSQLiteServerHasAllDuties(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	held := <-atDuty(t, s).took
	must.OK(t, held.Check(ctx))
	if held.Run() == "" {
		t.Error("the run has no name")
	}
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
	conn := connectPG(t, url)
	_, err := conn.Exec(`UPDATE budget SET spent = ARRAY (SELECT at - interval '61 seconds' FROM unnest(spent[1:4]) AS at) || spent[5:10]`)
	must.OK(t, err)
	fresh := openWith(t, url, store.RunOptions{}) // this server has refused no caller yet
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
	conn, err := sql.Open("pgx", url)
	must.OK(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}
