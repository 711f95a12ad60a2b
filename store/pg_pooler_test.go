package store_test

import (
	"database/sql"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/postgres"
	"attestd/store/postgres/pgtest"
	"attestd/store/storetest"
)

// These are the startup parameters that a pooler may be configured to drop.
const ignoring = "ignore_startup_parameters = default_transaction_isolation,idle_in_transaction_session_timeout,search_path,options"

// Behind a pooler in session mode servers write one chain as they do without a pooler. A server
// that stalls in a transaction delays the others for at most its timeout, whichever startup
// parameters the pooler drops.
func TestPoolerInSessionMode(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	t.Parallel()
	for name, options := range map[string]string{"as it comes": "", "ignoring what it does not know": ignoring} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.NewPooler(t, storetest.Shared(t), "session", options).URL()
			servers := []*store.Store{openWith(t, url, store.RunOptions{}), openWith(t, url, store.RunOptions{})}
			c, _ := company(t, servers[0], "acme")
			for _, s := range servers {
				attest(t, s, c, 20)
			}

			db := got(postgres.Open(url, new(atomic.Int64)))(t)
			defer db.Close()
			stalled := got(db.Conn(ctx))(t)
			defer stalled.Close()
			for _, statement := range []string{"BEGIN", "SELECT FROM head ORDER BY chain FOR UPDATE"} {
				_, err := stalled.ExecContext(ctx, statement)
				must.OK(t, err)
			}
			begun := time.Now()
			attest(t, servers[1], c, 1)
			if waited := time.Since(begun); waited > 7*time.Second {
				t.Errorf("a server that stalls held another up for %v", waited)
			}
			must.OK(t, servers[0].VerifyAll(ctx, "", 2, nil, nil))
		})
	}
}

// A pooler in transaction mode is detected however busy it is, and refused by name before anything
// is created or read.
func TestTransactionPoolingIsRefused(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	for _, mode := range []string{"transaction", "statement"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			direct := storetest.Shared(t)
			made := storetest.Shared(t)
			must.OK(t, openWith(t, made, store.RunOptions{}).Close())
			empty := pgtest.NewPooler(t, direct, mode, ignoring).URL()
			busy := pgtest.NewPooler(t, made, mode, ignoring).URL()
			stop := make(chan struct{})
			var others sync.WaitGroup
			defer others.Wait()
			defer close(stop)
			for range 8 {
				c := got(pgx.Connect(ctx, busy+"&default_query_exec_mode=simple_protocol"))(t)
				others.Go(func() {
					defer c.Close(ctx)
					for {
						select {
						case <-stop:
							return
						default:
							c.Exec(ctx, "SELECT pg_sleep(0.001)")
						}
					}
				})
			}
			for what, open := range map[string]func() error{
				"serve, empty": func() error { return opened(store.Open(ctx, empty, "", store.Options{})) },
				"serve":        func() error { return opened(store.Open(ctx, busy, "", store.Options{})) },
				"read":         func() error { return opened(store.OpenReadOnly(ctx, busy)) },
				"migrate": func() error {
					_, err := store.Migrate(ctx, empty, store.Options{})
					return err
				},
			} {
				if err := open(); !errors.Is(err, store.ErrRefused) || !strings.Contains(err.Error(), "session pooling (pool_mode = session)") {
					t.Errorf("%s: %v", what, err)
				}
			}
			if err := opened(store.OpenReadOnly(ctx, direct)); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("the empty database is not as it was: %v", err)
			}
		})
	}
}

func opened(s *store.Store, err error) error {
	if err == nil {
		s.Close()
	}
	return err
}

// If a pooler is switched to transaction mode under running servers, they acknowledge no record
// that is not durable: each record was written by a transaction that waits for the disk.
func TestPoolerSwitchedToTransactionsStopsWrites(t *testing.T) {
	testenv.Needs(t, testenv.Hours) // it takes two minutes, until deadlines have passed
	t.Parallel()
	direct := storetest.Shared(t)
	pooler := pgtest.NewPooler(t, direct, "session", ignoring+"\ndefault_pool_size = 3\nserver_reset_query =")
	must.OK(t, openWith(t, direct, store.RunOptions{}).Close())
	servers := []*store.Store{openWith(t, direct, store.RunOptions{})}
	witness := got(sql.Open("pgx", direct))(t)
	defer witness.Close()
	for _, statement := range []string{
		"CREATE TABLE written (id bigint, durable text)",
		"CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO written VALUES (NEW.id, current_setting('synchronous_commit')); RETURN NULL; END $$",
		"CREATE TRIGGER note AFTER INSERT ON record FOR EACH ROW EXECUTE FUNCTION note()",
	} {
		_, err := witness.Exec(statement)
		must.OK(t, err)
	}
	c, _ := company(t, servers[0], "acme")
	through := openWith(t, pooler.URL(), store.RunOptions{})
	attest(t, through, c, 5)
	pooler.Switch("transaction")
	spoiler := got(pgx.Connect(ctx, pooler.URL()+"&default_query_exec_mode=simple_protocol"))(t)
	defer spoiler.Close(ctx)
	var refused int
	for range 40 {
		spoiler.Exec(ctx, "SET synchronous_commit = off")
		if _, err := through.Append(ctx, draft(c)); err != nil {
			refused++
		}
		if refused == 1 {
			break // it is not tried at length what fails after its deadline
		}
	}
	var lost, all int
	must.OK(t, witness.QueryRow("SELECT count(*) FILTER (WHERE durable IN ('off', 'local')), count(*) FROM written").Scan(&lost, &all))
	if lost > 0 {
		t.Errorf("%d of %d records were written without waiting for the disk", lost, all)
	}
}
