// Package pgtest starts real PostgreSQL servers for tests: one that all tests of a process share,
// with a new database for each, and clusters of a primary and a synchronous standby that may be
// killed. No product code imports it.
//
// A package whose tests use it hands them to Run:
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Run(m)) }
//
// With ATTESTD_TEST_POSTGRES=FOLDER in the environment they run on the programs (initdb, postgres)
// in that folder, which the user postgres must be able to read; a Cluster needs pg_basebackup there
// too. npm ci --prefix test/testdata/postgres brings PostgreSQL 16, 17 and 18 for Linux on x86-64.
// ATTESTD_TEST_PGBOUNCER=FILE names a PgBouncer in the same way.
//
// Where PostgreSQL 15 or newer is missing a test is skipped, and fails if the environment variable
// CI is set. The servers listen on 127.0.0.1 alone, with a random password. PostgreSQL refuses to
// run as root, so there its programs run as the user postgres, or else nobody. On Linux no server
// outlives the test process, and the data is in memory where there is room: a database is made in
// 20 ms there, and in up to 250 ms on a disk that others sync. So these servers are not for
// measurements.
package pgtest

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"attestd/internal/testenv"
)

// limit bounds each single step (a start, a stop, a statement) on a machine that does much else.
const limit = time.Minute

// process is the server that the tests of this process share. It is nil outside Run.
var process *shared

// shared is a server that starts when the first test asks for a database.
type shared struct {
	mu        sync.Mutex
	server    *server
	err       error // why the server did not start: all tests that need it fail alike
	databases int   // how many were made, which numbers their names
}

// Run runs the tests, then ends the shared server, if any test has started it, and removes its
// folder. It returns the exit status of the tests. No goroutine of this package is left then, so
// that a check for leaks may follow.
func Run(m *testing.M) int {
	testenv.MoreAtOnce()
	process = new(shared)
	defer process.close()
	return m.Run()
}

// Database is the URL of a new, empty UTF8 database on the shared server. It is dropped when the
// test ends, whoever is still connected to it. The role in the URL is a superuser. The server loses
// data when it crashes (fsync=off): what is about durability needs a Cluster.
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
	if err := s.execute("CREATE DATABASE " + name + " " + options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.execute("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	return s.url(name)
}

// next starts the server at the first call, and numbers a database.
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

// startShared makes and starts a server that is fast and whose data nobody needs after a crash.
func startShared(i installation) (*server, error) {
	s, err := newServer(i, "shared", "fsync=off", "synchronous_commit=off", "full_page_writes=off", "wal_level=minimal", "max_wal_senders=0")
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
