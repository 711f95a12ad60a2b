package store_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"attestd/chain"
	"attestd/chain/tlog"
	"attestd/internal/must"
	"attestd/internal/rewrite"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/storetest"
)

// kept opens a database with its head file next to it, and runs it until it is closed.
func kept(t testing.TB, path string) *store.Store {
	t.Helper()
	s := got(store.Open(ctx, path, schema(t), store.Options{Heads: storetest.Heads(path)}))(t)
	go s.Run(ctx, store.RunOptions{})
	t.Cleanup(func() { s.Close() })
	return s
}

// grown returns a closed database whose head file knows two companies, 40 actions of acme, a
// revoked passport and a published checkpoint; older is a backup from when there were 30 actions
// and the passport was valid.
func grown(t *testing.T) (path, older string) {
	t.Helper()
	path = storetest.New(t)
	s := kept(t, path)
	acme, _ := company(t, s, "acme")
	company(t, s, "zoo")
	must.OK(t, s.Passports.Record(ctx, by(acme, now), store.Passport{JTI: "lost", AgentID: "bot", Scopes: []string{"*"}, IssuedAt: 1, ExpiresAt: 1 << 40}))
	attest(t, s, acme, 30)
	must.OK(t, s.Close())
	older = storetest.Copy(t, path)
	s = kept(t, path)
	attest(t, s, acme, 10)
	got(s.Passports.Revoke(ctx, by(acme, now), "lost", nil))(t)
	publish(t, s, acme.Actions)
	must.OK(t, s.Close())
	return path, older
}

// publish stores a checkpoint of a log.
func publish(t testing.TB, s *store.Store, l store.Log) string {
	t.Helper()
	c := got(s.Companies.Get(ctx, "acme"))(t)
	head, _, err := s.Tip(ctx, l.Chain)
	must.OK(t, err)
	note := string(got(c.SignCheckpoint(l, tlog.Tree{Size: head.Length, Root: head.LogRoot}))(t))
	must.OK(t, s.Checkpoints.Keep(ctx, l.ID, head.Length, note))
	return note
}

// behind opens a database that must refuse all writes, and returns the reasons.
func behind(t testing.TB, path string) []string {
	t.Helper()
	s := kept(t, path)
	defer s.Close()
	var rolledBack *store.RolledBackError
	acme := got(s.Companies.Get(ctx, "acme"))(t)
	if _, err := s.Append(ctx, draft(acme)); !errors.As(err, &rolledBack) || !errors.Is(err, store.ErrRolledBack) {
		t.Errorf("append: %v", err)
	}
	if err := s.Ready(ctx); !errors.Is(err, store.ErrRolledBack) {
		t.Errorf("ready: %v", err)
	}
	if err := s.Passports.Record(ctx, by(acme, now), store.Passport{JTI: "more", AgentID: "bot", Scopes: []string{"*"}}); !errors.Is(err, store.ErrRolledBack) {
		t.Errorf("issue: %v", err)
	}
	// Reads still work.
	if err := s.VerifyAll(ctx, "", 2, nil, nil); err != nil && !errors.As(err, new(*store.VerifyError)) {
		t.Error(err)
	}
	if s.Rollback.HeadFile() != "" {
		t.Error("the head file is kept up")
	}
	var why []string
	for _, b := range s.Rollback.Behind() {
		why = append(why, b.Company+" "+string(b.Log)+" "+b.Why)
	}
	return why
}

// fine opens a database that must accept writes, and writes.
func fine(t testing.TB, path string) {
	t.Helper()
	s := kept(t, path)
	if len(s.Rollback.Behind()) > 0 {
		t.Errorf("behind: %+v", s.Rollback.Behind())
	}
	attest(t, s, got(s.Companies.Get(ctx, "acme"))(t), 2)
	must.OK(t, s.Close())
}

func accept(t testing.TB, path string) []store.Behind {
	t.Helper()
	return got(admin.AcceptRollback(ctx, path, schema(t), admin.AcceptOptions{Heads: storetest.Heads(path), Reason: "the disk died"}))(t)
}

func expect(t testing.TB, have []string, want ...string) {
	t.Helper()
	if len(have) != len(want) {
		t.Fatalf("have %q", have)
	}
	for i := range want {
		if !strings.Contains(have[i], want[i]) {
			t.Errorf("%q does not say %q", have[i], want[i])
		}
	}
}

// An older backup in place of the database can be read but not written until the operator accepts
// the rollback. The acceptance is a control record with the loss: the sizes, both roots and the
// last checkpoint.
func TestOlderDatabaseIsRefusedUntilAccepted(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	path, older := grown(t)
	fine(t, path)
	s := kept(t, path)
	acme := got(s.Companies.Get(ctx, "acme"))(t)
	lost, checkpoint := tip(t, s, acme), publish(t, s, acme.Actions)
	must.OK(t, s.Close())
	heads := got(os.ReadFile(storetest.Heads(path)))(t)
	if storetest.OnPostgres() {
		storetest.Replace(t, path, older)
	} else {
		got(admin.Restore(ctx, older, path, schema(t), admin.RestoreOptions{Force: true, AcceptRollback: true, At: now}))(t)
	}
	for range 2 { // a second start does not change the result
		expect(t, behind(t, path), "acme actions was known at size 42 with log root "+fmt.Sprintf("%x", lost.LogRoot[:])+", and is at size 30 with log root", "acme control was known at size")
	}
	if !bytes.Equal(got(os.ReadFile(storetest.Heads(path)))(t), heads) {
		t.Error("the head file has changed")
	}

	if list := accept(t, path); len(list) != 2 {
		t.Errorf("accepted %+v", list)
	}
	fine(t, path)
	s = kept(t, path)
	record := lastControl(t, s, acme)
	actions := record.Payload.Logs[0]
	if record.ActionType != "rollback.accepted" || record.Payload.Subject != "database" || record.Payload.Reason != "the disk died" || len(record.Payload.Logs) != 2 ||
		actions.Log != "actions" || actions.LogID != acme.Actions.ID || actions.Known.Size != 42 || actions.Known.Root != fmt.Sprintf("%x", lost.LogRoot[:]) ||
		actions.Known.MerkleRoot != fmt.Sprintf("%x", lost.Root[:]) || actions.Known.Checkpoint != checkpoint || actions.Found.Size != 30 {
		t.Errorf("the control record says %+v; the checkpoint was %q", record, checkpoint)
	}
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
	must.OK(t, s.Close())
	if _, err := admin.AcceptRollback(ctx, path, schema(t), admin.AcceptOptions{Heads: storetest.Heads(path), Reason: "again"}); !errors.Is(err, store.ErrRefused) {
		t.Errorf("nothing is behind: %v", err)
	}
}

// acceptance is the control record of a rollback.
type acceptance struct {
	ActionType string
	Payload    struct {
		Subject, Reason string
		Logs            []struct {
			Log, LogID   string
			Known, Found struct {
				Size                         int64
				MerkleRoot, Root, Checkpoint string
			}
			Revocations struct{ Known, Found int64 }
		}
	}
}

func lastControl(t testing.TB, s *store.Store, c *store.Company) (last acceptance) {
	t.Helper()
	head, _, err := s.Tip(ctx, c.Control.Chain)
	must.OK(t, err)
	must.OK(t, s.Records(ctx, c.Control.Chain, head.Length-1, head.Length, func(r *chain.Record) error { return json.Unmarshal(r.Payload, &last) }))
	return last
}

// A history that the operator rewrote with all keys is found both at the length that the head file
// knows and after it has grown beyond.
func TestRewrittenHistoryIsDetected(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	for _, more := range []int{0, 300} {
		path, _ := grown(t)
		n := got(rewrite.Record(ctx, path, schema(t), store.Options{}, "acme", store.Actions, 5, func(payload []byte) []byte {
			return bytes.Replace(payload, []byte("true"), []byte("false"), 1)
		}))(t)
		s := got(store.Open(ctx, path, schema(t), store.Options{}))(t)
		go s.Run(ctx, store.RunOptions{})
		attest(t, s, got(s.Companies.Get(ctx, "acme"))(t), more)
		must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil)) // nothing inside the file shows it
		must.OK(t, s.Check(ctx, schema(t)))
		must.OK(t, s.Close())
		if n != 40 {
			t.Errorf("%d records", n)
		}
		expect(t, behind(t, path), "acme actions was known at size 40 with log root")
		accept(t, path)
		fine(t, path)
	}
}

// A rewritten control log is found as well.
func TestRewrittenControlLogIsDetected(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	path, _ := grown(t)
	got(rewrite.Record(ctx, path, schema(t), store.Options{}, "zoo", store.Control, 1, func(payload []byte) []byte {
		return bytes.Replace(payload, []byte(`"label":"bootstrap"`), []byte(`"label":"Bootstrap"`), 1)
	}))(t)
	expect(t, behind(t, path), "zoo control was known at size 2 with log root")
}

// A revocation that was undone is found by the database's own count or, if that was changed too, by
// the count in the head file.
func TestUndoneRevocationIsDetected(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	for _, counted := range []bool{false, true} {
		path, _ := grown(t)
		must.OK(t, rewrite.Unrevoke(ctx, path, "lost", counted))
		if !counted {
			must.OK(t, os.Remove(storetest.Heads(path)))
		}
		expect(t, behind(t, path), "acme control was known with 1 revocations of passports, and 0 are there")
		accept(t, path)
		s := kept(t, path)
		if r := lastControl(t, s, got(s.Companies.Get(ctx, "acme"))(t)).Payload.Logs; len(r) != 1 || r[0].Revocations.Known != 1 || r[0].Revocations.Found != 0 {
			t.Errorf("recorded: %+v", r)
		}
		must.OK(t, s.Close())
	}
}

// A company that was deleted completely is detected. Its loss is recorded in the log of the oldest
// remaining company.
func TestRemovedCompanyIsDetected(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	path, _ := grown(t)
	older := storetest.Copy(t, path)
	s := kept(t, path)
	company(t, s, "newcomer")
	must.OK(t, s.Close())
	storetest.Replace(t, path, older)
	expect(t, behind(t, path), "@installation control was known at size 4 with log root", "  was known at size 2 with log root"[1:])
	accept(t, path)
	fine(t, path)
	s = kept(t, path)
	if r := lastControl(t, s, got(s.Companies.Get(ctx, "acme"))(t)).Payload.Logs; len(r) != 1 || r[0].Log != "control" || r[0].Known.Size != 2 {
		t.Errorf("recorded: %+v", r)
	}
}

// The head file is compared at the next commit after an external write to a served file: a history
// that was truncated and has grown again stops all writes.
func TestTruncationWhileServedIsDetected(t *testing.T) {
	testenv.Concurrent(t)
	storetest.AboutFile(t)
	t.Parallel()
	path, older := grown(t)
	s := kept(t, path)
	acme := got(s.Companies.Get(ctx, "acme"))(t)
	attest(t, s, acme, 3)
	other(t, path, unguarded...)
	other(t, path, "DROP TRIGGER head_no_delete", "DROP TRIGGER node_no_update", "ATTACH '"+older+"' AS older",
		"DELETE FROM record WHERE id >> 40 = 1 AND id & 1099511627775 >= 30").Close()
	source := other(t, path, "ATTACH '"+older+"' AS older")
	_, err := source.Exec("UPDATE head SET (length, root, frontier, timestamp, log_root, log_frontier) = (SELECT length, root, frontier, timestamp, log_root, log_frontier FROM older.head WHERE chain = 1) WHERE chain = 1")
	must.OK(t, err)
	attest(t, s, acme, 1) // this commit detects it
	for err == nil {
		_, err = s.Append(ctx, draft(acme))
	}
	if !errors.Is(err, store.ErrRolledBack) {
		t.Errorf("append: %v", err)
	}
	must.OK(t, s.Close())
	if len(behind(t, path)) == 0 {
		t.Error("it is forgotten at the next start")
	}
}
