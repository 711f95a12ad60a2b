// Package pgtest starts real PostgreSQL servers for tests: one that all tests of a process share,
// with a new database for each, and clusters of a primary and a synchronous standby that may be
// killed. No product code imports it.
//
// The tests of a package that uses it MUST be run by Run:
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Run(m)) }
//
// ATTESTD_TEST_POSTGRES=FOLDER in the environment selects the folder of the programs (initdb,
// postgres), which the user postgres must be able to read; a Cluster also needs pg_basebackup. npm
// ci --prefix test/testdata/postgres installs PostgreSQL 16, 17 and 18 for Linux on x86-64.
// ATTESTD_TEST_PGBOUNCER=FILE selects a PgBouncer in the same way.
//
// Without PostgreSQL 15 or newer a test is skipped, but fails if the environment variable CI is
// set. The servers listen on 127.0.0.1 only, with a random password. PostgreSQL refuses to run as
// root, so then its programs run as the user postgres, or else nobody. On Linux no server outlives
// the test process, and the data is in memory if there is room: creating a database takes 20 ms
// there, and up to 250 ms on a disk with other syncs. So these servers are not for measurements.
package pgtest

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"attestd/internal/testenv"
)

// limit bounds each step (a start, a stop, a statement), with a margin for a busy machine.
const limit = time.Minute

// process is the server that the tests of this process share, or nil outside Run.
var process *shared

// shared is a server that starts when the first test asks for a database.
type shared struct {
	mu        sync.Mutex
	server    *server
	err       error // start error, with which all tests that need the server fail
	databases int   // number of created databases, which is part of their names
}

// Run runs the tests, stops the shared server if a test has started it, and removes its folder. It
// returns the exit status of the tests. It leaves no goroutine, so that a check for leaks may
// follow.
func Run(m *testing.M) int {
	testenv.MoreAtOnce()
	process = new(shared)
	defer process.close()
	return m.Run()
}

// Database returns the URL of a new, empty UTF8 database on the shared server. When the test ends,
// it is dropped with all connections. The role in the URL is a superuser. The server loses data in
// a crash (fsync=off), so tests of durability need a Cluster.
func Database(t testing.TB) string {
	t.Helper()
	return DatabaseWith(t, "")
}

// DatabaseWith is Database with options of CREATE DATABASE, such as "ENCODING 'SQL_ASCII' TEMPLATE
// template0".
func DatabaseWith(t testing.TB, options string) string {
	t.Helper()
	if process == nil {
		t.Fatal("pgtest: TestMain of this package does not call pgtest.Run")
	}
	s, number, err := process.next(installed(t))
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("test_%d", number)
	// Without fsync to copy the files costs less than half of what it costs to log every page.
	if err := s.execute("CREATE DATABASE " + name + " STRATEGY file_copy " + options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.execute("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	return s.url(name)
}

// next starts the server on the first call, and returns a number for a new database.
func (p *shared) next(i installation) (*server, int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server == nil && p.err == nil {
		p.server, p.err = startShared(i)
	}
	p.databases++
	return p.server, p.databases, p.err
}

func (p *shared) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server == nil {
		return
	}
	if err := p.server.abort(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	p.server.remove()
}

// startShared creates and starts a fast server without durability.
func startShared(i installation) (*server, error) {
	s, err := newServer(i, "shared", "fsync=off", "synchronous_commit=off", "full_page_writes=off", "wal_level=minimal",
		"max_wal_senders=0")
	if err != nil {
		return nil, err
	}
	if err = s.initialize(); err == nil {
		err = s.start()
	}
	if err != nil {
		s.remove()
		return nil, err
	}
	return s, nil
}
