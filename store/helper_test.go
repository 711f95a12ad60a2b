package store_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"attestd/chain"
	"attestd/chain/tlog"
	"attestd/crypto/jose"
	"attestd/crypto/seal"
	"attestd/crypto/statement"
	"attestd/internal/must"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/names"
	"attestd/store/storetest"
)

var (
	ctx = context.Background()
	now = time.Date(2026, 3, 4, 5, 6, 7, 8e6, time.UTC)
)

func schema(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("../schema.sql")
	must.OK(t, err)
	return string(text)
}

// got returns v and ends the test on an error.
func got[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		must.OK(t, err)
		return v
	}
}

// open opens a database and runs it until it is closed.
func open(t testing.TB, path string) *store.Store {
	t.Helper()
	return openWith(t, path, store.RunOptions{})
}

func openWith(t testing.TB, path string, o store.RunOptions) *store.Store {
	t.Helper()
	s, err := store.Open(ctx, path, schema(t), store.Options{Master: master()})
	if errors.Is(err, store.ErrMasterKey) { // the file was created before master keys existed
		s, err = store.Open(ctx, path, schema(t), store.Options{})
	}
	must.OK(t, err)
	go s.Run(ctx, o)
	t.Cleanup(func() { s.Close() })
	if storetest.IsShared(path) {
		must.OK(t, s.Settings.RecordStart(ctx, another()))
	}
	return s
}

// another returns what one of several servers records at its start: each has a version of its own,
// and other settings than all before, as in a rolling upgrade.
func another() map[string]string {
	n := servers.Add(1)
	return map[string]string{"program": fmt.Sprint("attestd/", n), "publicAddress": fmt.Sprintf("https://%d.example", n),
		"stream": []string{"open", "off"}[n%2], fmt.Sprint("only", n): "on"}
}

var servers atomic.Int64

// master is the key that seals new databases in these tests. The tests pass with and without one;
// ATTESTD_MASTER_KEY_FILE names the file of the key.
var master = sync.OnceValue(func() *seal.Master {
	path := os.Getenv("ATTESTD_MASTER_KEY_FILE")
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	key, err := seal.ParseMaster(text)
	if err != nil {
		panic(err)
	}
	return &key
})

// fresh opens a new database and returns its path.
func fresh(t testing.TB) (*store.Store, string) {
	t.Helper()
	path := storetest.New(t)
	return open(t, path), path
}

func company(t testing.TB, s *store.Store, id string) (*store.Company, store.APIKey) {
	t.Helper()
	c, key, err := s.Companies.Create(ctx, id, nil, now)
	must.OK(t, err)
	return c, key
}

// other opens the database as another program would, and runs statements.
func other(t testing.TB, path string, statements ...string) *sql.DB {
	t.Helper()
	return storetest.Stranger(t, path, statements...)
}

// unguarded are the statements that let an attacker change records.
var unguarded = []string{"DROP TRIGGER record_no_update", "DROP TRIGGER record_no_delete", "DROP TRIGGER head_only_grows"}

// attest appends n valid records to the chain of c, as the service does.
func attest(t testing.TB, s *store.Store, c *store.Company, n int) {
	t.Helper()
	answers := make(chan error)
	var next atomic.Int64
	for range 32 {
		go func() {
			for next.Add(1) <= int64(n) {
				if _, err := s.Append(ctx, draft(c)); err != nil {
					answers <- err
					return
				}
			}
			answers <- nil
		}()
	}
	for range 32 {
		must.OK(t, <-answers)
	}
}

func draft(c *store.Company) chain.Draft { return saying(c, `{"ok":true}`) }

// saying returns the draft of an action whose inner payload is a canonical JSON text.
func saying(c *store.Company, inner string) chain.Draft {
	payload := []byte(`{"actionType":"build","agentId":"bot","companyId":"` + c.ID + `","payload":` + inner + `}`)
	return chain.Draft{Chain: c.Chain, Payload: payload, Canonical: payload}
}

// signed returns the draft of a statement of an agent's key, at a place of its session "run".
func signed(t testing.TB, key *jose.PrivateKey, c *store.Company, seq int64, inner string) chain.Draft {
	t.Helper()
	return signedIn(t, key, c, "run", seq, inner, now)
}

func signedIn(t testing.TB, key *jose.PrivateKey, c *store.Company, session string, seq int64, inner string, at time.Time) chain.Draft {
	t.Helper()
	d := saying(c, inner)
	claims := statement.Claims{Issuer: "spiffe://attestd.local/company/" + c.ID + "/agent/bot", Audience: "spiffe://attestd.local/company/" + c.ID,
		IssuedAt: at.Unix(), ID: fmt.Sprintf("%s-%d", key.Key().Thumbprint[:8], seq), ActionHash: statement.HashCanonical(d.Canonical), Session: session, Seq: seq}
	if seq > 0 {
		claims.Previous = strings.Repeat("0", 64)
	}
	s := got(statement.Make(ctx, key, claims))(t)
	d.Payload = append(d.Payload[:len(d.Payload)-1], `,"statement":"`+s.Compact+`"}`...)
	d.Canonical, d.Keys = d.Payload, names.Statement(s)
	return d
}

// controlDraft returns the draft of a control record without content.
func controlDraft(c *store.Company) chain.Draft {
	payload := []byte(`{"actionType":"build","agentId":"bot","companyId":"` + c.ID + `","log":"control","payload":{"subject":"test"}}`)
	return chain.Draft{Chain: c.Control.Chain, Payload: payload, Canonical: payload}
}

// extension adds n records without meaning to head; the store does not interpret records.
func extension(number int64, from chain.Head, n int) chain.Extension {
	e := chain.Extension{Chain: number, From: from, Head: chain.Head{Length: from.Length + int64(n), Timestamp: chain.FormatTime(now)}}
	for i := from.Length; i < e.Head.Length; i++ {
		h := sha256.Sum256(fmt.Append(nil, "record ", number, " ", i))
		r := chain.Record{Index: i, Timestamp: e.Head.Timestamp, Hash: h, Payload: fmt.Appendf(nil, `{"n": %d}`, i)}
		copy(r.Signature[:], h[:])
		if i%3 == 0 {
			r.Delegation = []byte(`{"act":null}`)
		}
		e.Records = append(e.Records, r)
	}
	e.Head.Root = sha256.Sum256(fmt.Append(nil, "root ", e.Head.Length))
	e.Head.Frontier = []chain.Hash{e.Head.Root, {1}}
	e.Head.Log, e.Head.LogRoot = tlog.Frontier{Size: e.Head.Length, Roots: []tlog.Hash{{2}, {3}}}, tlog.Hash{4}
	return e
}

func length(t testing.TB, s *store.Store, c *store.Company) int64 {
	t.Helper()
	return tip(t, s, c).Length
}

func tip(t testing.TB, s *store.Store, c *store.Company) chain.Head {
	t.Helper()
	h, _, err := s.Tip(ctx, c.Chain)
	must.OK(t, err)
	return h
}

// verified verifies every chain and returns the verdicts about the actions of each company.
func verified(t testing.TB, s *store.Store) (verdicts []store.ChainVerdict) {
	t.Helper()
	must.OK(t, s.VerifyAll(ctx, "", 2, func(v store.ChainVerdict) {
		if v.Log == store.Actions {
			verdicts = append(verdicts, v)
		}
	}, nil))
	return verdicts
}

func ptr[T any](v T) *T { return &v }

func raw(s string) json.RawMessage { return json.RawMessage(s) }

// by returns a caller of a company at a given time.
func by(c *store.Company, at time.Time) store.Caller {
	return store.Caller{Company: c, Credential: "0123456789abcdef", At: at}
}

// full grants everything without expiry.
var full = store.Grant{Role: store.Admin}

// many is a limit that no test reaches.
var many = store.AgentBounds{Most: 1000}

// all collects the values of a sequence.
func all[T any](t testing.TB, items iter.Seq2[T, error]) (list []T) {
	t.Helper()
	for item, err := range items {
		must.OK(t, err)
		list = append(list, item)
	}
	return list
}

// same reports whether two values look the same from outside, that is without internal values such
// as row numbers.
func same(a, b any) bool { return shown(a) == shown(b) }

func shown(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func restore(t testing.TB, in, path string, o admin.RestoreOptions) error {
	_, err := admin.Restore(ctx, in, path, schema(t), o)
	return err
}

// crashes yields the databases that a crash may leave: the content of the file with its write-ahead
// log cut at every frame and within a frame.
func crashes(t testing.TB, content, log []byte) iter.Seq[string] {
	const header, frame = 32, 24 // https://www.sqlite.org/fileformat2.html#walformat
	step := frame + int(binary.BigEndian.Uint32(log[8:]))
	return func(yield func(path string) bool) {
		for end := header; end <= len(log); end += step / 2 {
			path := filepath.Join(t.TempDir(), "attestd.db")
			must.OK(t, os.WriteFile(path, content, 0o600))
			must.OK(t, os.WriteFile(path+"-wal", log[:end], 0o600))
			if !yield(path) {
				return
			}
		}
	}
}
