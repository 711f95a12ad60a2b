package store_test

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/headfile"
	"attestd/store/postgres/pgtest"
	"attestd/store/storetest"
)

// headed is a server on a PostgreSQL database with its own head file.
type headed struct {
	*store.Store
	url, heads string
	went       chan int64 // the number of chains whose streams were ended
}

func openHeaded(t *testing.T, url string) *headed {
	t.Helper()
	h := &headed{url: url, heads: filepath.Join(t.TempDir(), "heads"), went: make(chan int64, 1000)}
	h.Store = got(store.Open(ctx, url, "", store.Options{Master: master(), Heads: h.heads}))(t)
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	go h.Run(ctx, store.RunOptions{Log: log, WentBack: func(number int64) { h.went <- number }})
	t.Cleanup(func() { h.Close() })
	must.OK(t, h.Ready(ctx))
	return h
}

// stops waits until the server refuses all writes because of a rollback, and demands that it names
// the head file as the reason, now and after a restart.
func (h *headed) stops(t *testing.T, why string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := h.Ready(ctx)
		if errors.Is(err, store.ErrRolledBack) {
			if !strings.Contains(err.Error(), why) {
				t.Errorf("%v does not say %q", err, why)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("writes go on: %v", err)
		}
	}
	_ = h.Close() // its connection may be lost
	r := got(store.OpenReadOnly(ctx, h.url))(t)
	if err := r.Rollback.Check(ctx, h.heads); !errors.Is(err, store.ErrRolledBack) {
		t.Errorf("the head file has forgotten what was lost: %v", err)
	}
	must.OK(t, r.Close())
	s := got(store.Open(ctx, h.url, "", store.Options{Master: master(), Heads: h.heads}))(t)
	go s.Run(ctx, store.RunOptions{})
	if err := s.Ready(ctx); !errors.Is(err, store.ErrRolledBack) {
		t.Errorf("the next start writes: %v", err)
	}
	must.OK(t, s.Close())
}

// accepts accepts the rollback; the server must then write again.
func (h *headed) accepts(t *testing.T, company string) {
	t.Helper()
	got(admin.AcceptRollback(ctx, h.url, "", admin.AcceptOptions{Heads: h.heads, Reason: "a test", Master: master()}))(t)
	s := got(store.Open(ctx, h.url, "", store.Options{Master: master(), Heads: h.heads}))(t)
	go s.Run(ctx, store.RunOptions{})
	attest(t, s, got(s.Companies.Get(ctx, company))(t), 3)
	must.OK(t, s.Close())
	r := got(store.OpenReadOnly(ctx, h.url))(t)
	must.OK(t, r.Rollback.Check(ctx, h.heads))
	must.OK(t, r.Close())
}

// copyOf copies a database under running servers, and swapIn replaces the database with such a
// copy, as a failover or a recovery does: all connections are lost, and new ones reach the copy.
func copyOf(t *testing.T, name string) string {
	t.Helper()
	var to string
	barred(t, name, func(admin *sql.DB, of string) {
		to = of + "_copy"
		_, err := admin.Exec("CREATE DATABASE " + to + " TEMPLATE " + of)
		must.OK(t, err)
	})
	u := got(url.Parse(name))(t)
	u.Path = to
	return u.String()
}

func swapIn(t *testing.T, name, by string) {
	t.Helper()
	barred(t, name, func(admin *sql.DB, of string) {
		_, err := admin.Exec("ALTER DATABASE " + of + " RENAME TO " + of + "_old")
		must.OK(t, err)
		_, err = admin.Exec("ALTER DATABASE " + strings.TrimPrefix(got(url.Parse(by))(t).Path, "/") + " RENAME TO " + of)
		must.OK(t, err)
	})
	t.Cleanup(func() {
		barred(t, name, func(admin *sql.DB, of string) {
			_, err := admin.Exec("DROP DATABASE " + of + "_old WITH (FORCE)")
			must.OK(t, err)
		})
	})
}

// barred calls fn while a database has no connections and refuses new ones.
func barred(t *testing.T, name string, fn func(admin *sql.DB, of string)) {
	t.Helper()
	u := got(url.Parse(name))(t)
	of := strings.TrimPrefix(u.Path, "/")
	u.Path = "postgres"
	admin := got(sql.Open("pgx", u.String()))(t)
	defer admin.Close()
	_, err := admin.Exec("ALTER DATABASE " + of + " ALLOW_CONNECTIONS false")
	must.OK(t, err)
	_, err = admin.Exec("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '" + of + "'")
	must.OK(t, err)
	fn(admin, of)
	_, err = admin.Exec("UPDATE pg_database SET datallowconn = true WHERE datname LIKE '" + of + "%'")
	must.OK(t, err)
}

// The primary ends, and the promoted standby lags behind, so acknowledged records are lost. Every
// server that has written or seen them stops all writes, and its head file keeps the reason until
// the rollback is accepted, even if another server has continued to write at once.
func TestFailoverToAStandbyThatLags(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	cluster := pgtest.NewCluster(t)
	writes, sees := openHeaded(t, cluster.URL()), openHeaded(t, cluster.URL())
	acme, _ := company(t, writes.Store, "acme")
	attest(t, writes.Store, acme, 20)
	cluster.Detach()
	attest(t, writes.Store, acme, 30)
	time.Sleep(500 * time.Millisecond) // the other server looks ten times a second
	cluster.Kill()
	cluster.Promote()
	forks := openWith(t, cluster.URL(), store.RunOptions{})
	for range 40 {
		_, err := forks.Append(ctx, saying(acme, `{"after":"the failover"}`))
		must.OK(t, err)
	}
	writes.stops(t, "was known at size 50")
	sees.stops(t, "was known at size 50")
	writes.accepts(t, "acme")
	sees.accepts(t, "acme")
}

// The served database is replaced by another copy, in several states: no server that knows more of
// any log continues to write.
func TestReplacedPostgreSQLDatabaseStopsWrites(t *testing.T) {
	testenv.Concurrent(t)
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	for name, test := range map[string]struct {
		// on the copy, before it is put in place
		more func(t *testing.T, s *store.Store, acme *store.Company)
		// the server appends all the time
		busy bool
		why  string
	}{
		"older":                 {why: "was known at size"},
		"older, under load":     {busy: true, why: "was known at size"},
		"of the same length":    {more: appendOthers(10), why: "was known at size"},
		"longer":                {more: appendOthers(500), why: "was known at size"},
		"longer, under load":    {more: appendOthers(500), busy: true, why: "was known at size"},
		"another control log":   {more: func(t *testing.T, s *store.Store, acme *store.Company) { company(t, s, "other") }, why: "was known"},
		"another company's log": {more: func(t *testing.T, s *store.Store, acme *store.Company) { attest(t, s, acme, 10) }, why: "was known"},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "older, under load" && name != "another company's log" {
				testenv.Needs(t, testenv.Slow)
			}
			t.Parallel()
			h := openHeaded(t, storetest.Shared(t))
			acme, _ := company(t, h.Store, "acme")
			zoo, _ := company(t, h.Store, "zoo")
			attest(t, h.Store, acme, 20)
			older := copyOf(t, h.url)
			attest(t, h.Store, acme, 10)
			if name == "another company's log" {
				attest(t, h.Store, zoo, 5)
			}
			company(t, h.Store, "later")
			if test.more != nil {
				s := openWith(t, older, store.RunOptions{})
				test.more(t, s, got(s.Companies.Get(ctx, "acme"))(t))
				must.OK(t, s.Close())
			}
			stop := make(chan struct{})
			var load sync.WaitGroup
			if test.busy {
				for range 4 {
					load.Go(func() {
						for {
							select {
							case <-stop:
								return
							default:
								_, _ = h.Append(ctx, saying(acme, `{"busy":true}`))
							}
						}
					})
				}
				time.Sleep(100 * time.Millisecond)
			}
			swapIn(t, h.url, older)
			acknowledged := 0
			for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
				_, err := h.Append(ctx, saying(acme, `{"after":true}`))
				if errors.Is(err, store.ErrRolledBack) {
					break
				}
				if err == nil {
					acknowledged++
				}
			}
			close(stop)
			load.Wait()
			if acknowledged > 0 && !strings.HasPrefix(name, "another") {
				t.Errorf("%d records were acknowledged in a log that had lost others", acknowledged)
			}
			select {
			case <-h.went:
			case <-time.After(10 * time.Second):
				t.Error("no stream was ended")
			}
			h.stops(t, test.why)
			h.accepts(t, "acme")
		})
	}
}

// A server without a head file knows what it has written and read since its start. After a lost
// connection it compares that, however long the logs are which it finds, ends the streams and
// writes nothing more. Its next start knows nothing of what is lost, and writes.
func TestReplacedDatabaseIsNoticedWithoutAHeadFile(t *testing.T) {
	testenv.Concurrent(t)
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	for name, test := range map[string]struct {
		more    int  // records that the copy has of its own, where the database has 10
		seen    bool // another server wrote what is lost
		appends bool // the server is asked to write at once
	}{
		"shorter":                       {},
		"of the same length":            {more: 10},
		"longer":                        {more: 50},
		"longer, while it is idle":      {more: 50},
		"longer, of others, while idle": {more: 50, seen: true},
		"longer, of others":             {more: 50, seen: true, appends: true},
		"longer, when it writes":        {more: 50, appends: true},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "longer" && name != "longer, of others" {
				testenv.Needs(t, testenv.Slow)
			}
			t.Parallel()
			url := storetest.Shared(t)
			went := make(chan int64, 1000)
			s := openWith(t, url, store.RunOptions{WentBack: func(number int64) { went <- number }})
			writes := s
			if test.seen {
				writes = openWith(t, url, store.RunOptions{})
			}
			acme, _ := company(t, writes, "acme")
			attest(t, writes, acme, 20)
			older := copyOf(t, url)
			attest(t, writes, acme, 10)
			if test.seen {
				for deadline := time.Now().Add(30 * time.Second); s.KnownSize(acme.Chain) < 30 && time.Now().Before(deadline); {
					time.Sleep(10 * time.Millisecond)
				}
				must.OK(t, writes.Close())
			}
			forks := openWith(t, older, store.RunOptions{})
			appendOthers(test.more)(t, forks, got(forks.Companies.Get(ctx, "acme"))(t))
			must.OK(t, forks.Close())
			swapIn(t, url, older)
			var err error
			for deadline := time.Now().Add(30 * time.Second); !errors.Is(err, store.ErrRolledBack); {
				if test.appends {
					if _, err = s.Append(ctx, saying(acme, `{"after":true}`)); err == nil {
						t.Fatal("a record was acknowledged in a log that had lost others")
					}
				} else {
					err = s.Ready(ctx)
				}
				if time.Now().After(deadline) {
					t.Fatalf("writes go on: %v", err)
				}
			}
			select {
			case <-went:
			case <-time.After(10 * time.Second):
				t.Error("no stream was ended")
			}
			if state := s.Rollback.HeadFile(); state != "" {
				t.Errorf("the head file that it has not is %q", state)
			}
			_ = s.Close()
			again := openWith(t, url, store.RunOptions{})
			attest(t, again, got(again.Companies.Get(ctx, "acme"))(t), 1)
			if tip, _, err := again.Tip(ctx, acme.Chain); err != nil || tip.Length != int64(21+test.more) {
				t.Errorf("after the next start there are %d records, %v", tip.Length, err)
			}
		})
	}
}

func appendOthers(n int) func(t *testing.T, s *store.Store, acme *store.Company) {
	return func(t *testing.T, s *store.Store, acme *store.Company) {
		for i := range n {
			_, err := s.Append(ctx, saying(acme, fmt.Sprintf(`{"fork":%d}`, i)))
			must.OK(t, err)
		}
	}
}

// A lost connection, or another server that writes the same logs, stops nothing: the head files of
// all servers follow.
func TestLostConnectionIsNoRollback(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain)
	t.Parallel()
	db := storetest.Shared(t)
	servers := []*headed{openHeaded(t, db), openHeaded(t, db)}
	acme, _ := company(t, servers[0].Store, "acme")
	for range 5 {
		for _, s := range servers {
			attest(t, s.Store, acme, 40)
		}
		barred(t, db, func(*sql.DB, string) {})
		for _, s := range servers {
			for deadline := time.Now().Add(30 * time.Second); s.Ready(ctx) != nil && time.Now().Before(deadline); {
				time.Sleep(10 * time.Millisecond)
			}
		}
	}
	for _, s := range servers {
		attest(t, s.Store, acme, 1)
		must.OK(t, s.Ready(ctx))
		must.OK(t, s.Close())
		if n := len(s.went); n > 0 {
			t.Errorf("%d streams were ended", n)
		}
		r := got(store.OpenReadOnly(ctx, db))(t)
		must.OK(t, r.Rollback.Check(ctx, s.heads))
		must.OK(t, r.Close())
		if size := knownSize(t, s.heads, acme.Chain); size < 300 {
			t.Errorf("the head file knows %d records", size)
		}
	}
}

// knownSize returns the length of a chain according to a head file.
func knownSize(t *testing.T, heads string, number int64) (size int64) {
	t.Helper()
	var id headfile.ID
	copy(id[:], got(os.ReadFile(heads))(t)[16:])
	f := got(headfile.Open(heads, id))(t)
	defer f.Close()
	return got(f.Head(number))(t).Size
}
