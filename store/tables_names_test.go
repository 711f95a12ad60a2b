package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"attestd/chain"
	"attestd/crypto/jose"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/names"
	"attestd/store/storetest"
)

// named fills a company with records of every kind of name, and returns the draft of its last
// statement.
func named(t testing.TB, s *store.Store, c *store.Company) chain.Draft {
	t.Helper()
	must.OK(t, s.Settings.RecordStart(ctx, nil))
	key := got(jose.GenerateKey(jose.EdDSA))(t)
	must.OK(t, s.Sessions.Note(ctx, by(c, now), names.Session{AgentID: "bot", Key: key.Key().Thumbprint, ID: "run"}))
	var last chain.Draft
	for i := range 3 {
		got(once(t, s, draft(c)))(t)
		last = signed(t, key, c, int64(i), fmt.Sprint(i))
		got(once(t, s, last))(t)
		got(once(t, s, inSession(c, "chat", "")))(t)
		got(once(t, s, keyed(c, fmt.Sprint("retry ", i), fmt.Sprint("request ", i))))(t)
	}
	must.OK(t, s.Sessions.Note(ctx, by(c, now), names.Session{AgentID: "bot", Key: names.Hooks, ID: "chat"}))
	return last
}

// isSigned selects the rows of names of statements.
const isSigned = "idx IN (1, 5, 9)"

// nameForgeries are statements that change, add or delete rows that follow from records, each with
// what verify says of it.
var nameForgeries = map[string]struct{ statement, says string }{
	"idempotency_key.chain":      {"UPDATE idempotency_key SET chain = 2 WHERE " + isSigned, "is missing, and is a name of the statement of record"},
	"idempotency_key.name":       {"UPDATE idempotency_key SET name = zeroblob(32) WHERE name IN (SELECT name FROM idempotency_key WHERE expires_at = (SELECT max(expires_at) FROM idempotency_key) ORDER BY idx LIMIT 1)", "is missing, and is a name of the statement of record 1"},
	"idempotency_key.request":    {"UPDATE idempotency_key SET request = zeroblob(32) WHERE " + isSigned, "for another request"},
	"idempotency_key.idx":        {"UPDATE idempotency_key SET idx = idx + 4 WHERE idx IN (1, 5)", "leads to record"},
	"idempotency_key.expires_at": {"UPDATE idempotency_key SET expires_at = 9999999999999 WHERE expires_at = (SELECT max(expires_at) FROM idempotency_key)", "has an end, and the name is taken for good"},
	"agent_session.company":      {"UPDATE agent_session SET company = 2 WHERE sid = 'run'", "is missing, and record 1 has a statement of it"},
	"agent_session.agent_id":     {"UPDATE agent_session SET agent_id = 'other' WHERE sid = 'run'", "is missing, and record 1 has a statement of it"},
	"agent_session.kid":          {"UPDATE agent_session SET kid = kid || 'x' WHERE sid = 'run'", "is missing, and record 1 has a statement of it"},
	"agent_session.sid":          {"UPDATE agent_session SET sid = 'walk' WHERE sid = 'run'", "is missing, and record 1 has a statement of it"},

	"an emptied table":                  {"DELETE FROM idempotency_key", "is missing, and is a name of the statement of record 1"},
	"sessions that are gone":            {"DELETE FROM agent_session", "is missing, and record 1 has a statement of it"},
	"a statement's name gone":           {"DELETE FROM idempotency_key WHERE idx = 9", "is missing, and is a name of the statement of record 9"},
	"a record taken out of a session":   {"DELETE FROM idempotency_key WHERE idx = 6", "is missing, and is the name of record 6 in a session"},
	"a name that no record has":         {"INSERT INTO idempotency_key (chain, name, request, idx, expires_at) SELECT 1, zeroblob(32), request, idx, expires_at FROM idempotency_key WHERE idx = 1 LIMIT 1", "is taken for good by record 1, of which it is no name"},
	"a name of no record":               {"INSERT INTO idempotency_key (chain, name, request, idx, expires_at) VALUES (1, zeroblob(32), zeroblob(32), 99, 9999999999999)", "leads to record 99, which is not there"},
	"a retry of another request":        {"UPDATE idempotency_key SET request = (SELECT request FROM idempotency_key WHERE idx = 7) WHERE idx = 3", "leads to record 3, which is another request's"},
	"two retries that were exchanged":   {"UPDATE idempotency_key SET idx = CASE idx WHEN 3 THEN 7 ELSE 3 END WHERE idx IN (3, 7)", "which is another request's"},
	"a record put into another's place": {"UPDATE idempotency_key SET idx = 2 WHERE idx = 6", "leads to record 2, and is a name of record 6"},
}

// Verification derives the names of statements and sessions from the records, and names each row
// that is missing, was added or leads elsewhere. A running server finds it by the comparison of its
// tables.
func TestNamesFollowFromRecords(t *testing.T) {
	t.Parallel()
	storetest.AboutFile(t)
	s, start := fresh(t)
	acme, _ := company(t, s, "acme")
	zoo, _ := company(t, s, "zoo")
	named(t, s, acme)
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
	must.OK(t, s.Tables.Check(ctx, acme.Chain))
	must.OK(t, s.Tables.Check(ctx, zoo.Chain))
	must.OK(t, s.Close())
	for what, forged := range nameForgeries {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			path := storetest.Copy(t, start)
			must.OK(t, other(t, path, append(guards(t, path), forged.statement)...).Close())
			s := open(t, path)
			err := s.VerifyAll(ctx, "acme", 2, nil, nil)
			if wrong := (*store.VerifyError)(nil); !errors.As(err, &wrong) || !strings.Contains(wrong.Reason, forged.says) {
				t.Errorf("verify says %v", err)
			}
			if err := s.Tables.Check(ctx, acme.Chain); !errors.Is(err, store.ErrTablesChanged) {
				t.Errorf("the comparison says %v", err)
			}
		})
	}
}

// An attacker who deletes the names of a statement cannot have it recorded again. A running server
// remembers what it has recorded itself. For older names it detects external writes of the file,
// and calls no name free before it has compared them. A new statement, and a retry of anything
// else, still works.
func TestStatementIsNotRecordedTwiceOnEmptiedTable(t *testing.T) {
	t.Parallel()
	storetest.AboutFile(t)
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	last := named(t, s, c)
	must.OK(t, s.Close())
	s = open(t, path)
	key := got(jose.GenerateKey(jose.EdDSA))(t)
	must.OK(t, s.Sessions.Note(ctx, by(c, now), names.Session{AgentID: "bot", Key: key.Key().Thumbprint, ID: "walk"}))
	since := signedIn(t, key, c, "walk", 0, "1", time.Now().Add(time.Hour))
	got(once(t, s, since))(t)
	before := length(t, s, c)

	db := other(t, path, "CREATE TEMP TABLE kept AS SELECT * FROM idempotency_key", "DELETE FROM idempotency_key")
	unseen := signedIn(t, key, c, "walk", 1, "1", now) // as old as the ones before
	for what, d := range map[string]chain.Draft{"a statement from before the start": last, "another one": unseen} {
		if a, err := once(t, s, d); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %+v, %v", what, a, err)
		}
	}
	if waiting := s.Tables.Waiting(); len(waiting) != 1 || waiting[0] != c.Chain {
		t.Errorf("waiting: %v", waiting)
	}
	got(once(t, s, keyed(c, "new", "request")))(t)
	got(once(t, s, signedIn(t, key, c, "walk", 2, "1", time.Now().Add(time.Hour))))(t)
	if a, err := once(t, s, since); !errors.Is(err, store.ErrTablesChanged) {
		t.Errorf("a statement from since the start: %+v, %v", a, err)
	}
	if length(t, s, c) != before+2 {
		t.Errorf("%d records, and %d before", length(t, s, c), before)
	}
	if err := s.Tables.CheckNames(ctx, c.Chain); !errors.Is(err, store.ErrTablesChanged) {
		t.Errorf("the comparison: %v", err)
	}
	if a, err := once(t, s, last); !errors.Is(err, store.ErrTablesChanged) {
		t.Errorf("after the comparison: %+v, %v", a, err)
	}
	got(db.Exec("INSERT INTO idempotency_key SELECT * FROM kept WHERE true ON CONFLICT DO NOTHING"))(t)
	if a, err := once(t, s, unseen); !errors.Is(err, store.ErrTablesChanged) {
		t.Errorf("before the next comparison: %+v, %v", a, err)
	}
	must.OK(t, s.Tables.CheckNames(ctx, c.Chain))
	for what, d := range map[string]chain.Draft{"a statement from before the start": last, "one from since": since} {
		if a := got(once(t, s, d))(t); !a.Replayed {
			t.Errorf("%s, with the names put back: %+v", what, a)
		}
	}
	if a := got(once(t, s, unseen))(t); a.Replayed {
		t.Errorf("with the names put back: %+v", a)
	}
}

// Where another program writes for ever, statements do not wait for ever: after some comparisons
// that found nothing, and were overtaken, they are recorded.
func TestStatementsBesideAProgramThatWrites(t *testing.T) {
	t.Parallel()
	storetest.AboutFile(t)
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	named(t, s, c)
	must.OK(t, s.Close())
	s = open(t, path)
	key := got(jose.GenerateKey(jose.EdDSA))(t)
	must.OK(t, s.Sessions.Note(ctx, by(c, now), names.Session{AgentID: "bot", Key: key.Key().Thumbprint, ID: "walk"}))
	old := signedIn(t, key, c, "walk", 0, "1", now)
	db := other(t, path, "CREATE TABLE _litestream_seq (n INTEGER)")
	for range 3 {
		if a, err := once(t, s, old); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%+v, %v", a, err)
		}
		must.OK(t, s.Tables.CheckPaced(ctx, c.Chain, func(context.Context, time.Duration) error {
			if _, err := db.Exec("INSERT INTO _litestream_seq VALUES (1)"); err != nil {
				return err
			}
			return s.Tables.Look(ctx)
		}))
	}
	if a := got(once(t, s, old))(t); a.Replayed {
		t.Errorf("%+v", a)
	}
}

// A comparison of names has the memory of a page, and goes over a long log in pages.
func TestNamesOfALongLog(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.NotRaced, testenv.Plain)
	storetest.AboutFile(t)
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	must.OK(t, s.Settings.RecordStart(ctx, nil))
	key := got(jose.GenerateKey(jose.EdDSA))(t)
	must.OK(t, s.Sessions.Note(ctx, by(c, now), names.Session{AgentID: "bot", Key: key.Key().Thumbprint, ID: "run"}))
	const records = 20_000
	for at := 0; at < records; {
		var drafts []chain.Draft
		for range 500 {
			drafts = append(drafts, signed(t, key, c, int64(at), "1"))
			at++
		}
		got(s.AppendAll(ctx, drafts))(t)
	}
	began := time.Now()
	must.OK(t, s.Tables.Check(ctx, c.Chain))
	took := time.Since(began)
	var err error
	memory := heldBy(func() { err = s.Tables.Check(ctx, c.Chain) })
	must.OK(t, err)
	t.Logf("%d statements in %v, %d KiB", records, took, memory>>10)
	if memory > 32<<20 {
		t.Errorf("%d MiB", memory>>20)
	}
	must.OK(t, other(t, path, "DELETE FROM idempotency_key WHERE idx = 19999").Close())
	if err := s.Tables.Check(ctx, c.Chain); err == nil || !strings.Contains(err.Error(), "of record 19999") {
		t.Errorf("%v", err)
	}
}

// A name of a session without statements may be missing only where a server may have deleted it:
// with those before it, after 30 days without a record of its session.
func TestNamesThatRetentionDeletesMayBeMissing(t *testing.T) {
	t.Parallel()
	storetest.AboutFile(t)
	path := storetest.New(t)
	at := &clocks{wall: now}
	k := newKeeper(t, path, at)
	k.keep.Sessions = store.LeastSessions
	must.OK(t, k.Settings.RecordStart(ctx, nil))
	c, _ := company(t, k.Store, "acme")
	say := func(session string) {
		got(once(t, k.Store, inSession(c, session, "")))(t)
		must.OK(t, k.Sessions.Note(ctx, by(c, at.now()), names.Session{AgentID: "bot", Key: names.Hooks, ID: session}))
	}
	for range 3 {
		say("old")
		say("resumed")
		k.pass(day)
	}
	k.pass(40 * day)
	say("new")
	must.OK(t, k.sweep(k.rest))
	if k.gone[store.KindSession] != 2 {
		t.Fatalf("gone: %v", k.gone)
	}
	say("resumed")
	must.OK(t, k.VerifyAll(ctx, "", 2, nil, nil))
	must.OK(t, k.Close())
	for what, statement := range map[string]string{
		"the newest of a session":        "DELETE FROM idempotency_key WHERE idx = 6",
		"the last of one that went on":   "DELETE FROM idempotency_key WHERE idx = 7",
		"one put back before the others": "INSERT INTO idempotency_key (chain, name, request, idx, expires_at) SELECT chain, " + hexName(t, "old", 0) + ", " + hexSeries("old") + ", 0, expires_at FROM idempotency_key WHERE idx = 7",
	} {
		path := storetest.Copy(t, path)
		must.OK(t, other(t, path, statement).Close())
		s := got(store.OpenReadOnly(ctx, path))(t)
		if err := s.VerifyAll(ctx, "", 2, nil, nil); !errors.As(err, new(*store.VerifyError)) {
			t.Errorf("%s: %v", what, err)
		}
		must.OK(t, s.Close())
	}
}

func hexSeries(session string) string {
	series := names.Session{AgentID: "bot", Key: names.Hooks, ID: session}.Series()
	return fmt.Sprintf("x'%x'", series[:])
}

func hexName(t testing.TB, session string, index int64) string {
	t.Helper()
	name := names.Session{AgentID: "bot", Key: names.Hooks, ID: session}.Series().At(index)
	return fmt.Sprintf("x'%x'", name[:])
}

// A session without statements that is not listed, because its server was killed, is listed by the
// comparison.
func TestComparisonListsSessions(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	c, _ := company(t, s, "acme")
	got(once(t, s, inSession(c, "chat", "")))(t)
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
	must.OK(t, s.Tables.Check(ctx, c.Chain))
	listed := all(t, s.Sessions.List(ctx, by(c, now), store.SessionQuery{Before: 1 << 40}))
	if len(listed) != 1 || listed[0].ID != "chat" || listed[0].Key != names.Hooks {
		t.Errorf("%+v", listed)
	}
}

// heldBy returns the most memory that is held while fn runs, beyond what was held before.
func heldBy(fn func()) (most int64) {
	before, done := heap(), make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	for {
		most = max(most, heap()-before)
		select {
		case <-done:
			return most
		default:
		}
	}
}

// An operator who accepts the tables has names and sessions made what the records say, and webhooks
// given their HMAC, with a control record of each.
func TestAcceptedNamesAreWhatRecordsSay(t *testing.T) {
	t.Parallel()
	storetest.AboutFile(t)
	s, start := fresh(t)
	c, _ := company(t, s, "acme")
	last := named(t, s, c)
	secret := store.WebhookSecret{Bytes: make([]byte, 64), Fingerprint: "aa11bb22cc33dd44", Public: c.Issuer.Public.Key}
	got(s.Webhooks.Create(ctx, by(c, now), store.Webhook{URL: "https://hooks.example"}, secret, 10))(t)
	must.OK(t, s.Close())
	for what, statement := range map[string]string{
		"an emptied table": "DELETE FROM idempotency_key", "sessions that are gone": "DELETE FROM agent_session",
		"names that lead elsewhere": "UPDATE idempotency_key SET idx = 0", "an added name": nameForgeries["a name of no record"].statement,
		"a webhook": "UPDATE webhook SET attempts = 7",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			path := storetest.Copy(t, start)
			must.OK(t, other(t, path, statement).Close())
			s := open(t, path)
			got(admin.AcceptTables(ctx, s, admin.AcceptTablesOptions{Company: "acme", Reason: "it was me"}))(t)
			must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
			if errs := s.Tables.Changed(); len(errs) > 0 {
				t.Errorf("changed: %v", errs)
			}
			if a := got(once(t, s, last))(t); !a.Replayed {
				t.Errorf("a retry: %+v", a)
			}
		})
	}
}

// A statement that was recorded twice, because its names were deleted while no server ran, is
// found: both records are named. A record cannot be undone, so an operator can accept it.
func TestStatementRecordedTwiceIsFound(t *testing.T) {
	t.Parallel()
	storetest.AboutFile(t)
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	last := named(t, s, c)
	must.OK(t, s.Close())
	must.OK(t, other(t, path, "DELETE FROM idempotency_key WHERE idx = 9").Close())
	s = open(t, path)
	again := got(once(t, s, last))(t)
	err := s.VerifyAll(ctx, "", 2, nil, nil)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("leads to record %d, and is a name of record 9: one statement was recorded twice", again.Index)) {
		t.Errorf("verify says %v", err)
	}
	if err := s.Tables.Check(ctx, c.Chain); !errors.Is(err, store.ErrTablesChanged) {
		t.Errorf("the comparison says %v", err)
	}
	got(admin.AcceptTables(ctx, s, admin.AcceptTablesOptions{Company: "acme", Reason: "seen"}))(t)
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
	must.OK(t, s.Tables.Check(ctx, c.Chain))
	must.OK(t, s.Tables.CheckNames(ctx, c.Chain))
}
