package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"attestd/crypto/keys"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/db"
	"attestd/store/storetest"
)

// checkRollback restores in over path. The restore must first be refused with exactly the wanted
// lines, in which … matches any text, and change nothing; with the rollback accepted it must
// succeed and report the same lines.
func checkRollback(t *testing.T, in, path string, want ...string) {
	t.Helper()
	before := got(os.ReadFile(path))(t)
	undone, err := admin.Restore(ctx, in, path, schema(t), admin.RestoreOptions{Force: true})
	if !errors.Is(err, store.ErrRefused) || !strings.Contains(err.Error(), "--accept-rollback") {
		t.Errorf("by force alone: %v", err)
	}
	if !slices.EqualFunc(undone.Lines, want, like) {
		t.Errorf("lines:\n%s\nwant:\n%s", strings.Join(undone.Lines, "\n"), strings.Join(want, "\n"))
	}
	if !bytes.Equal(got(os.ReadFile(path))(t), before) {
		t.Error("the refused restore has changed the file")
	}
	again, err := admin.Restore(ctx, in, path, schema(t), accepted)
	must.OK(t, err)
	if !slices.Equal(again.Lines, undone.Lines) || again.More != undone.More {
		t.Errorf("accepted, it says:\n%s", strings.Join(again.Lines, "\n"))
	}
}

func like(have, want string) bool {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(want), "…", ".*") + "$").MatchString(have)
}

func backUp(t *testing.T, path string) (out string) {
	t.Helper()
	out = target(t)
	must.OK(t, admin.Backup(ctx, path, out, schema(t), nil))
	return out
}

func fingerprint(k store.APIKey) string {
	hash := keys.HashSecret(k.Key)
	return fmt.Sprintf("%x", hash[:8])
}

func TestRestoreReportsLostChanges(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	s, path := fresh(t)
	acme, first := company(t, s, "acme")
	someone := by(acme, now)
	zoo, _ := company(t, s, "zoo")
	attest(t, s, acme, 30)
	attest(t, s, zoo, 5)
	kept := got(s.Credentials.CreateKey(ctx, someone, nil, full, 1000))(t)
	client, _, err := s.Credentials.CreateClient(ctx, someone, full, 1000)
	must.OK(t, err)
	for _, jti := range []string{"p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7"} {
		must.OK(t, s.Passports.Record(ctx, someone, store.Passport{JTI: jti, AgentID: "bot", Scopes: []string{"*"}, IssuedAt: 1, ExpiresAt: 2}))
	}
	for _, id := range []string{"bot", "stopped"} {
		got(s.Agents.Register(ctx, someone, id, nil, many))(t)
	}
	got(s.Passports.Revoke(ctx, someone, "p0", nil))(t)
	in := backUp(t, path)

	attest(t, s, acme, 12)
	umbrella, _ := company(t, s, "umbrella")
	attest(t, s, umbrella, 2)
	for _, jti := range []string{"p1", "p2", "p3", "p4", "p5", "p6", "p7"} {
		got(s.Passports.Revoke(ctx, someone, jti, nil))(t)
	}
	must.OK(t, s.Credentials.DeleteKey(ctx, someone, first.Key))
	fresh := got(s.Credentials.CreateKey(ctx, someone, nil, full, 1000))(t)
	later, _, err := s.Credentials.CreateClient(ctx, someone, full, 1000)
	must.OK(t, err)
	got(s.Agents.Register(ctx, someone, "newcomer", nil, many))(t)
	must.OK(t, s.Passports.Record(ctx, someone, store.Passport{JTI: "p8", AgentID: "bot", Scopes: []string{"*"}, IssuedAt: 1, ExpiresAt: 2}))
	got(s.Credentials.DeleteClient(ctx, someone, client.ID))(t)
	_, _, err = s.Agents.Disable(ctx, someone, "stopped")
	must.OK(t, err)
	must.OK(t, s.Close())

	checkRollback(t, in, path,
		"log of the companies: 4 records, the backup has 3",
		"acme: 42 records, the backup has 30",
		"acme (control): … records, the backup has …",
		"acme: passports revoked since, valid again (7): p1, p2, p3, p4, p5, and 2 more",
		"acme: API keys deleted since, accepted again (1): "+fingerprint(first),
		"acme: OAuth clients deleted since, accepted again (1): "+client.ID,
		"acme: API keys made since, gone (1): "+fingerprint(fresh),
		"acme: OAuth clients made since, gone (1): "+later.ID,
		"acme: agents registered since, gone (1): newcomer",
		"acme: passports issued since, gone (1): p8",
		"acme: agents disabled since, enabled again (1): stopped",
		"umbrella: 2 records, and the backup has no such company")

	// Nothing is lost if the current database is the backup itself, or if the backup is ahead of
	// it.
	must.OK(t, restore(t, in, path, admin.RestoreOptions{Force: true}))
	s = open(t, path)
	attest(t, s, acme, 1)
	got(s.Credentials.Authenticate(ctx, keys.HashSecret(kept.Key), now))(t)
	must.OK(t, s.Close())
	must.OK(t, restore(t, backUp(t, path), in, admin.RestoreOptions{Force: true}))
}

func TestRestoreReportsDifferentHistory(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	path, acme := sample(t)
	in := backUp(t, path)
	ours, theirs := backUp(t, path), backUp(t, path)
	for file, n := range map[string]int{ours: 4, theirs: 4} {
		s := open(t, file)
		attest(t, s, acme, n) // the time differs, so the hashes differ
		must.OK(t, s.Close())
	}
	checkRollback(t, theirs, ours, "acme: another history: 304 records, the backup has 304, and they differ from record 300 on")

	must.OK(t, other(t, path, append(unguarded, "UPDATE head SET root = zeroblob(32) WHERE chain = 1", "PRAGMA wal_checkpoint(TRUNCATE)")...).Close())
	checkRollback(t, in, path, "acme: another history: 300 records in both, and another chain root")

	s, stranger := fresh(t)
	company(t, s, "acme")
	must.OK(t, s.Close())
	checkRollback(t, in, stranger, "log of the companies: another history: 2 records, the backup has 3, signed with another key",
		"acme: another history: 0 records, the backup has 300, signed with another key")
}

// A database that cannot be read might contain anything.
func TestRestoreOverUnreadableDatabase(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	in, _ := sample(t)
	newer, _ := sample(t)
	must.OK(t, other(t, newer, "PRAGMA user_version = 999", "PRAGMA wal_checkpoint(TRUNCATE)").Close())
	checkRollback(t, in, newer, fmt.Sprint("what it holds cannot be compared: …this one knows ", db.SchemaVersion))
	damaged, _ := sample(t)
	must.OK(t, os.WriteFile(damaged, scribble(got(os.ReadFile(damaged))(t), 100, 9000), 0o600))
	checkRollback(t, in, damaged, "what it holds cannot be compared: …")
	inside, _ := sample(t) // it can be opened, but reading it fails
	content := got(os.ReadFile(inside))(t)
	must.OK(t, os.WriteFile(inside, scribble(content, len(content)/2, len(content)), 0o600))
	checkRollback(t, in, inside, "what it holds cannot be compared: …")
}

func TestRestoreReportIsBounded(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	s, path := fresh(t)
	in := backUp(t, path)
	for n := range 130 {
		company(t, s, fmt.Sprintf("c%03d", n))
	}
	must.OK(t, s.Close())
	undone, err := admin.Restore(ctx, in, path, schema(t), admin.RestoreOptions{Force: true})
	if !errors.Is(err, store.ErrRefused) || len(undone.Lines) != 100 || undone.More != 31 {
		t.Errorf("%d lines and %d more, %v", len(undone.Lines), undone.More, err)
	}
}

// A backup of an older schema knows of no disabled agent.
func TestRestoreOfOlderSchema(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	in, _ := written(t, "1")
	path := target(t)
	must.OK(t, restore(t, in, path, admin.RestoreOptions{}))
	must.OK(t, open(t, path).Close())
	// Only the schema is newer.
	must.OK(t, restore(t, in, path, admin.RestoreOptions{Force: true}))
	must.OK(t, open(t, path).Close())
	must.OK(t, other(t, path, "UPDATE agent SET disabled_at = '' WHERE company = 1 AND agent_id = 'git-bot'", "PRAGMA wal_checkpoint(TRUNCATE)").Close())
	checkRollback(t, in, path, "acme: agents disabled since, enabled again (1): git-bot")
}
