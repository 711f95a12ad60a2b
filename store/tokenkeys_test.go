package store_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"attestd/crypto/jose"
	"attestd/crypto/tokenkey"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/storetest"
)

// signer returns the key that signs tokens for others at a time.
func signer(t testing.TB, s *store.Store, c *store.Company, algorithm string, at time.Time) *tokenkey.Private {
	t.Helper()
	return got(s.TokenKeys.Signer(ctx, by(c, at), algorithm))(t)
}

// published returns the names of the published keys.
func published(t testing.TB, s *store.Store, c *store.Company, at time.Time) (kids []string) {
	t.Helper()
	for _, k := range got(s.TokenKeys.Published(ctx, by(c, at)))(t).Keys {
		kids = append(kids, k.KID)
	}
	return kids
}

// privateParts counts the private parts in a database.
func privateParts(t testing.TB, path string) (n int) {
	t.Helper()
	must.OK(t, other(t, path).QueryRow("SELECT count(*) FROM token_key WHERE private IS NOT NULL").Scan(&n))
	return n
}

// The keys are made at first need, all of them before a token is signed or the set is read. They
// are the same after a restart, belong to one company, and are in the control log.
func TestTokenKeysAreMadeAtFirstNeed(t *testing.T) {
	t.Parallel()
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	zoo, _ := company(t, s, "zoo")
	if kids := published(t, s, c, now); len(kids) != 0 {
		t.Fatalf("keys that nobody asked for: %v", kids)
	}
	first := got(s.TokenKeys.Publish(ctx, by(c, now)))(t)
	signer(t, s, zoo, tokenkey.EdDSA, now)
	if set := got(s.TokenKeys.Publish(ctx, by(zoo, now)))(t); len(set.Keys) != 3 || len(published(t, s, zoo, now)) != 3 {
		t.Errorf("the first token has made %d keys", len(set.Keys))
	}
	var kids []string
	for _, algorithm := range tokenkey.Algorithms {
		k := signer(t, s, c, algorithm, now)
		if !slices.ContainsFunc(first.Keys, func(known store.TokenKey) bool { return known.KID == k.Public().KID }) {
			t.Errorf("%s: the key that signs was not in the first set", algorithm)
		}
		if k.Public().Algorithm != algorithm || signer(t, s, c, algorithm, now).Public().KID != k.Public().KID {
			t.Errorf("%s: %v", algorithm, k)
		}
		kids = append(kids, k.Public().KID)
	}
	slices.Sort(kids)
	if have := published(t, s, c, now); !slices.Equal(have, kids) {
		t.Errorf("published %v, want %v", have, kids)
	}
	if _, err := s.TokenKeys.Signer(ctx, by(c, now), "HS256"); err == nil {
		t.Error("a key for HS256")
	}
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
	must.OK(t, s.Close())
	s = open(t, path)
	c = got(s.Companies.Get(ctx, "acme"))(t)
	for _, algorithm := range tokenkey.Algorithms {
		if k := signer(t, s, c, algorithm, now); !slices.Contains(kids, k.Public().KID) {
			t.Errorf("%s: another key after a restart", algorithm)
		}
	}
	for _, kid := range kids {
		created := recordsOf(t, s, c, kid)
		if len(created) != 1 || !strings.HasPrefix(created[0], "token-key.created ") || !strings.Contains(created[0], `"signsFrom":"`) || strings.Contains(created[0], `"d":`) {
			t.Errorf("%s: %v", kid, created)
		}
	}
}

// Unauthenticated reads of the sets of companies without keys create the keys of 20 at once and
// then of one in two seconds. A request for a token does not wait for them, and no set is ever
// empty.
func TestFirstTokenKeysAreMadeAtAPace(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	s, _ := fresh(t)
	var companies []*store.Company
	for i := range 25 {
		c, _ := company(t, s, "c"+strconv.Itoa(i))
		companies = append(companies, c)
	}
	read := func(c *store.Company, at time.Time) bool {
		set, err := s.TokenKeys.Publish(ctx, by(c, at))
		if err == nil && len(set.Keys) != 3 || err != nil && !errors.Is(err, store.ErrTokenKeysBusy) {
			t.Errorf("%v, %v", set, err)
		}
		return err == nil
	}
	for i, c := range companies {
		at := now.Add(-time.Duration(i) * time.Millisecond) // in the reverse order of their times
		if read(c, at) != (i < 20) {
			t.Errorf("company %d: made: %v", i, i >= 20)
		}
	}
	last := companies[24]
	signer(t, s, last, tokenkey.ES256, now)
	if !read(last, now) || !read(companies[0], now) {
		t.Error("a set that is there is not read")
	}
	if at := now.Add(2 * time.Second); !read(companies[20], at) || read(companies[21], at) {
		t.Error("two seconds later not one more company has keys")
	}
	if at := now.Add(-time.Hour); read(companies[21], at) || !read(companies[21], at.Add(2*time.Second)) {
		t.Error("when the clock was set back, not one company in two seconds has keys")
	}
}

// recordsOf returns the control records about a token key.
func recordsOf(t testing.TB, s *store.Store, c *store.Company, kid string) []string {
	t.Helper()
	return slices.DeleteFunc(controlRecords(t, s, c), func(r string) bool { return !strings.Contains(r, `"subject":"token-key:`+kid+`"`) })
}

// Of many requests at once, and of two servers on one database, one makes the keys, and no reader
// gets a set without one of them.
func TestOneTokenKeyIsMadeOfMany(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	servers := []*store.Store{s}
	if storetest.OnPostgres() {
		servers = append(servers, open(t, path))
	}
	for _, algorithm := range tokenkey.Algorithms {
		kids := make([]string, 16)
		for _, err := range atOnce(len(kids), func(i int) error {
			if set, err := servers[(i+1)%len(servers)].TokenKeys.Publish(ctx, by(c, now)); err != nil || len(set.Keys) != 3 {
				t.Errorf("a reader: %v, %v", set, err)
			}
			k, err := servers[i%len(servers)].TokenKeys.Signer(ctx, by(c, now), algorithm)
			if err == nil {
				kids[i] = k.Public().KID
			}
			return err
		}) {
			must.OK(t, err)
		}
		if slices.Sort(kids); kids[0] != kids[15] || kids[0] == "" {
			t.Errorf("%s: %v", algorithm, kids)
		}
		for _, s := range servers { // the holder of a token finds its key on each of them
			if !slices.Contains(published(t, s, c, now), kids[0]) {
				t.Errorf("%s: a server does not publish the key", algorithm)
			}
		}
	}
}

// Rotations of all kinds at once, with first requests, leave one key of an algorithm that signs,
// and a control log that records each.
func TestTokenKeysRotateAtOnce(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s, _ := fresh(t)
	c, _ := company(t, s, "acme")
	for i, err := range atOnce(12, func(i int) error {
		if i%3 == 0 {
			_, err := s.TokenKeys.Signer(ctx, by(c, now.Add(time.Hour)), tokenkey.Algorithms[i/3%2*2])
			return err
		}
		_, _, err := s.Companies.RotateKey(ctx, by(got(s.Companies.Get(ctx, "acme"))(t), now.Add(time.Hour)), i%3 == 1)
		return err
	}) {
		if err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	c = got(s.Companies.Get(ctx, "acme"))(t)
	signer(t, s, c, tokenkey.ES256, now.Add(time.Hour))
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
	if changed := s.Tables.Changed(); len(changed) != 0 {
		t.Errorf("%v", changed)
	}
}

// A rotation publishes the next key ten minutes before it signs, and the key before it until its
// last token has ended. A verifier that caches the key set for five minutes, from before the first
// token on, never meets a token whose key it does not know.
func TestTokenKeysRotate(t *testing.T) {
	t.Parallel()
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	var cached []store.TokenKey
	var fetched, changed time.Time
	sets := map[time.Time]string{}
	signed := map[string]time.Time{} // tokens, with their ends
	signers := map[string]string{}   // the names of the keys that they verify with
	var names []string
	at := now
	for ; at.Before(now.Add(3 * time.Hour)); at = at.Add(20 * time.Second) {
		switch minute := at.Sub(now); minute {
		case 30 * time.Minute, 32 * time.Minute, 34 * time.Minute, 80 * time.Minute, 95 * time.Minute:
			c = rotate(t, s, c, at, false) // the second and third leave the pending key as it is
		case 110 * time.Minute:
			must.OK(t, s.TokenKeys.Wipe(ctx, at))
		}
		if at.Sub(fetched) >= 5*time.Minute { // for the first time before anything is signed
			before, set := changed, got(s.TokenKeys.Publish(ctx, by(c, at)))(t)
			cached, changed, fetched = set.Keys, set.Changed, at
			names := strings.Join(published(t, s, c, at), " ")
			if known, is := sets[changed]; changed.Before(before) || changed.After(at.Add(5*time.Second)) || is && known != names {
				t.Fatalf("after %v: the set changed at %v, before that at %v", at.Sub(now), changed, before)
			}
			sets[changed] = names
		}
		k := signer(t, s, c, tokenkey.ES256, at)
		if kid := k.Public().KID; len(names) == 0 || names[len(names)-1] != kid {
			names = append(names, kid)
		}
		token := got(k.Sign("JWT", []byte(at.Format(`"15:04:05"`))))(t)
		signed[token] = at.Add(store.TokenLife)
		if len(cached) > 4*3 {
			t.Fatalf("%d keys are published", len(cached))
		}
		for token, ends := range signed {
			if !at.Before(ends) {
				delete(signed, token)
				continue
			}
			verifies := func(k store.TokenKey) bool {
				parsed := got(jose.Parse(token, 4096))(t)
				return k.KID == parsed.Header.KeyID && k.Public.Verify(parsed) == nil
			}
			if signers[token] != "" { // a name is that of one key
				verifies = func(k store.TokenKey) bool { return k.KID == signers[token] }
			}
			with := slices.IndexFunc(cached, verifies)
			if with < 0 {
				t.Fatalf("after %v: no key for a token that ends at %v", at.Sub(now), ends)
			}
			signers[token] = cached[with].KID
		}
	}
	if len(names) != 4 {
		t.Errorf("%d keys have signed: rotations after 30, 80 and 95 minutes bring one each", len(names))
	}
	must.OK(t, s.TokenKeys.Wipe(ctx, at))
	if n := privateParts(t, path); n != 3 {
		t.Errorf("%d private parts are left", n)
	}
	if kids := published(t, s, c, at); len(kids) != 3 || !slices.Contains(kids, names[3]) {
		t.Errorf("published %v of %v", kids, names)
	}
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
}

// Who asks again gets the same set while no key comes or goes, and another from the very moment on
// when the last token of a key has ended, also where the keys are cached.
func TestPublishedKeysAreShared(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	c, _ := company(t, s, "acme")
	at := func(after time.Duration) *store.PublishedKeys {
		t.Helper()
		return got(s.TokenKeys.Published(ctx, by(c, now.Add(after))))(t)
	}
	if empty := at(0); string(empty.JWKS()) != `{"keys":[]}` || len(empty.Keys) != 0 || !empty.Changed.IsZero() {
		t.Errorf("%s changed %v", empty.JWKS(), empty.Changed)
	}
	old := signer(t, s, c, tokenkey.ES256, now).Public()
	first := at(0)
	again := at(time.Millisecond)
	for range 100 { // the keys are read again where the cache has to ask whether they have changed
		if again == first {
			break
		}
		first, again = at(0), at(time.Millisecond)
	}
	if again != first || !strings.Contains(string(first.JWKS()), string(old.Published("sig"))) {
		t.Errorf("%s and then %s", first.JWKS(), again.JWKS())
	}
	c = rotate(t, s, c, now.Add(time.Minute), false)
	if after := at(time.Minute); len(after.Keys) != 6 || strings.Count(string(after.JWKS()), `"kid"`) != 6 {
		t.Errorf("after a rotation: %s", after.JWKS())
	}
	gone := time.Minute + 10*time.Minute + store.TokenLife // of the first key
	for _, step := range []struct {
		after time.Duration
		keys  int
	}{{gone - 20*time.Millisecond, 6}, {gone - time.Millisecond, 6}, {gone, 3}, {gone + 20*time.Millisecond, 3}, {gone - time.Millisecond, 6}, {gone, 3}} {
		set := at(step.after)
		if has := strings.Contains(string(set.JWKS()), old.KID); len(set.Keys) != step.keys || has != (step.keys == 6) {
			t.Errorf("%v after the key has gone: %s", step.after-gone, set.JWKS())
		}
		if step.keys == 3 && !set.Changed.Equal(now.Add(gone).Truncate(time.Millisecond)) {
			t.Errorf("the set without the key changed at %v, want %v", set.Changed, now.Add(gone))
		}
	}
	last := at(gone)
	c = rotate(t, s, c, now.Add(gone), true)
	after := at(gone)
	for _, k := range last.Keys {
		if is := strings.Contains(string(after.JWKS()), k.KID); len(after.Keys) != 3 || is {
			t.Errorf("after a theft %d keys are published, and %s of before: %v", len(after.Keys), k.KID, is)
		}
	}
}

// After a theft no key counts whose tokens may still be valid, the one that was to come included,
// and a new one of each algorithm signs at once.
func TestCompromisedTokenKeysEndAtOnce(t *testing.T) {
	t.Parallel()
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	zoo, _ := company(t, s, "zoo")
	untouched := signer(t, s, zoo, tokenkey.ES256, now).Public().KID
	signer(t, s, c, tokenkey.ES256, now)
	signer(t, s, c, tokenkey.RS256, now)
	// leaves a key that has ended, one that signs and one that is to come
	for _, after := range []time.Duration{10 * time.Minute, 40 * time.Minute} {
		c = rotate(t, s, c, now.Add(after), false)
	}
	at := now.Add(45 * time.Minute)
	before := published(t, s, c, at)
	if len(before) != 9 {
		t.Fatalf("published %v", before)
	}
	c = rotate(t, s, c, at, true)
	after := published(t, s, c, at)
	if len(after) != 3 || slices.ContainsFunc(after, func(kid string) bool { return slices.Contains(before, kid) }) {
		t.Errorf("published %v after %v", after, before)
	}
	if n := privateParts(t, path); n != 6 {
		t.Errorf("%d private parts are left", n)
	}
	for _, algorithm := range tokenkey.Algorithms {
		if k := signer(t, s, c, algorithm, at); !slices.Contains(after, k.Public().KID) {
			t.Errorf("%s: a key that is not published signs", algorithm)
		}
	}
	for _, kid := range before {
		records := recordsOf(t, s, c, kid)
		if last := records[len(records)-1]; !strings.Contains(last, `"compromised":true`) || !strings.Contains(last, "token-key.ended") {
			t.Errorf("%s: %s", kid, last)
		}
	}
	if k := signer(t, s, zoo, tokenkey.ES256, at); k.Public().KID != untouched {
		t.Error("the key of another company has changed")
	}
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
}

// A changed row of a token key is found when the key is used, long before the log is verified.
func TestChangedTokenKeyIsNotTrusted(t *testing.T) {
	t.Parallel()
	storetest.AboutFile(t)
	start := filled(t)
	for what, change := range map[string]string{
		"another key":            obeyed["token_key.jwk"],
		"an end moved":           `UPDATE token_key SET ended_at = '2030-01-01T00:00:00.000Z' WHERE alg = 'ES256' AND ended_at IS NULL`,
		"a beginning moved":      obeyed["token_key.signs_from"],
		"a compromise undone":    obeyed["token_key.compromised_at"],
		"a key of a stranger":    rows["a token key that nobody made"],
		"another algorithm":      `UPDATE token_key SET alg = 'ES256' WHERE alg = 'RS256' AND ended_at IS NULL`,
		"another private part":   `UPDATE token_key SET private = (SELECT private FROM token_key WHERE alg = 'EdDSA' AND private IS NOT NULL) WHERE alg = 'ES256'`,
		"a private part at rest": `UPDATE token_key SET private = zeroblob(64) WHERE alg = 'ES256' AND private IS NOT NULL`,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			path := storetest.Copy(t, start)
			must.OK(t, other(t, path, append(guards(t, path), "DROP INDEX token_key_newest", change)...).Close())
			s := open(t, path)
			c := got(s.Companies.Get(ctx, "acme"))(t)
			_, err := s.TokenKeys.Signer(ctx, by(c, now), tokenkey.ES256)
			if !errors.Is(err, store.ErrTablesChanged) && !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("%v", err)
			}
		})
	}
}
