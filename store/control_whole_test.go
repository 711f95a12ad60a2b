package store_test

import (
	"database/sql"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/storetest"
)

// prepared is a database in which every kind of change can be made.
type prepared struct {
	path        string
	c           *store.Company
	key, client string
	hook, off   string // two webhooks, of which off is disabled
}

func prepare(t *testing.T) (p prepared) {
	t.Helper()
	s, path := fresh(t)
	p.path = path
	p.c, _ = company(t, s, "acme")
	who := by(p.c, now)
	p.key = got(s.Credentials.CreateKey(ctx, who, nil, full, 1000))(t).Key
	client, _, err := s.Credentials.CreateClient(ctx, who, full, 1000)
	must.OK(t, err)
	p.client = client.ID
	for _, id := range []string{"bot", "stopped"} {
		got(s.Agents.Register(ctx, who, id, nil, many))(t)
	}
	_, _, err = s.Agents.Disable(ctx, who, "stopped")
	must.OK(t, err)
	for _, jti := range []string{"a", "b"} {
		must.OK(t, s.Passports.Record(ctx, who, passport(jti, 1)))
	}
	for _, id := range []*string{&p.hook, &p.off} {
		*id = got(s.Webhooks.Create(ctx, who, store.Webhook{URL: "https://hooks.example.com/"}, webhookSecret(), 16))(t).ID
	}
	got(s.Webhooks.Disable(ctx, who, p.off, store.WebhookRequested))(t)
	attest(t, s, p.c, 2)
	must.OK(t, s.Settings.RecordStart(ctx, map[string]string{"stream": "open"}))
	must.OK(t, s.Close())
	if storetest.OnPostgres() {
		return p // PostgreSQL has its own backups
	}
	in := backUp(t, p.path)
	p.path = target(t)
	must.OK(t, restore(t, in, p.path, admin.RestoreOptions{At: now}))
	return p
}

// kinds are all changes that a control log records.
func (p prepared) kinds() map[string]func(*store.Store) error {
	who := by(p.c, now)
	return map[string]func(*store.Store) error{
		"company registered": func(s *store.Store) error { _, _, err := s.Companies.Create(ctx, "umbrella", nil, now); return err },
		"key made": func(s *store.Store) error {
			_, err := s.Credentials.CreateKey(ctx, who, ptr("new"), full, 1000)
			return err
		},
		"key deleted":      func(s *store.Store) error { return s.Credentials.DeleteKey(ctx, who, p.key) },
		"client made":      func(s *store.Store) error { _, _, err := s.Credentials.CreateClient(ctx, who, full, 1000); return err },
		"client deleted":   func(s *store.Store) error { _, err := s.Credentials.DeleteClient(ctx, who, p.client); return err },
		"agent registered": func(s *store.Store) error { _, err := s.Agents.Register(ctx, who, "new", nil, many); return err },
		"agent registered anew": func(s *store.Store) error {
			_, err := s.Agents.Register(ctx, who, "bot", raw(`{"a":1}`), many)
			return err
		},
		"agent disabled":    func(s *store.Store) error { _, _, err := s.Agents.Disable(ctx, who, "bot"); return err },
		"agent enabled":     func(s *store.Store) error { _, err := s.Agents.Enable(ctx, who, "stopped"); return err },
		"passport issued":   func(s *store.Store) error { return s.Passports.Record(ctx, who, passport("c", 1)) },
		"passport revoked":  func(s *store.Store) error { _, err := s.Passports.Revoke(ctx, who, "a", ptr("lost")); return err },
		"passport rotated":  func(s *store.Store) error { return s.Passports.Rotate(ctx, who, passport("a", 1), passport("c", 1)) },
		"key rotated":       func(s *store.Store) error { _, _, err := s.Companies.RotateKey(ctx, who, false); return err },
		"key declared lost": func(s *store.Store) error { _, _, err := s.Companies.RotateKey(ctx, who, true); return err },
		"webhook made": func(s *store.Store) error {
			_, err := s.Webhooks.Create(ctx, who, store.Webhook{URL: "https://hooks.example.com/"}, webhookSecret(), 16)
			return err
		},
		"webhook deleted": func(s *store.Store) error { return s.Webhooks.Delete(ctx, who, p.hook) },
		"webhook disabled": func(s *store.Store) error {
			_, err := s.Webhooks.Disable(ctx, who, p.hook, store.WebhookGone)
			return err
		},
		"webhook enabled": func(s *store.Store) error { _, _, err := s.Webhooks.Enable(ctx, who, p.off); return err },
		"webhook secret changed": func(s *store.Store) error {
			_, err := s.Webhooks.RotateSecret(ctx, who, p.hook, webhookSecret(), now.Add(time.Hour))
			return err
		},
		"settings changed, after a restore": func(s *store.Store) error {
			return s.Settings.RecordStart(ctx, map[string]string{"stream": "off"})
		},
	}
}

// state is the content of a database: the rows with permissions, and the control logs.
type state struct{ rows, control string }

func stateOf(t testing.TB, path string) (of state) {
	t.Helper()
	db := other(t, path)
	defer db.Close()
	for _, table := range []string{"company", "company_key", "log_key", "api_key", "oauth_client", "agent", "passport", "webhook"} {
		of.rows += table + dump(t, db, "SELECT * FROM "+table)
	}
	of.rows += dump(t, db, "SELECT * FROM setting WHERE name IN ('trust_settings', 'restored') ORDER BY name")
	of.control = dump(t, db, "SELECT * FROM record WHERE id < 0 ORDER BY id") + dump(t, db, "SELECT * FROM head WHERE chain < 0 ORDER BY chain")
	return of
}

func dump(t testing.TB, db *sql.DB, query string) string {
	t.Helper()
	rows := got(db.Query(query))(t)
	defer rows.Close()
	var text strings.Builder
	values := make([]any, len(got(rows.Columns())(t)))
	into := make([]any, len(values))
	for i := range values {
		into[i] = &values[i]
	}
	for rows.Next() {
		must.OK(t, rows.Scan(into...))
		fmt.Fprintf(&text, "%q\n", values)
	}
	must.OK(t, rows.Err())
	return text.String()
}

// commits counts the transactions in a write-ahead log: the last frame of each contains the new
// size of the database.
func commits(log []byte) (n int) {
	const header, frame = 32, 24 // https://www.sqlite.org/fileformat2.html#walformat
	step := frame + int(binary.BigEndian.Uint32(log[8:]))
	// Frames of the current log have the same salts as its header.
	for at := header; at+step <= len(log) && string(log[at+8:at+16]) == string(log[16:24]); at += step {
		if binary.BigEndian.Uint32(log[at+4:]) != 0 {
			n++
		}
	}
	return n
}

// After a crash at any moment a change and its control record are both present or both absent: the
// test cuts the write-ahead log at every frame and within a frame. Each change and its record are
// one commit.
func TestChangeAndControlRecordAreAtomic(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	p := prepare(t)
	content := got(os.ReadFile(p.path))(t)
	before := stateOf(t, p.path)
	for kind, change := range p.kinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			path := target(t)
			must.OK(t, os.WriteFile(path, content, 0o600))
			s := open(t, path)
			// This is one commit; the start may make commits of its own before it.
			attest(t, s, p.c, 1)
			// The reader keeps the write-ahead log from being truncated after a rotation.
			reader := other(t, path, "BEGIN", "SELECT count(*) FROM record")
			start := commits(got(os.ReadFile(path + "-wal"))(t))
			must.OK(t, change(s))
			log := got(os.ReadFile(path + "-wal"))(t)
			must.OK(t, reader.Close())
			if n := commits(log) - start; n != 1 {
				t.Errorf("%d commits", n)
			}
			must.OK(t, s.Close())
			after := stateOf(t, path)
			if after.rows == before.rows || after.control == before.control {
				t.Fatal("it changed nothing, or recorded nothing")
			}
			outcomes := map[string]int{}
			for cut := range crashes(t, content, log) {
				switch stateOf(t, cut) {
				case before:
					outcomes["neither"]++
				case after:
					outcomes["both"]++
				default:
					outcomes["something else"]++
				}
				s := open(t, cut)
				must.OK(t, s.VerifyAll(ctx, "", 1, nil, nil))
				must.OK(t, s.Close())
			}
			if outcomes["neither"] == 0 || outcomes["both"] == 0 || len(outcomes) != 2 {
				t.Errorf("outcomes: %v", outcomes)
			}
		})
	}
}

// If the record cannot be written, the change is not made, and the reverse holds too.
func TestChangeRequiresControlRecord(t *testing.T) {
	t.Parallel()
	p := prepare(t)
	before := stateOf(t, p.path)
	for kind, change := range p.kinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			path := storetest.Copy(t, p.path)
			s := open(t, path)
			other(t, path, "CREATE TRIGGER refused BEFORE INSERT ON record WHEN NEW.id < 0 BEGIN SELECT RAISE(ABORT, 'refused'); END")
			if err := change(s); err == nil {
				t.Error("a change went through without its record")
			}
			other(t, path, "DROP TRIGGER refused")
			must.OK(t, s.Close())
			if stateOf(t, path) != before {
				t.Error("the failed change has left something")
			}
			must.OK(t, open(t, path).VerifyAll(ctx, "", 1, nil, nil))
		})
	}
}
