package server_test

import (
	"errors"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/jackc/pgx/v5"

	"attestd/crypto/cred"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// database opens a connection to the database of a service, or to another one of its server,
// without the service.
func (s *service) database(t *testing.T, name string) *pgx.Conn {
	t.Helper()
	u, err := url.Parse(s.path)
	must.OK(t, err)
	if name != "" {
		u.Path = name
	}
	c, err := pgx.Connect(t.Context(), u.String())
	must.OK(t, err)
	t.Cleanup(func() { c.Close(t.Context()) })
	return c
}

func execute(t *testing.T, c *pgx.Conn, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := c.Exec(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// A database that is unreachable now and then interrupts a valid credential's stream for a while,
// but never for good: its clients are asked to retry, and get no message that the credential has
// ended.
func TestStreamWhileTheDatabaseFlaps(t *testing.T) {
	testenv.Concurrent(t)
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := startOn(t, storetest.Shared(t), cred.Domain{})
	acme := s.company(t, "acme")
	name := s.path[strings.LastIndexByte(s.path, '/')+1:]
	name, _, _ = strings.Cut(name, "?")
	admin := s.database(t, "postgres")
	var later, refused atomic.Int64
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
			}
			h := acme.request(t, "GET /v1/ws", "").Header
			conn, res, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(s.url, "http")+"/v1/ws", h)
			if err != nil {
				if refused.Add(1); res == nil || res.StatusCode != 503 && res.StatusCode != 500 {
					t.Errorf("the handshake: %v, %v", res, err)
				}
				continue
			}
			conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			_, _, err = conn.ReadMessage()
			if closed := (*websocket.CloseError)(nil); errors.As(err, &closed) {
				if later.Add(1); closed.Code != websocket.CloseTryAgainLater {
					t.Errorf("the stream ended with %v", err)
				}
			}
			conn.Close()
		}
	}()
	for end := time.Now().Add(20 * time.Second); later.Load()+refused.Load() < 40 && time.Now().Before(end); {
		execute(t, admin, "ALTER DATABASE "+name+" WITH ALLOW_CONNECTIONS false",
			"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+name+"'")
		time.Sleep(100 * time.Millisecond)
		execute(t, admin, "ALTER DATABASE "+name+" WITH ALLOW_CONNECTIONS true")
		time.Sleep(100 * time.Millisecond)
	}
	close(stop)
	<-ended
	acme.attestMany(t, 1) // the database is reachable again
	if later.Load()+refused.Load() == 0 {
		t.Error("nobody noticed that the database was away")
	}
}

// If a database has lost records, because a standby without them was promoted, every stream that
// had them ends: no client receives different records for the same indices. A client that resumes
// after its last record learns that the log is shorter, and one that starts over gets the remaining
// records.
func TestStreamAfterDatabaseRollback(t *testing.T) {
	testenv.Concurrent(t)
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	url := storetest.Shared(t)
	s := startOn(t, url, cred.Domain{})
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	acme.attestMany(t, 4)
	db := s.database(t, "")
	execute(t, db, "CREATE TABLE earlier AS SELECT * FROM head WHERE chain = 1")
	resumed, live, all := acme.listenFrom(t, 0), acme.listen(t), s.anyone().listen(t)
	acme.attestMany(t, 6)
	for i := range 10 {
		resumed.valid("acme", i)
		if i >= 4 {
			live.valid("acme", i)
			all.valid("acme", i)
		}
	}
	execute(t, db, "SET session_replication_role = replica", "BEGIN", "DELETE FROM record WHERE id >= (1::bigint << 40) + 4 AND id > 0",
		"DELETE FROM head WHERE chain = 1", "INSERT INTO head SELECT * FROM earlier", "COMMIT",
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	for name, l := range map[string]*listener{"resumed": resumed, "live": live, "of all": all} {
		must.OK(t, l.conn.SetReadDeadline(time.Now().Add(20*time.Second)))
		_, m, err := l.conn.ReadMessage()
		var closed *websocket.CloseError
		if !errors.As(err, &closed) || closed.Code != websocket.CloseTryAgainLater || !strings.Contains(closed.Text, "fewer records") {
			t.Errorf("%s: %s, %v", name, m, err)
		}
	}
	acme.do(t, "GET /v1/ws?from=10", "", handshake...).gets(409, `{"error":"…","code":"CURSOR_BEYOND_LOG"}`)
	acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"a","payload":1}`).gets(503, `{"error":"…","code":"ROLLED_BACK","requestId":"…"}`)
	s.anyone().do(t, "GET /readyz", "").gets(503, `{"error":"…","code":"ROLLED_BACK","requestId":"…"}`)
	if n := s.log.says("records that were there are gone"); n != 1 {
		t.Errorf("the log says so %d times", n)
	}
	s.stop()

	// The next start knows nothing of what is lost.
	s = startOn(t, url, cred.Domain{})
	acme, globex = acme.on(s), globex.on(s)
	other := globex.listenFrom(t, 0)
	acme.attestMany(t, 2)
	globex.attestMany(t, 1)
	other.valid("globex", 0)
	again := acme.listenFrom(t, 0)
	for i := range 6 {
		again.valid("acme", i)
	}
}

// A server with a head file writes nothing more to a database that has gone back, and reports it,
// even if other records have the indices of the lost ones.
func TestNotReadyAfterRollback(t *testing.T) {
	t.Parallel()
	s := startOn(t, storetest.NewOnPostgres(t), cred.Domain{})
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	acme.agent(t, "bot")
	globex.agent(t, "bot")
	acme.attestMany(t, 4)
	db := s.database(t, "")
	execute(t, db, "CREATE TABLE earlier AS SELECT * FROM head WHERE chain = 1")
	live := acme.listen(t)
	acme.attestMany(t, 6)
	for i := 4; i < 10; i++ {
		live.valid("acme", i)
	}
	execute(t, db, "SET session_replication_role = replica", "BEGIN", "DELETE FROM record WHERE id >= (1::bigint << 40) + 4 AND id > 0",
		"DELETE FROM head WHERE chain = 1", "INSERT INTO head SELECT * FROM earlier", "COMMIT",
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if r := acme.do(t, "GET /readyz", ""); r.code == 503 && strings.Contains(string(r.raw), "ROLLED_BACK") {
			break
		} else if time.Now().After(end) {
			t.Fatalf("ready: %d %s", r.code, r.raw)
		}
	}
	acme.refusesWrites(t, "ROLLED_BACK")
	globex.refusesWrites(t, "ROLLED_BACK")
	must.OK(t, live.conn.SetReadDeadline(time.Now().Add(20*time.Second)))
	var closed *websocket.CloseError
	if _, m, err := live.conn.ReadMessage(); !errors.As(err, &closed) || closed.Code != websocket.CloseTryAgainLater {
		t.Errorf("the stream goes on: %s, %v", m, err)
	}
	if globex.do(t, "GET /v1/verify", "").status(200).at("valid") != true {
		t.Error("another company's log does not verify any more")
	}
}
