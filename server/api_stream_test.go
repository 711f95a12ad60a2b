package server_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/websocket"

	"attestd/crypto/cred"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/server/stream"
	"attestd/store/storetest"
)

// A message has the record as it was answered and the root of the whole chain after it.
func TestStreamMessage(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	token, _ := acme.exchange(t, acme.agent(t, "human"), acme.agent(t, "bot"))
	l := s.anyone().listen(t)
	var hashes []string
	for i, body := range []string{
		`{"agentId":"bot","actionType":"x","payload": { "b" : 1.50, "a":"\u00e9<" } }`,
		`{"agentId":"bot","actionType":"x","payload":null,"delegation":"` + token + `"}`,
		`{"agentId":"bot","actionType":"x","payload":[]}`,
	} {
		r := acme.do(t, "POST /v1/attest", body).status(201)
		m := l.valid("acme", i)
		if string(m.Record) != strings.TrimSpace(string(r.raw)) {
			t.Errorf("the stream shows %s, the answer was %s", m.Record, r.raw)
		}
		hashes = append(hashes, m.record.Hash)
		if root := merkleRoot(hashes); *m.MerkleRoot != root {
			t.Errorf("root %s, want %s", *m.MerkleRoot, root)
		}
	}
	// A refused request is not an event.
	acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"x","payload":1e400}`).status(400)
	acme.attestMany(t, 1)
	l.valid("acme", 3)
}

// Without a credential a client receives the records of all companies; with one, only those of its
// own.
func TestStreamOfOneCompany(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t)
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	everything := s.anyone().listen(t)
	own := []*listener{
		acme.listen(t),
		acme.with(acme.oauthToken(t)).listen(t),
		// A browser can send no other headers.
		s.anyone().listen(t, "Sec-WebSocket-Protocol: attestd.bearer, "+acme.credential),
	}
	if got := own[2].res.Header.Get("Sec-WebSocket-Protocol"); got != "attestd.bearer" {
		t.Errorf("the subprotocol is %q", got)
	}
	globex.attestMany(t, 2)
	acme.attestMany(t, 1)
	globex.attestMany(t, 1)
	acme.attestMany(t, 1)
	for _, l := range own {
		l.valid("acme", 0)
		l.valid("acme", 1)
	}
	next := map[string]int{}
	for range 5 {
		m := everything.next()
		company := m.record.Payload.CompanyID
		m.about(t, company, next[company])
		next[company]++
	}
	if next["acme"] != 2 || next["globex"] != 3 {
		t.Errorf("heard %v", next)
	}
}

// Control records are never events, and do not affect the verdict on the chain of actions, even if
// one of them was changed.
func TestStreamOmitsControlRecords(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	listeners := []*listener{s.anyone().listen(t), acme.listen(t)}
	heard := func(index int) {
		t.Helper()
		for _, l := range listeners {
			l.valid("acme", index)
		}
	}
	changed := acme.logNamed(t, "control").Size + 3
	acme.grow(t, "control", 5)
	acme.attestMany(t, 1)
	heard(0)
	acme.grow(t, "control", 1)
	s.file(t, "DROP TRIGGER record_no_update", fmt.Sprintf("UPDATE record SET payload = replace(payload, '\"n\":3', '\"n\":4') WHERE id = (-1 << 40) + %d", changed))
	acme.do(t, "GET /v1/verify?log=control", "").gets(200, fmt.Sprintf(`{"valid":false,"failedAtIndex":%d,"error":"…"}`, changed))
	acme.grow(t, "control", 1)
	acme.attestMany(t, 1)
	heard(1)
	acme.do(t, "GET /v1/verify", "").gets(200, `{"valid":true,"merkleRoot":"<hash>"}`)
}

// The mode of the stream decides who may listen.
func TestStreamRefused(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	testenv.Concurrent(t)
	t.Parallel()
	const listen = "GET /v1/ws"
	with := func(headers ...string) []string { return append(headers, handshake...) }
	unauthorized := func(does string, as caller, headers ...string) row {
		return row{does: does, as: as, call: listen, headers: with(headers...), status: 401, gets: `{"error":"Unauthorized"}`, sets: []string{"WWW-Authenticate: Bearer …"}}
	}
	made := "svc_" + strings.Repeat("A", 43)

	s := start(t)
	acme := s.company(t, "acme")
	table(t, []row{
		unauthorized("a made-up credential", s.anyone().with(made)),
		unauthorized("an empty credential", s.anyone(), "Authorization: Bearer "),
		unauthorized("a made-up credential in the subprotocol", s.anyone(), "Sec-WebSocket-Protocol: attestd.bearer, "+made),
		{does: "a page of another origin", as: s.anyone(), call: listen, headers: with("Origin: https://evil.example"), status: 403, gets: `{"error":"…"}`},
		{does: "a page of another port", as: s.anyone(), call: listen, headers: with("Origin: http://127.0.0.1:1"), status: 403, gets: `{"error":"…"}`},
		{does: "a page without an origin of its own", as: s.anyone(), call: listen, headers: with("Origin: null"), status: 403, gets: `{"error":"…"}`},
		{does: "such a page with a good key", as: acme, call: listen, headers: with("Origin: https://evil.example"), status: 403, gets: `{"error":"…"}`},
		{does: "a plain GET", as: s.anyone(), call: listen, status: 426, gets: `{"error":"…"}`, sets: []string{"Upgrade: websocket"}},
		{does: "a GET that upgrades to something else", as: s.anyone(), call: listen, headers: []string{"Connection: Upgrade", "Upgrade: h2c"}, status: 426, gets: `{"error":"…"}`},
	})
	s.anyone().listen(t, "Origin: "+s.url) // a page of the server's own origin

	closed := start(t, func(c *server.Config) { c.Stream = stream.Authenticated })
	acme = closed.company(t, "acme")
	table(t, []row{unauthorized("nobody, when all must say who they are", closed.anyone()), unauthorized("a made-up one there", closed.anyone().with(made))})
	l := acme.listen(t)
	closed.company(t, "globex").attestMany(t, 1)
	acme.attestMany(t, 1)
	l.valid("acme", 0)

	off := start(t, func(c *server.Config) { c.Stream = stream.Off })
	acme = off.company(t, "acme")
	table(t, []row{
		{does: "anybody, when it is off", as: off.anyone(), call: listen, headers: handshake, status: 404, gets: `{"error":"…"}`},
		{does: "a company, when it is off", as: acme, call: listen, headers: handshake, status: 404, gets: `{"error":"…"}`},
	})
}

// Under any number of concurrent appends every record is delivered once, for each company in the
// order of its chain.
func TestStreamOrder(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t)
	companies := []caller{s.company(t, "acme"), s.company(t, "globex")}
	l := s.anyone().listen(t)
	const writers, each = 4, 10 // for each company
	var wg sync.WaitGroup
	for _, c := range companies {
		for range writers {
			wg.Go(func() {
				for range each {
					if r := c.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"x","payload":0}`); r.code != 201 {
						t.Errorf("status %d", r.code)
					}
				}
			})
		}
	}
	defer wg.Wait()
	hashes := map[string][]string{}
	for range len(companies) * writers * each {
		m := l.next()
		id := m.record.Payload.CompanyID
		m.about(t, id, len(hashes[id]))
		hashes[id] = append(hashes[id], m.record.Hash)
		if root := merkleRoot(hashes[id]); !m.Valid || *m.MerkleRoot != root {
			t.Fatalf("%s record %d: valid %v with another root than %s", id, m.record.Index, m.Valid, root)
		}
	}
}

// A change that another program makes to the file is detected by the next append: the message
// reports where the chain fails.
func TestStreamAfterTampering(t *testing.T) {
	testenv.Concurrent(t)
	storetest.NotOnPostgres(t, "no server there is told that an intruder has changed rows: verification finds it")
	t.Parallel()
	s := start(t)
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	l := s.anyone().listen(t)
	acme.attestMany(t, 3)
	for i := range 3 {
		l.valid("acme", i)
	}
	s.file(t, `CREATE TABLE harmless (x TEXT)`)
	acme.attestMany(t, 1)
	l.valid("acme", 3)

	s.file(t, `DROP TRIGGER record_no_update`, `UPDATE record SET payload = replace(payload, 'count', 'cheat') WHERE id = 1 << 40 | 1`)
	acme.attestMany(t, 1)
	l.invalid("acme", 4, 1)
	acme.attestMany(t, 1)
	l.invalid("acme", 5, 1) // waiting does not make it valid again
	globex.attestMany(t, 1)
	l.valid("globex", 0) // another chain is not affected

	s.file(t, `UPDATE record SET payload = replace(payload, 'cheat', 'count') WHERE id = 1 << 40 | 1`)
	acme.attestMany(t, 1)
	l.valid("acme", 6) // the change was undone
}

// A removed record is detected at the next append. Afterwards all writes stop as soon as the head
// file, which is compared during appends, no longer matches the remaining records; this is
// therefore the first change that the service sees.
func TestStreamAfterARecordWasTakenOut(t *testing.T) {
	testenv.Concurrent(t)
	storetest.NotOnPostgres(t, "no server there is told that an intruder has changed rows: verification finds it")
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	l := acme.listen(t)
	acme.attestMany(t, 3)
	for i := range 3 {
		l.valid("acme", i)
	}
	s.file(t, `DROP TRIGGER record_no_delete`, `DELETE FROM record WHERE id = 1 << 40 | 2`)
	acme.attestMany(t, 1)
	l.invalid("acme", 3, 2)
	acme.do(t, "GET /v1/verify", "").gets(200, `{"valid":false,"failedAtIndex":2,"error":"…"}`)
}

// After a restart the first message covers the whole chain, not only the records that this process
// has seen.
func TestStreamAfterRestart(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	for does, cheat := range map[string]bool{"an untouched file": false, "a file changed in between": true} {
		t.Run(does, func(t *testing.T) {
			t.Parallel()
			first := start(t)
			acme := first.company(t, "acme")
			acme.attestMany(t, 5)
			first.stop()
			if cheat {
				first.file(t, `DROP TRIGGER record_no_update`, `UPDATE record SET signature = zeroblob(64) WHERE id = 1 << 40 | 2`)
			}
			second := startOn(t, first.path, cred.Domain{})
			acme = caller{second, "acme", acme.credential}
			l := acme.listen(t)
			acme.attestMany(t, 2)
			if cheat {
				l.invalid("acme", 5, 2)
				l.invalid("acme", 6, 2)
				return
			}
			l.valid("acme", 5)
			m := l.valid("acme", 6)
			acme.do(t, "GET /v1/verify", "").gets(200, `{"valid":true,"merkleRoot":"`+*m.MerkleRoot+`"}`)
		})
	}
}

// A server that stops says so on the stream, after it has delivered every acknowledged record.
func TestStreamEndsWithTheServer(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	l := acme.listen(t)
	acme.attestMany(t, 3)
	for i := range 3 {
		l.valid("acme", i)
	}
	stopped := make(chan struct{})
	go func() { defer close(stopped); s.stop() }()
	_, _, err := l.conn.ReadMessage()
	var closed *websocket.CloseError
	if !errors.As(err, &closed) || closed.Code != websocket.CloseGoingAway {
		t.Errorf("the stream ended with %v, want 1001", err)
	}
	<-stopped
}
