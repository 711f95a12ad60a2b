package store_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"attestd/chain"
	"attestd/crypto/keys"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/storetest"
)

// isEnd reports whether an error comes from a context rather than from the database.
func isEnd(err error) bool {
	return errors.Is(err, context.Canceled) && !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, chain.ErrTransactionLost)
}

// A caller who leaves during a read gets no more rows and the error of its context. Afterwards
// every connection reads the current data.
func TestReadEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	c, _ := company(t, s, "acme")
	attest(t, s, c, 100)
	for range 12 { // more than there are connections
		leaving, leave := context.WithCancel(ctx)
		rows := 0
		err := s.Records(leaving, c.Chain, 0, 100, func(*chain.Record) error {
			rows++
			leave()
			return nil
		})
		if rows != 1 || !isEnd(err) {
			t.Fatalf("%d rows, then %v", rows, err)
		}

		leaving, leave = context.WithCancel(ctx)
		err = s.Snapshot(leaving, func(v *store.View) error {
			_, _, err := v.Tip(leaving, c.Chain)
			must.OK(t, err)
			leave()
			_, _, err = v.Tip(leaving, c.Chain)
			return err
		})
		if !isEnd(err) {
			t.Fatalf("snapshot: %v", err)
		}
		before := length(t, s, c)
		attest(t, s, c, 1)
		var wait sync.WaitGroup
		for range 12 {
			wait.Go(func() {
				if n := length(t, s, c); n != before+1 {
					t.Errorf("length %d, want %d", n, before+1)
				}
			})
		}
		wait.Wait()
	}
}

// A read that was cancelled is not cached: no agent, credential or company counts as missing or as
// changed because of it.
func TestCanceledReadIsNotRemembered(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	path := storetest.New(t)
	s := open(t, path)
	c, key := company(t, s, "acme")
	_, err := s.Agents.Register(ctx, by(c, now), "bot", nil, many)
	must.OK(t, err)

	left, leave := context.WithCancel(ctx)
	leave()
	hash := keys.HashSecret(key.Key)
	reads := map[string]func(context.Context) error{
		"company":    func(ctx context.Context) error { _, err := s.Companies.Get(ctx, "acme"); return err },
		"chain":      func(ctx context.Context) error { _, err := s.Companies.OfChain(ctx, c.Chain); return err },
		"credential": func(ctx context.Context) error { _, err := s.Credentials.Authenticate(ctx, hash, now); return err },
		"agent":      func(ctx context.Context) error { return s.Agents.Check(ctx, by(c, now), "bot") },
		"verify":     func(ctx context.Context) error { return s.VerifyAll(ctx, "", 2, nil, nil) },
	}
	for name, read := range reads {
		must.OK(t, s.Close()) // so that nothing is cached
		s = open(t, path)
		if err := read(left); !isEnd(err) {
			t.Errorf("%s: %v", name, err)
		}
		if err := read(ctx); err != nil {
			t.Errorf("%s, the next caller: %v", name, err)
		}
	}
}

// locked locks a table until unlock is called. The function waiting returns the connections of the
// server that wait for the table with a statement that begins with the given text.
func locked(t *testing.T, path, table, statement string) (unlock func(), waiting func() []int) {
	t.Helper()
	held, watch := got(pgx.Connect(ctx, path))(t), got(pgx.Connect(ctx, path))(t)
	t.Cleanup(func() {
		held.Close(ctx)
		watch.Close(ctx)
	})
	_, err := held.Exec(ctx, "BEGIN; LOCK TABLE "+table+" IN ACCESS EXCLUSIVE MODE")
	must.OK(t, err)
	return func() {
			_, err := held.Exec(ctx, "ROLLBACK")
			must.OK(t, err)
		}, func() []int {
			rows, err := watch.Query(ctx, `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND query LIKE $1`, statement+"%")
			must.OK(t, err)
			return got(pgx.CollectRows(rows, pgx.RowTo[int]))(t)
		}
}

// A caller who leaves while its statement waits in the database server ends the statement there
// too, and no other caller loses a connection by it.
func TestCanceledReadKeepsConnectionsOfOthers(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	const readers = 8
	path := storetest.Shared(t)
	s := open(t, path)
	c, _ := company(t, s, "acme")

	// fill occupies every connection with a read. It returns their process IDs and a function that
	// cancels the first read.
	fill := func() (pids []int, cancel func(), reads chan error, unlock func(), waiting func() []int) {
		unlock, waiting = locked(t, path, "head", "SELECT length")
		reads = make(chan error, readers)
		first, cancel := context.WithCancel(ctx)
		for i := range readers {
			of := ctx
			if i == 0 {
				of = first
			}
			go func() {
				reads <- s.Snapshot(of, func(v *store.View) error {
					_, _, err := v.Tip(of, c.Chain)
					return err
				})
			}()
		}
		return waitFor(t, waiting, readers), cancel, reads, unlock, waiting
	}
	before, cancel, reads, unlock, waiting := fill()
	cancel()
	if err := <-reads; !isEnd(err) {
		t.Errorf("the read of the caller who left: %v", err)
	}
	waitFor(t, waiting, readers-1)
	unlock()
	for range readers - 1 {
		must.OK(t, <-reads)
	}
	after, cancel, reads, unlock, _ := fill()
	defer cancel()
	unlock()
	for range readers {
		must.OK(t, <-reads)
	}
	if lost := slices.DeleteFunc(before, func(pid int) bool { return slices.Contains(after, pid) }); len(lost) != 1 {
		t.Errorf("%d connections were lost, not one: %v", len(lost), lost)
	}

	_, cancel, reads, unlock, waiting = fill()
	cancel()
	waitFor(t, waiting, readers-1)
	unlock()
	for range readers {
		<-reads
	}
	must.OK(t, s.Close()) // even if a connection was lost
}

// A call against a limit that all servers share is counted even if its caller leaves meanwhile,
// because all callers share the connection.
func TestCanceledCallIsCounted(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	path := storetest.Shared(t)
	s := open(t, path)
	account := [32]byte{1}
	_, err := s.Spend(ctx, account, 3)
	must.OK(t, err)
	unlock, waiting := locked(t, path, "budget", "INSERT INTO budget")
	leaving, leave := context.WithCancel(ctx)
	spent := make(chan error, 1)
	go func() {
		_, err := s.Spend(leaving, account, 3)
		spent <- err
	}()
	before := waitFor(t, waiting, 1)
	leave()
	if now := waiting(); !slices.Equal(before, now) {
		t.Errorf("connections %v, then %v", before, now)
	}
	unlock()
	if err := <-spent; err != nil {
		t.Errorf("the caller who left: %v", err)
	}
	if now := got(s.Spend(ctx, account, 3))(t); !now.OK || now.Left != 0 {
		t.Errorf("the third call: %+v", now)
	}
}

// waitFor returns the waiting connections as soon as there are n of them.
func waitFor(t *testing.T, waiting func() []int, n int) (pids []int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		if pids = waiting(); len(pids) == n {
			return pids
		}
	}
	t.Fatalf("%d connections wait, not %d", len(pids), n)
	return nil
}

// A store that is closed while its writer is trying to reconnect does not wait for the last
// attempt, and callers who wait for a write learn that nothing was written.
func TestCloseEndsReconnecting(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	network, path := through(t, storetest.Shared(t))
	s := openWith(t, path, store.RunOptions{})
	c, _ := company(t, s, "acme")
	network.proxy.Stop()
	broken := got(net.Listen("tcp", network.proxy.Listen))(t)
	defer broken.Close()
	written := make(chan error, 1)
	go func() {
		_, err := s.Append(ctx, draft(c))
		written <- err
	}()
	for range 10 { // attempts, with a pause of the store after each
		must.OK(t, got(broken.Accept())(t).Close())
	}
	var later atomic.Int64
	go func() { // later attempts fail too
		for conn, err := broken.Accept(); err == nil; conn, err = broken.Accept() {
			conn.Close()
			later.Add(1)
		}
	}()
	s.Close()
	// without the early end it would go on for 12 s, with 20 attempts in each
	if n := later.Load(); n > 30 {
		t.Errorf("it made %d attempts while it was closed", n)
	}
	if err := <-written; !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("the write: %v", err)
	}
}

// A store closes without an error where the database server ended a connection in the middle of a
// read.
func TestCloseAfterALostConnection(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	path := storetest.Shared(t)
	s := open(t, path)
	c, _ := company(t, s, "acme")
	attest(t, s, c, 3)
	admin := got(pgx.Connect(ctx, path))(t)
	defer admin.Close(ctx)
	err := s.Snapshot(ctx, func(v *store.View) error {
		if err := v.Records(ctx, c.Chain, 0, 3, func(*chain.Record) error { return nil }); err != nil {
			return err
		}
		_, err := admin.Exec(ctx, `SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		must.OK(t, err)
		_, _, err = v.Tip(ctx, c.Chain)
		return err
	})
	if !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a read whose connection was lost: %v", err)
	}
	must.OK(t, s.Close())
}
