package pgtest

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"attestd/internal/testenv"
)

// Cluster is a primary and a synchronous standby for one test. What the primary has acknowledged is
// on both, while it waits for the standby. It runs with fsync=on and synchronous_commit=on. Its
// folders may be in memory, because killing processes loses no files. Its database is postgres,
// empty and in UTF8.
//
// A failover is Kill or Stop, then Promote, then Rebuild, after which the cluster is complete
// again, with swapped roles. All methods fail the test on error, so they MUST be called by its
// goroutine, one at a time.
type Cluster struct {
	t                testing.TB
	servers          [2]*server
	primary, standby *server // the same two, by current role
	halted           *server // nil, or the standby
}

// NewCluster starts a cluster that ends with the test. If the test fails, it logs the servers'
// stderr.
func NewCluster(t testing.TB) *Cluster {
	t.Helper()
	i := installed(t)
	if _, err := os.Stat(filepath.Join(i.programs, "pg_basebackup")); err != nil {
		if os.Getenv("ATTESTD_TEST_POSTGRES") != "" {
			t.Skip("the programs that ATTESTD_TEST_POSTGRES names make no cluster: ", err)
		}
		testenv.Missing(t, err.Error())
	}
	c := &Cluster{t: t}
	for n, name := range []string{"a", "b"} {
		// The standby retries after 100 ms instead of 5 s if it finds no primary.
		s, err := newServer(i, name, "fsync=on", "synchronous_commit=on", "wal_level=replica",
			"wal_retrieve_retry_interval=100ms")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.end(s) })
		c.servers[n] = s
	}
	c.primary, c.standby = c.servers[0], c.servers[1]
	// the role and its password are data, which the standby copies
	c.standby.password = c.primary.password
	c.must(c.primary.initialize("--data-checksums"))
	c.must(c.primary.start())
	c.Rebuild()
	t.Cleanup(c.ResumeStandby) // before the servers end
	return c
}

// end stops a server, removes its folder, and logs its stderr if the test has failed.
func (c *Cluster) end(s *server) {
	if err := s.abort(); err != nil {
		c.t.Error(err)
	}
	if c.t.Failed() {
		c.t.Logf("server at %s:\n%s", s.address(), s.log())
	}
	s.remove()
}

// Addresses returns host:port of both servers. The order does not change with their roles: the
// first is the initial primary.
func (c *Cluster) Addresses() []string {
	return []string{c.servers[0].address(), c.servers[1].address()}
}

// Standby returns a URL of the standby alone.
func (c *Cluster) Standby() string { return c.standby.url("postgres") }

// URL returns a URL with several addresses, from which a client selects the writable one. They are
// the addresses of the servers, or of proxies; the default is Addresses.
func (c *Cluster) URL(addresses ...string) string {
	if len(addresses) == 0 {
		addresses = c.Addresses()
	}
	return (&url.URL{
		Scheme: "postgres", User: url.UserPassword(role, c.primary.password), Host: strings.Join(addresses, ","),
		Path:     "postgres",
		RawQuery: "sslmode=disable&target_session_attrs=read-write",
	}).String()
}

// Kill ends all processes of the primary with SIGKILL.
func (c *Cluster) Kill() {
	c.t.Helper()
	c.must(c.primary.kill())
}

// Stop shuts the primary down as an operator does (fast shutdown): sessions end, and the standby
// has received everything.
func (c *Cluster) Stop() {
	c.t.Helper()
	c.must(c.primary.stop())
}

// HaltStandby suspends the standby, so that commits wait, until ResumeStandby or the end of the
// test.
func (c *Cluster) HaltStandby() {
	c.t.Helper()
	c.must(c.standby.halt())
	c.halted = c.standby
}

// ResumeStandby resumes a suspended standby.
func (c *Cluster) ResumeStandby() {
	c.t.Helper()
	if c.halted != nil {
		c.must(c.halted.resume())
		c.halted = nil
	}
}

// Detach disconnects the standby, and makes the primary wait for none. A failover loses what is
// acknowledged from now on, as with a lagging asynchronous standby. It lasts until Rebuild.
func (c *Cluster) Detach() {
	c.t.Helper()
	c.must(c.primary.execute("ALTER SYSTEM SET synchronous_standby_names = ''"))
	c.must(c.primary.execute("SELECT pg_reload_conf()"))
	c.must(c.standby.execute("ALTER SYSTEM SET primary_conninfo = ''"))
	c.must(c.standby.execute("SELECT pg_reload_conf()"))
	c.must(c.primary.poll("the standby is not detached", func(ctx context.Context) (bool, error) {
		return c.primary.ask(ctx, "SELECT NOT EXISTS (SELECT FROM pg_stat_replication)")
	}))
	c.must(c.primary.execute("CHECKPOINT")) // as in Rebuild: now no commit waits
	c.must(c.primary.execute("CHECKPOINT"))
}

// Promote makes the standby the primary after the old one has ended. It returns when the new
// primary is writable. Until Rebuild, it waits for no standby.
func (c *Cluster) Promote() {
	c.t.Helper()
	if c.primary.running() {
		c.t.Fatal("pgtest: Promote before Kill or Stop would make two primaries")
	}
	c.must(c.standby.execute("SELECT pg_promote()"))
	c.Promoted()
}

// Promoted returns when the standby, which its caller promotes, is writable. It is the primary
// then.
func (c *Cluster) Promoted() {
	c.t.Helper()
	c.must(c.standby.poll("the standby is not promoted", func(ctx context.Context) (yes bool, err error) {
		return c.standby.ask(ctx, "SELECT NOT pg_is_in_recovery()")
	}))
	c.primary, c.standby = c.standby, c.primary
}

// Rebuild makes the terminated server a synchronous standby of the primary, from a copy of it. It
// returns when every commit waits for that standby.
func (c *Cluster) Rebuild() {
	c.t.Helper()
	if c.standby.running() {
		c.t.Fatal("pgtest: Rebuild while the standby runs")
	}
	c.must(os.RemoveAll(c.standby.data()))
	c.must(c.standby.run("pg_basebackup", "--dbname="+c.primary.url("postgres"), "--pgdata="+c.standby.data(),
		"--write-recovery-conf", "--checkpoint=fast", "--no-sync"))
	c.must(c.standby.start())
	// The copy was made without this setting, so that a standby that is promoted waits for none.
	c.must(c.primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'"))
	c.must(c.primary.execute("SELECT pg_reload_conf()"))
	c.must(c.primary.poll("the standby is not synchronous", func(ctx context.Context) (bool, error) {
		return c.primary.ask(ctx, "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'sync')")
	}))
	// Commits wait once the checkpointer has read the setting, which it does between checkpoints,
	// so before the second one.
	c.must(c.primary.execute("CHECKPOINT"))
	c.must(c.primary.execute("CHECKPOINT"))
}

func (c *Cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}
