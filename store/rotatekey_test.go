package store_test

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"attestd/crypto/cred"
	"attestd/crypto/keyring"
	"attestd/crypto/keys"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/storetest"
)

// rotate rotates the key of a company and returns the company as it is afterwards.
func rotate(t testing.TB, s *store.Store, c *store.Company, at time.Time, compromised bool) *store.Company {
	t.Helper()
	old, next, err := s.Companies.RotateKey(ctx, by(c, at), compromised)
	must.OK(t, err)
	now := got(s.Companies.Get(ctx, c.ID))(t)
	if now.Issuer.Public.KID == c.Issuer.Public.KID || !now.Issuer.Public.Key.Equal(next.Public) || next.Generation != old.Generation+1 {
		t.Fatalf("after a rotation from %d to %d: %+v", old.Generation, next.Generation, now)
	}
	return now
}

// rotated is a database with zoo and with acme, which has 310 records and four keys that sign from
// 0, 40, 300 (none) and 300 on.
func rotated(t testing.TB) (*store.Store, string, *store.Company) {
	t.Helper()
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	zoo, _ := company(t, s, "zoo")
	attest(t, s, zoo, 5)
	for i, n := range []int{40, 260, 0, 10} {
		if i > 0 {
			c = rotate(t, s, c, now.Add(time.Duration(i)*time.Hour), false)
		}
		attest(t, s, c, n)
	}
	return s, path, c
}

// A reader of the chain can find which key signed which record, and each key is proven by the one
// before it.
func TestRotations(t *testing.T) {
	t.Parallel()
	s, path, c := rotated(t)
	check := func(s *store.Store) {
		t.Helper()
		must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
		origin, ring, err := s.KeyRing(ctx, c.Chain)
		must.OK(t, err)
		if len(ring) != 4 || strings.Join(keyring.Flaws(origin, ring), "") != "" {
			t.Fatalf("%+v", ring)
		}
		for i, from := range []int64{0, 40, 300, 300} {
			k := ring[i]
			if k.Generation != int64(i) || k.From != from || (k.EndedAt == "") != (i == 3) || k.CompromisedAt != "" || (k.Rotation == nil) != (i == 0) {
				t.Errorf("key %d: %+v", i, k)
			}
			if i > 0 && k.CreatedAt != ring[i-1].EndedAt {
				t.Errorf("key %d begins at %s, the one before ended at %s", i, k.CreatedAt, ring[i-1].EndedAt)
			}
		}
		set := got(s.KeySet(ctx, c.Chain))(t)
		for _, r := range read(t, s, c.Chain, 0, 310) {
			if !ed25519.Verify(set.At(r.Index).Key, r.Hash[:], r.Signature[:]) {
				t.Fatalf("record %d", r.Index)
			}
		}
	}
	check(s)
	var seeds int
	must.OK(t, other(t, path).QueryRow("SELECT count(*) FROM company_key WHERE seed IS NOT NULL").Scan(&seeds))
	if seeds != 3 {
		t.Errorf("%d private keys of two companies and of the installation", seeds)
	}
	must.OK(t, s.Close())
	s = open(t, path)
	check(s)
	attest(t, s, c, 5)
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
	if _, _, err := s.KeyRing(ctx, 99); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("keys of nobody: %v", err)
	}
	if storetest.OnPostgres() {
		return // PostgreSQL has its own backups
	}
	out := target(t)
	must.OK(t, admin.Backup(ctx, path, out, schema(t), nil))
	read, err := store.OpenReadOnly(ctx, out)
	must.OK(t, err)
	defer read.Close()
	must.OK(t, read.VerifyAll(ctx, "", 2, nil, nil))
}

// Each token is verified with the key that it names, both in the process that rotated, despite its
// cache, and in the next process.
func TestTokensAcrossRotations(t *testing.T) {
	t.Parallel()
	// No rotation has to wait for its turn, however busy the machine is.
	still := store.RunOptions{Steady: func() time.Duration { return 0 }}
	path := storetest.New(t)
	s := openWith(t, path, still)
	c, key := company(t, s, "acme")
	hash := keys.HashSecret(key.Key)
	issuer := func(at time.Time) *cred.Issuer {
		t.Helper()
		return got(s.Credentials.Authenticate(ctx, hash, at))(t).Company.Issuer
	}
	refused := func(err error) bool {
		e := (*cred.Error)(nil)
		return errors.As(err, &e) && e.Code == cred.CodeSignatureInvalid
	}
	var tokens []string
	at := now
	for i, compromised := range []bool{false, true, false} {
		tokens = append(tokens, issuer(at).SVID(c.Issuer.CompanyID(), at))
		_, err := issuer(at).CheckDelegation(tokens[i], at) // so that its signature is cached
		must.OK(t, err)
		at = at.Add(time.Minute)
		got2(s.Companies.RotateKey(ctx, by(c, at), compromised))(t)
	}
	check := func() {
		t.Helper()
		for i, want := range []bool{false, false, true} {
			if _, err := issuer(at).CheckDelegation(tokens[i], at); (err == nil) != want || err != nil && !refused(err) {
				t.Errorf("token of key %d: %v", i, err)
			}
		}
		if list := issuer(at).Keys(at); len(list) != 2 || list[0].KID == c.Issuer.Public.KID || list[1].KID == c.Issuer.Public.KID {
			t.Errorf("keys: %+v", list)
		}
		if list := issuer(at).Keys(at.Add(24 * time.Hour)); len(list) != 1 {
			t.Errorf("keys a day later: %+v", list)
		}
	}
	check()
	must.OK(t, s.Close())
	s = openWith(t, path, still)
	check()
	at = at.Add(25 * time.Hour)
	got2(s.Companies.RotateKey(ctx, by(c, at), false))(t)
	// This is the key that has just ended, and none that ended more than a day ago.
	if list := issuer(at).Keys(at); len(list) != 2 {
		t.Errorf("keys: %+v", list)
	}
}

// A key or a range that differs from the proofs of the company's keys is found at the first record
// that it concerns.
func TestTamperedKeysAreDetected(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	s, path, _ := rotated(t)
	must.OK(t, s.Close())
	const unguarded = "DROP TRIGGER company_key_only_ends; DROP TRIGGER company_key_no_delete; DROP INDEX company_key_current; " +
		"DROP TRIGGER log_key_no_update; DROP TRIGGER log_key_no_delete; "
	const of, in = " WHERE company = 1 AND generation = ", " WHERE chain = 1 AND generation = "
	for statement, at := range map[string]int64{
		"UPDATE log_key SET first_record = 41" + in + "1":                         40,
		"UPDATE log_key SET first_record = 39" + in + "1":                         39,
		"UPDATE log_key SET first_record = 1000" + in + "3":                       300,
		"UPDATE company_key SET public_key = randomblob(32)" + of + "0":           0,
		"UPDATE company_key SET public_key = randomblob(32)" + of + "1":           40,
		"UPDATE company_key SET public_key = randomblob(32)" + of + "2":           300,
		"UPDATE log_key SET statement = statement || ' '" + in + "2":              300,
		"UPDATE log_key SET statement = NULL" + in + "1":                          40,
		"UPDATE log_key SET old_signature = new_signature" + in + "1":             40,
		"UPDATE log_key SET new_signature = old_signature" + in + "3":             300,
		"UPDATE company_key SET ended_at = '2099-01-01T00:00:00.000Z'" + of + "0": 40,
		"UPDATE company_key SET ended_at = '2099-01-01T00:00:00.000Z'" + of + "3": 300,
		"DELETE FROM company_key" + of + "0":                                      0,
		"DELETE FROM company_key" + of + "1":                                      40,
		"DELETE FROM company_key" + of + "2":                                      300,
		"DELETE FROM company_key" + of + "3":                                      300,
		"DELETE FROM company_key WHERE company = 1":                               0,
		"INSERT INTO company_key (company, generation, public_key, created_at) VALUES (1, 4, randomblob(32), ''); INSERT INTO log_key (chain, generation, first_record) VALUES (1, 4, 310)": 310,
	} {
		changed := storetest.Copy(t, path)
		must.OK(t, other(t, changed, unguarded+statement).Close())
		s, err := store.OpenReadOnly(ctx, changed)
		must.OK(t, err)
		var invalid *store.VerifyError
		if err := s.VerifyAll(ctx, "", 2, nil, nil); !errors.As(err, &invalid) || invalid.Index != at || invalid.Company != "acme" {
			t.Errorf("%s: %v, want a failure at %d", statement, err, at)
		}
		s.Close()
	}
}

// Keys are rotated while 32 writers append to both logs: nothing is lost, every record and every
// rotation is in order, and each record is signed with the key of its time.
func TestRotationsUnderLoad(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	const writers, each, rotations = 32, 20, 8
	s, _ := fresh(t)
	c, key := company(t, s, "acme")
	var seen sync.Map
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for range each {
				r, err := s.Append(ctx, draft(c))
				if _, twice := seen.LoadOrStore(r.Index, true); err != nil || twice {
					t.Errorf("record %d: %v, twice: %v", r.Index, err, twice)
				}
				who, err := s.Credentials.Authenticate(ctx, keys.HashSecret(key.Key), now)
				if err != nil || who.Company.ID != "acme" {
					t.Errorf("%+v, %v", who, err)
				}
			}
		})
	}
	for range rotations {
		all.Go(func() {
			if _, _, err := s.Companies.RotateKey(ctx, by(c, now), false); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := length(t, s, c); n != writers*each {
		t.Errorf("%d records", n)
	}
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
	_, ring, err := s.KeyRing(ctx, c.Chain)
	must.OK(t, err)
	who := got(s.Credentials.Authenticate(ctx, keys.HashSecret(key.Key), now))(t)
	if len(ring) != rotations+1 || !who.Company.Issuer.Public.Key.Equal(ring[rotations].Public) || len(who.Company.Issuer.Keys(now)) != rotations+1 {
		t.Errorf("%d keys, and who asks has %d", len(ring), len(who.Company.Issuer.Keys(now)))
	}
}

// After a crash at any moment a rotation is complete or absent, and later records are present only
// if it is. The test cuts the write-ahead log at every frame and within a frame; SQLite then finds
// what a crash would have left.
func TestRotationIsAtomic(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	attest(t, s, c, 3)
	must.OK(t, s.Close())
	content := got(os.ReadFile(path))(t)
	s = open(t, path)
	// The reader keeps the write-ahead log from being truncated after a rotation.
	reader := other(t, path, "BEGIN", "SELECT count(*) FROM record")
	rotate(t, s, c, now, false)
	attest(t, s, c, 1)
	rotate(t, s, got(s.Companies.Get(ctx, "acme"))(t), now, true)
	attest(t, s, c, 1)
	log := got(os.ReadFile(path + "-wal"))(t)
	must.OK(t, reader.Close())
	must.OK(t, s.Close())

	outcomes := map[string]int{}
	for cut := range crashes(t, content, log) {
		s := open(t, cut)
		_, ring, err := s.KeyRing(ctx, c.Chain)
		must.OK(t, err)
		outcomes[fmt.Sprintf("%d records, %d keys", length(t, s, c), len(ring))]++
		rotate(t, s, got(s.Companies.Get(ctx, "acme"))(t), now, false)
		attest(t, s, c, 2)
		must.OK(t, s.VerifyAll(ctx, "", 1, nil, nil))
		must.OK(t, s.Close())
	}
	if len(outcomes) != 5 { // before the four writes and after each of them
		t.Errorf("outcomes: %v", outcomes)
	}
}

// A rotation is refused if the file claims that the seed belongs to another key, and so is every
// append: nothing is signed that would not verify.
func TestRotationWithMismatchedSeedIsRefused(t *testing.T) {
	t.Parallel()
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	zoo, _ := company(t, s, "zoo")
	attest(t, s, c, 3)
	must.OK(t, other(t, path, "UPDATE company_key SET seed = randomblob(32) WHERE company = 1").Close())
	if storetest.OnPostgres() {
		s = open(t, path) // the first one signs with the key that it has read
	}
	if _, _, err := s.Companies.RotateKey(ctx, by(c, now), false); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("a rotation: %v", err)
	}
	if _, err := s.Append(ctx, draft(c)); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("a record: %v", err)
	}
	if _, err := s.Companies.Get(ctx, "acme"); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("a token: %v", err)
	}
	attest(t, s, zoo, 3)
	must.OK(t, s.VerifyAll(ctx, "zoo", 1, nil, nil))
	// Who can read private keys sees that one is another's.
	if err := s.VerifyAll(ctx, "acme", 1, nil, nil); err == nil || !strings.Contains(err.Error(), "its private part is of another key") {
		t.Errorf("verify says %v", err)
	}
}

// A database of an older schema has the same key after the upgrade and can rotate it.
func TestOlderSchemaRotates(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	for version := range older {
		path, _ := written(t, version)
		before, err := store.OpenReadOnly(ctx, path)
		must.OK(t, err)
		set := got(before.KeySet(ctx, 1))(t)
		must.OK(t, before.Close())
		s := open(t, path)
		if after := got(s.KeySet(ctx, 1))(t); !same(after, set) || (len(set) > 1) != (len(version) > 1 || version >= "4") {
			t.Errorf("schema %s: other keys after the upgrade: %v, before %v", version, after, set)
		}
		c := got(s.Companies.OfChain(ctx, 1))(t)
		attest(t, s, rotate(t, s, c, time.Now(), false), 3)
		must.OK(t, s.VerifyAll(ctx, "", 1, nil, nil))
	}
}

// A restore between files of any two schemas reports what it undoes of a company's keys.
func TestRestoreReportsLostKeys(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	attest(t, s, c, 3)
	c = rotate(t, s, c, now, false)
	in := backUp(t, path)
	c = rotate(t, s, c, now, true)
	rotate(t, s, c, now, false)
	must.OK(t, s.Close())
	checkRollback(t, in, path, "acme (control): … records, the backup has …",
		"acme: signing keys made since, gone (2): key 2, key 3",
		"acme: signing keys declared compromised since, trusted again (2): key 0, key 1")

	for version := range older {
		path, _ := written(t, version)
		in := backUp(t, path)
		s := open(t, path)
		c := got(s.Companies.OfChain(ctx, 1))(t)
		last := len(got(s.KeySet(ctx, 1))(t)) - 1
		rotate(t, s, c, time.Now(), true)
		must.OK(t, s.Close())
		checkRollback(t, in, path, c.ID+" (control): … records, the backup has …",
			fmt.Sprintf("%s: signing keys made since, gone (1): key %d", c.ID, last+1),
			fmt.Sprintf("%s: signing keys declared compromised since, trusted again (1): key %d", c.ID, last))
	}
}

func got2[A, B any](a A, b B, err error) func(testing.TB) (A, B) {
	return func(t testing.TB) (A, B) {
		t.Helper()
		must.OK(t, err)
		return a, b
	}
}
