package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/websocket"

	"attestd/crypto/cred"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/server/stream"
	"attestd/store/storetest"
)

// listenFrom opens the stream with the caller's credential from an index on.
func (c caller) listenFrom(t testing.TB, from int) *listener {
	t.Helper()
	h := c.request(t, "GET /v1/ws", "").Header
	conn, res, err := websocket.DefaultDialer.DialContext(t.Context(), fmt.Sprintf("ws%s/v1/ws?from=%d", strings.TrimPrefix(c.url, "http"), from), h)
	must.OK(t, err)
	t.Cleanup(func() { conn.Close() })
	return &listener{t, conn, res}
}

// A client that reconnects with the index after its last record receives all records of its company
// since then, and then the new ones, in the same messages that it would have received before.
func TestResume(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	s := start(t)
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	live := acme.listen(t)
	var messages []string
	grow := func(n int) {
		acme.attestMany(t, n)
		for range n {
			messages = append(messages, string(live.valid("acme", len(messages)).raw))
		}
	}
	grow(20)
	globex.attestMany(t, 3)
	resumed := map[int]*listener{}
	for _, from := range []int{0, 7, 20} {
		resumed[from] = acme.listenFrom(t, from)
	}
	grow(5)
	for from, l := range resumed {
		for i := from; i < len(messages); i++ {
			if m := l.valid("acme", i); string(m.raw) != messages[i] {
				t.Errorf("from %d: %s, live it was %s", from, m.raw, messages[i])
			}
		}
	}

	// After a restart the server has cached nothing of the chain and has no other client; resuming
	// works all the same.
	s.stop()
	again := startOn(t, s.path, cred.Domain{})
	l := caller{again, "acme", acme.credential}.listenFrom(t, 3)
	for i := 3; i < len(messages); i++ {
		if m := l.valid("acme", i); string(m.raw) != messages[i] {
			t.Errorf("after a restart: %s, live it was %s", m.raw, messages[i])
		}
	}
	caller{again, "acme", acme.credential}.attestMany(t, 1)
	l.valid("acme", len(messages))
}

// A request that cannot be resumed is refused before the stream begins.
func TestResumeRefused(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.attestMany(t, 3)
	bad := `{"error":"Invalid query parameter: from must be a whole number, the index of a record"}`
	beyond := `{"error":"…","code":"CURSOR_BEYOND_LOG"}`
	table(t, []row{
		{does: "nobody", as: s.anyone(), call: "GET /v1/ws?from=0", headers: handshake, status: 400, gets: `{"error":"Invalid query parameter: from needs a credential, …"}`},
		{does: "a made-up credential", as: s.anyone().with("svc_" + strings.Repeat("A", 43)), call: "GET /v1/ws?from=0", headers: handshake, status: 401, gets: `{"error":"Unauthorized"}`},
		{does: "an index beyond the next record", as: acme, call: "GET /v1/ws?from=4", headers: handshake, status: 409, gets: beyond},
		{does: "an index beyond all", as: acme, call: "GET /v1/ws?from=99999999999999999999", headers: handshake, status: 409, gets: beyond},
		{does: "a negative one", as: acme, call: "GET /v1/ws?from=-1", headers: handshake, status: 400, gets: bad},
		{does: "none", as: acme, call: "GET /v1/ws?from=", headers: handshake, status: 400, gets: bad},
		{does: "a word", as: acme, call: "GET /v1/ws?from=last", headers: handshake, status: 400, gets: bad},
		{does: "no handshake", as: acme, call: "GET /v1/ws?from=1", status: 426, gets: `{"error":"…"}`},
	})
	acme.create(t, "reader", "").listenFrom(t, 2).valid("acme", 2)

	// A database that was restored from an older backup has fewer records than its client received.
	older := start(t, func(c *server.Config) { c.Stream = stream.Authenticated })
	acme = older.company(t, "acme")
	acme.attestMany(t, 2)
	acme.do(t, "GET /v1/ws?from=3", "", handshake...).gets(http.StatusConflict, beyond)
}

// Earlier records are not reported valid if the chain is invalid, even if nothing was appended
// since it was changed.
func TestResumeAfterTampering(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.NotOnPostgres(t, "no server there is told that an intruder has changed rows: verification finds it")
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.attestMany(t, 6)
	l := acme.listenFrom(t, 0)
	for i := range 6 {
		l.valid("acme", i)
	}
	s.file(t, `DROP TRIGGER record_no_update`, `UPDATE record SET payload = replace(payload, 'count', 'cheat') WHERE id = 1 << 40 | 4`)
	l = acme.listenFrom(t, 2)
	for i := 2; i < 6; i++ {
		l.invalid("acme", i, 4)
	}
	acme.attestMany(t, 1)
	l.invalid("acme", 6, 4)
	s.file(t, `UPDATE record SET payload = replace(payload, 'cheat', 'count') WHERE id = 1 << 40 | 4`)
	l = acme.listenFrom(t, 5)
	l.valid("acme", 5)
	l.valid("acme", 6)

	// If a chain has lost many records, the records after them are delivered all the same.
	acme.attestMany(t, 300)
	s.file(t, `DROP TRIGGER record_no_delete`, `DELETE FROM record WHERE id BETWEEN 1 << 40 | 7 AND 1 << 40 | 303`)
	l = acme.listenFrom(t, 7)
	for i := 304; i < 307; i++ {
		l.invalid("acme", i, 7)
	}
}

// While records are appended at full speed, clients that disconnect and resume with the index after
// their last record receive each record once.
func TestResumeUnderLoad(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	const records = 240
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range records / 4 {
				acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"x","payload":0}`).status(201)
			}
		})
	}
	hashes := make([][]string, 3)
	for who := range hashes {
		all.Go(func() {
			for have := &hashes[who]; len(*have) < records; {
				l := acme.listenFrom(t, len(*have))
				for range 10 + 37*who {
					if len(*have) == records {
						break
					}
					m := l.valid("acme", len(*have))
					*have = append(*have, m.record.Hash)
					if len(*have)%50 == 0 && *m.MerkleRoot != merkleRoot(*have) {
						t.Errorf("another root after record %d", m.record.Index)
					}
				}
				_ = l.conn.Close()
			}
		})
	}
	all.Wait()
}
