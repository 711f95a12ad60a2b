package store_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"attestd/chain"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/names"
	"attestd/store/storetest"
)

const day = 24 * time.Hour

// keeper sweeps a database by clocks that the test sets.
type keeper struct {
	*store.Store
	at   *clocks
	keep store.Retention

	mu   sync.Mutex
	gone map[string]int64
	most int64 // rows that one transaction has deleted
}

func newKeeper(t testing.TB, path string, at *clocks) *keeper {
	t.Helper()
	return &keeper{Store: openWith(t, path, at.options()), at: at, keep: store.DefaultRetention, gone: map[string]int64{}}
}

// pass lets time go by, in which the server runs.
func (k *keeper) pass(d time.Duration) { k.at.pass(d, d) }

func (k *keeper) rest(context.Context, time.Duration) error { return nil }

// sweep deletes what has ended, of all kinds.
func (k *keeper) sweep(rest store.Pace) error {
	w := store.Sweep{Keep: k.keep, Now: k.at.now, Pace: rest, Deleted: func(kind string, rows int64) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.gone[kind] += rows
		k.most = max(k.most, rows)
	}}
	series := func(of store.Session) (chain.Series, bool) { return of.Series(), !of.IsSigned() }
	return errors.Join(k.Expired.Tokens(ctx, w), k.Expired.Passports(ctx, w), k.Expired.Sessions(ctx, w, series), k.Expired.RetryKeys(ctx, w))
}

// deletes sweeps and compares how many rows have gone so far.
func (k *keeper) deletes(t testing.TB, what string, want map[string]int64) {
	t.Helper()
	must.OK(t, k.sweep(k.rest))
	if fmt.Sprint(k.gone) != fmt.Sprint(want) {
		t.Errorf("%s: %v has gone, want %v", what, k.gone, want)
	}
}

// inSession returns the draft of a record of a session without statements, under a key if it is not
// "".
func inSession(c *store.Company, session, key string) chain.Draft {
	d := saying(c, `{"sessionId":"`+session+`","source":"claude-code"}`)
	d.Payload = bytes.Replace(d.Payload, []byte(`"build"`), []byte(`"tool.completed"`), 1)
	d.Canonical, d.Series = d.Payload, names.Session{AgentID: "bot", Key: names.Hooks, ID: session}.Series()
	if key != "" {
		d.Keys = []chain.Key{{Name: names.Key(key), Request: names.Request(d.Canonical, "", "")}}
	}
	return d
}

func (k *keeper) issue(t testing.TB, c *store.Company, jti string, ttl time.Duration) {
	t.Helper()
	at := k.at.now()
	must.OK(t, k.Passports.Record(ctx, by(c, at), store.Passport{JTI: jti, AgentID: "bot", Scopes: []string{"*"},
		IssuedAt: at.Unix(), ExpiresAt: at.Add(ttl).Unix()}))
}

func (k *keeper) jtis(t testing.TB, db *sql.DB) (list []string) {
	t.Helper()
	rows, err := db.Query("SELECT jti FROM passport ORDER BY jti")
	must.OK(t, err)
	defer rows.Close()
	for rows.Next() {
		var jti string
		must.OK(t, rows.Scan(&jti))
		list = append(list, jti)
	}
	return list
}

// Passports go some time after their end, revoked ones too, and are unknown from then on. Tables,
// logs and head file agree with that, also after a restart. The rest of their records stays.
func TestPassportsGoAfterTheirEnd(t *testing.T) {
	t.Parallel()
	path := storetest.New(t)
	at := &clocks{wall: now}
	k := newKeeper(t, path, at)
	acme, _ := company(t, k.Store, "acme")
	for _, jti := range []string{"plain", "revoked"} {
		k.issue(t, acme, jti, time.Hour)
	}
	got(k.Passports.Revoke(ctx, by(acme, at.now()), "revoked", ptr("lost")))(t)
	k.pass(10 * day)
	k.issue(t, acme, "recent", day)
	k.deletes(t, "after ten days", map[string]int64{})
	k.pass(22 * day)
	k.issue(t, acme, "live", day)
	got(k.Passports.Revoke(ctx, by(acme, at.now()), "live", nil))(t)
	k.deletes(t, "after 32 days", map[string]int64{store.KindPassport: 2})

	check := func() {
		t.Helper()
		for _, jti := range []string{"plain", "revoked"} {
			if _, err := k.Passport(ctx, by(acme, at.now()), jti); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("passport %s: %v", jti, err)
			}
			if _, err := k.Passports.Revoke(ctx, by(acme, at.now()), jti, nil); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("passport %s is revoked: %v", jti, err)
			}
		}
		if revoked := all(t, k.Passports.Revoked(ctx, by(acme, at.now()))); len(revoked) != 1 || revoked[0].JTI != "live" {
			t.Errorf("revoked: %+v", revoked)
		}
		must.OK(t, k.Tables.Check(ctx, acme.Chain))
		must.OK(t, k.VerifyAll(ctx, "", 1, nil, nil))
	}
	check()
	before := length(t, k.Store, acme)
	must.OK(t, k.Close())
	k.Store = openWith(t, path, at.options())
	check()
	if after := length(t, k.Store, acme); after != before {
		t.Errorf("%d records, and %d before", after, before)
	}
}

// The last passports of a company that writes nothing stay: no record shows that they have ended.
func TestPassportsOfIdleCompanyStay(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, storetest.New(t), &clocks{wall: now})
	acme, _ := company(t, k.Store, "acme")
	zoo, _ := company(t, k.Store, "zoo")
	k.issue(t, acme, "last", time.Hour)
	for range 50 {
		k.pass(day)
		got(k.Append(ctx, draft(zoo)))(t)
	}
	k.deletes(t, "while acme is idle", map[string]int64{})
	got(k.Append(ctx, draft(acme)))(t)
	k.deletes(t, "after a record of acme", map[string]int64{store.KindPassport: 1})
	must.OK(t, k.Tables.Check(ctx, acme.Chain))
}

// A passport that was deleted externally is still missed, as long as no later record shows that it
// ended a day ago. All others of the company then stay.
func TestDeletedPassportIsMissed(t *testing.T) {
	t.Parallel()
	path := storetest.New(t)
	k := newKeeper(t, path, &clocks{wall: now})
	acme, _ := company(t, k.Store, "acme")
	k.issue(t, acme, "old", time.Hour)
	k.pass(40 * day)
	k.issue(t, acme, "live", time.Hour)
	k.pass(day)
	got(k.Append(ctx, draft(acme)))(t)
	// for the guard, which has the machine's clock, it has ended
	db := other(t, path, "DELETE FROM passport WHERE jti = 'live'")
	if err := k.Tables.Check(ctx, acme.Chain); !errors.Is(err, store.ErrTablesChanged) || !strings.Contains(err.Error(), `"live"`) {
		t.Fatalf("the comparison: %v", err)
	}
	k.deletes(t, "of a changed company", map[string]int64{})
	if left := k.jtis(t, db); len(left) != 1 {
		t.Errorf("%q are left", left)
	}
}

// The head file and the count of revocations know of those whose passports are gone: only one that
// was undone is missed.
func TestRevocationsAreCountedAfterTheirPassportsAreGone(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	path := storetest.New(t)
	s := kept(t, path)
	acme, _ := company(t, s, "acme")
	for i, end := range []int64{now.Unix(), now.Unix(), 1 << 40} {
		jti := fmt.Sprint(i)
		must.OK(t, s.Passports.Record(ctx, by(acme, now), store.Passport{JTI: jti, AgentID: "bot", Scopes: []string{"*"}, IssuedAt: now.Unix() - 60, ExpiresAt: end}))
		got(s.Passports.Revoke(ctx, by(acme, now), jti, nil))(t)
	}
	must.OK(t, s.Ready(ctx))
	deleted := int64(0)
	must.OK(t, s.Expired.Passports(ctx, store.Sweep{Keep: store.DefaultRetention, Now: time.Now, Deleted: func(_ string, n int64) { deleted += n }}))
	if deleted != 2 {
		t.Fatalf("%d passports are gone", deleted)
	}
	must.OK(t, s.Close())
	s = kept(t, path)
	attest(t, s, acme, 1)
	if behind := got(s.Rollback.All(ctx))(t); len(behind) != 0 {
		t.Fatalf("behind: %+v", behind)
	}
	must.OK(t, s.Close())
	other(t, path, "DROP TRIGGER passport_only_revoked", "UPDATE passport SET revoked_at = NULL").Close()
	s, err := store.Open(ctx, path, schema(t), store.Options{Heads: storetest.Heads(path)})
	must.OK(t, err)
	t.Cleanup(func() { s.Close() })
	behind := got(s.Rollback.All(ctx))(t)
	if len(behind) != 1 || !strings.Contains(behind[0].Why, "with 3 revocations of passports, and 2 are there") {
		t.Fatalf("behind: %+v", behind)
	}
}

// Access tokens, revocations and used proofs are deleted after their time, and no sooner.
func TestTokensGoAfterTheirEnd(t *testing.T) {
	t.Parallel()
	path := storetest.New(t)
	at := &clocks{wall: now}
	k := newKeeper(t, path, at)
	acme, _ := company(t, k.Store, "acme")
	client, _, err := k.Credentials.CreateClient(ctx, by(acme, now), store.Grant{Role: store.Admin}, 10)
	must.OK(t, err)
	who := by(acme, now)
	who.Client = client.ID
	token, _, err := k.Credentials.IssueToken(ctx, who, store.TokenGrant{}, time.Hour)
	must.OK(t, err)
	proof := store.UsedProof{Name: chain.Hash{1}, Ends: now.Add(time.Hour)}
	must.OK(t, k.Credentials.Use(ctx, proof, now))
	must.OK(t, k.Credentials.RevokeJWT(ctx, who, "jti", now.Add(time.Hour)))
	k.pass(time.Hour + 59*time.Minute)
	k.deletes(t, "an hour after their end, almost", map[string]int64{})
	if err := k.Credentials.Use(ctx, store.UsedProof{Name: proof.Name, Ends: at.now().Add(time.Hour)}, at.now()); !errors.Is(err, store.ErrUsed) {
		t.Errorf("a used proof: %v", err)
	}
	k.pass(2 * time.Minute)
	k.deletes(t, "an hour after their end", map[string]int64{store.KindUsedProof: 1})
	k.pass(7*day - 2*time.Hour)
	k.deletes(t, "almost a week after", map[string]int64{store.KindUsedProof: 1})
	if is, err := k.Credentials.IsRevokedJWT(ctx, who, "jti"); !is || err != nil {
		t.Errorf("a revoked token: %v, %v", is, err)
	}
	k.pass(2 * time.Hour)
	k.deletes(t, "a week after", map[string]int64{store.KindUsedProof: 1, store.KindAccessToken: 1, store.KindRevokedToken: 1})
	_ = token
}

// While a clock that has leapt ahead is not trusted, nothing goes. One that is wrong at the start
// of a server is not trusted either.
func TestLeapOfTheClockDeletesNothing(t *testing.T) {
	t.Parallel()
	path := storetest.New(t)
	at := &clocks{wall: now}
	k := newKeeper(t, path, at)
	k.keep.Sessions = store.LeastSessions
	acme, _ := company(t, k.Store, "acme")
	k.issue(t, acme, "p", time.Hour)
	must.OK(t, k.Credentials.RevokeJWT(ctx, by(acme, now), "jti", now.Add(time.Hour)))
	must.OK(t, k.Credentials.Use(ctx, store.UsedProof{Name: chain.Hash{1}, Ends: now.Add(time.Minute)}, now))
	got(once(t, k.Store, inSession(acme, "s", "retry")))(t)
	must.OK(t, k.Sessions.Note(ctx, by(acme, now), names.Session{AgentID: "bot", Key: "hook", ID: "s"}))
	must.OK(t, k.sweep(k.rest))

	at.pass(100*day, time.Second)
	if err := k.sweep(k.rest); err == nil || !strings.Contains(err.Error(), "the clock has leapt") {
		t.Errorf("after the leap: %v", err)
	}
	at.pass(-100*day, time.Second)
	k.deletes(t, "with the clock right again", map[string]int64{})
	must.OK(t, k.Close())

	at.pass(100*day, 0)
	k.Store = openWith(t, path, at.options())
	must.OK(t, k.Ready(ctx))
	k.deletes(t, "after a start with a clock that is ahead", map[string]int64{})
	k.pass(23 * time.Hour)
	// for the trusted clock 23 hours have gone by
	k.deletes(t, "almost a day later", map[string]int64{store.KindUsedProof: 1})
	k.pass(2 * time.Hour)
	got(k.Append(ctx, draft(acme)))(t)
	k.deletes(t, "more than a day later", map[string]int64{
		store.KindUsedProof: 1, store.KindRevokedToken: 1, store.KindPassport: 1, store.KindSession: 1, store.KindRetryKey: 1,
	})
}

// Each transaction deletes few rows, and records are appended between two of them.
func TestAppendsGoOnDuringSweep(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	path := storetest.New(t)
	k := newKeeper(t, path, &clocks{wall: now})
	acme, _ := company(t, k.Store, "acme")
	const rows = 20_000
	hash := "CAST(printf('%032d', n) AS BLOB)"
	if storetest.OnPostgres() {
		hash = "convert_to(lpad(n::text, 32, '0'), 'UTF8')"
	}
	numbers := fmt.Sprintf("WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < %d) ", rows)
	db := other(t, path,
		numbers+"INSERT INTO revoked_token (name, expires_at) SELECT "+hash+", 1 FROM c",
		numbers+fmt.Sprintf("INSERT INTO idempotency_key (chain, name, request, idx, expires_at) SELECT %d, %s, %s, 0, n %% 2 * 9000000000000 FROM c", acme.Chain, hash, hash))
	k.keep.Tokens = day
	steps := 0
	must.OK(t, k.sweep(func(context.Context, time.Duration) error {
		if steps++; steps%10 == 0 {
			got(k.Append(ctx, draft(acme)))(t)
		}
		return nil
	}))
	if k.gone[store.KindRevokedToken] != rows || k.gone[store.KindRetryKey] != rows/2 || k.most > 256 {
		t.Errorf("%v has gone, at most %d at once", k.gone, k.most)
	}
	if n := length(t, k.Store, acme); n != int64(steps/10) || steps < rows/256 {
		t.Errorf("%d records and %d steps", n, steps)
	}
	var left int
	must.OK(t, db.QueryRow("SELECT count(*) FROM idempotency_key").Scan(&left))
	if left != rows/2 {
		t.Errorf("%d keys are left", left)
	}
}

// A session without statements goes when its last record is old, and its records stay. With a new
// record it is listed again. One of statements stays.
func TestSessionsGoAfterTheirLastRecord(t *testing.T) {
	t.Parallel()
	path := storetest.New(t)
	at := &clocks{wall: now}
	k := newKeeper(t, path, at)
	acme, _ := company(t, k.Store, "acme")
	say := func(session string, records int) {
		t.Helper()
		var drafts []chain.Draft
		for range records {
			drafts = append(drafts, inSession(acme, session, ""))
		}
		got(k.AppendAll(ctx, drafts))(t)
		must.OK(t, k.Sessions.Note(ctx, by(acme, at.now()), names.Session{AgentID: "bot", Key: "hook", ID: session}))
	}
	listed := func() (ids string) {
		t.Helper()
		for s, err := range k.Sessions.List(ctx, by(acme, at.now()), store.SessionQuery{Before: 1 << 40}) {
			must.OK(t, err)
			ids += s.ID + " "
		}
		return ids
	}
	say("long", 700)
	say("resumed", 3)
	must.OK(t, k.Sessions.Note(ctx, by(acme, at.now()), names.Session{AgentID: "bot", Key: strings.Repeat("k", 43), ID: "signed"}))
	k.pass(20 * day)
	say("resumed", 1)
	k.pass(20 * day)
	k.deletes(t, "by default", map[string]int64{})
	k.keep.Sessions = 30 * day
	k.deletes(t, "after 40 days", map[string]int64{store.KindSession: 1})
	if ids := listed(); ids != "signed resumed " {
		t.Errorf("listed: %s", ids)
	}
	var left int
	must.OK(t, other(t, path).QueryRow("SELECT count(*) FROM idempotency_key").Scan(&left))
	if left != 4 || length(t, k.Store, acme) != 704 {
		t.Errorf("%d names are left", left)
	}
	say("long", 1)
	if ids := listed(); ids != "long signed resumed " {
		t.Errorf("listed with a new record: %s", ids)
	}
	must.OK(t, k.VerifyAll(ctx, "", 1, nil, nil))
}

// A server that is halted between finding a session that has ended and deleting it deletes nothing
// of one that continues meanwhile, and counts nothing that another server has deleted.
func TestHaltedServerDeletesNoSessionThatGoesOn(t *testing.T) {
	t.Parallel()
	path := storetest.New(t)
	at := &clocks{wall: now}
	k := newKeeper(t, path, at)
	acme, _ := company(t, k.Store, "acme")
	k.keep.Sessions = 30 * day
	say := func(session string) {
		t.Helper()
		got(k.AppendAll(ctx, []chain.Draft{inSession(acme, session, ""), inSession(acme, session, "")}))(t)
		must.OK(t, k.Sessions.Note(ctx, by(acme, at.now()), names.Session{AgentID: "bot", Key: "hook", ID: session}))
	}
	for i, meanwhile := range []func(){func() { say("s") }, func() { must.OK(t, k.sweep(k.rest)) }} {
		say("s")
		k.pass(40 * day)
		// first called after it has looked at the sessions
		must.OK(t, k.sweep(func(context.Context, time.Duration) error {
			passes := meanwhile
			meanwhile = func() {}
			passes()
			return nil
		}))
		var left int
		must.OK(t, other(t, path).QueryRow("SELECT count(*) FROM idempotency_key").Scan(&left))
		if want := []int{4, 0}[i]; left != want || k.gone[store.KindSession] != int64(i) {
			t.Errorf("%d names are left, want %d; %v", left, want, k.gone)
		}
	}
}

// An idempotency key counts as long as the operator says, and then goes without a new one.
func TestLifetimeOfRetryKeys(t *testing.T) {
	t.Parallel()
	path := storetest.New(t)
	at := &clocks{wall: now}
	o := at.options()
	o.KeyLifetime = 60 * day
	k := &keeper{Store: openWith(t, path, o), at: at, keep: store.DefaultRetention, gone: map[string]int64{}}
	acme, _ := company(t, k.Store, "acme")
	got(once(t, k.Store, keyed(acme, "k", "a")))(t)
	k.pass(59 * day)
	k.deletes(t, "after 59 days", map[string]int64{})
	if a := got(once(t, k.Store, keyed(acme, "k", "a")))(t); !a.Replayed {
		t.Error("the key does not count any more")
	}
	k.pass(2 * day)
	k.deletes(t, "after 61 days", map[string]int64{store.KindRetryKey: 1})
	if a := got(once(t, k.Store, keyed(acme, "k", "a")))(t); a.Replayed {
		t.Error("the key still counts")
	}
}

// Of several servers that sweep one database at once, each row is deleted by one, and nothing
// fails.
func TestServersSweepOneDatabase(t *testing.T) {
	t.Parallel()
	path := storetest.NewOnPostgres(t)
	var servers []*keeper
	for range 2 {
		servers = append(servers, newKeeper(t, path, &clocks{wall: now}))
	}
	acme, _ := company(t, servers[0].Store, "acme")
	for i := range 300 {
		k := servers[i%2]
		must.OK(t, k.Credentials.Use(ctx, store.UsedProof{Name: sha256.Sum256(fmt.Append(nil, i)), Ends: now.Add(time.Minute)}, now))
	}
	servers[0].issue(t, acme, "p", time.Hour)
	var both sync.WaitGroup
	for _, k := range servers {
		k.pass(40 * day)
	}
	got(servers[1].Append(ctx, draft(acme)))(t)
	for _, k := range servers {
		both.Go(func() {
			if err := k.sweep(k.rest); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	proofs := servers[0].gone[store.KindUsedProof] + servers[1].gone[store.KindUsedProof]
	passports := servers[0].gone[store.KindPassport] + servers[1].gone[store.KindPassport]
	if proofs != 300 || passports != 1 {
		t.Errorf("%d proofs and %d passports have gone", proofs, passports)
	}
	for _, k := range servers {
		must.OK(t, k.Tables.Check(ctx, acme.Chain))
	}
}
