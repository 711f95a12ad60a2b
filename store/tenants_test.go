package store_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"attestd/chain"
	"attestd/crypto/cred"
	"attestd/crypto/keys"
	"attestd/internal/must"
	"attestd/store"
	"attestd/store/storetest"
)

func TestCompanies(t *testing.T) {
	t.Parallel()
	s, path := fresh(t)
	metadata := raw(`{ "b": 1.0, "a": "é" }`)
	acme, key, err := s.Companies.Create(ctx, "acme", metadata, now)
	must.OK(t, err)
	if acme.ID != "acme" || acme.RegisteredAt != "2026-03-04T05:06:07.008Z" || string(got(s.Companies.Metadata(ctx, by(acme, now)))(t)) != string(metadata) {
		t.Errorf("company: %+v", acme)
	}
	if !strings.HasPrefix(key.Key, "svc_") || *key.Label != "bootstrap" || key.CreatedAt != acme.RegisteredAt {
		t.Errorf("bootstrap key: %+v", key)
	}
	if acme.Issuer.Company != "acme" || acme.Issuer.Domain != s.Domain() || len(acme.Issuer.Keys(now)) != 1 {
		t.Errorf("issuer: %+v", acme.Issuer)
	}
	if _, _, err := s.Companies.Create(ctx, "acme", nil, now); !errors.Is(err, store.ErrExists) {
		t.Errorf("again: %v", err)
	}
	zoo, _ := company(t, s, "zoo")
	if zoo.Chain == acme.Chain || zoo.Issuer.Public.KID == acme.Issuer.Public.KID || got(s.Companies.Metadata(ctx, by(zoo, now)))(t) != nil {
		t.Errorf("second company: %+v", zoo)
	}
	must.OK(t, s.Close())
	s = open(t, path)

	for range 2 { // the first read is from the file, the second from the cache
		found, err := s.Companies.Get(ctx, "acme")
		must.OK(t, err)
		same, err := s.Companies.OfChain(ctx, acme.Chain)
		must.OK(t, err)
		if found != same || !reflect.DeepEqual(found, acme) {
			t.Errorf("found: %+v\nwant: %+v", found, acme)
		}
	}
	if _, err := s.Companies.Get(ctx, "Acme"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Acme: %v", err)
	}
	if _, err := s.Companies.OfChain(ctx, 99); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("chain 99: %v", err)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	acme, bootstrap := company(t, s, "acme")
	zoo, foreign := company(t, s, "zoo")
	plain := got(s.Credentials.CreateKey(ctx, by(acme, now), nil, full, 1000))(t)
	labelled := got(s.Credentials.CreateKey(ctx, by(acme, now), ptr("ci"), full, 1000))(t)
	if all := all(t, s.Credentials.Keys(ctx, by(acme, now))); !same(all, []store.APIKey{bootstrap, plain, labelled}) {
		t.Errorf("keys: %+v", all)
	}
	if plain.Label != nil || labelled.Label == nil || *labelled.Label != "ci" {
		t.Errorf("labels: %v, %v", plain.Label, labelled.Label)
	}
	for _, key := range []string{foreign.Key, "svc_none", ""} {
		if err := s.Credentials.DeleteKey(ctx, by(acme, now), key); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("delete %q: %v", key, err)
		}
	}
	if err := s.Credentials.DeleteKey(ctx, by(zoo, now), foreign.Key); !errors.Is(err, store.ErrLastKey) {
		t.Errorf("the last key: %v", err)
	}
	if c, err := s.Credentials.Authenticate(ctx, keys.HashSecret(foreign.Key), now); err != nil || c.Company.ID != "zoo" {
		t.Errorf("the last key no longer works: %v", err)
	}
	if k := got(s.Credentials.FirstKey(ctx, "acme"))(t); !reflect.DeepEqual(k, bootstrap) {
		t.Errorf("first key: %+v", k)
	}
	must.OK(t, s.Credentials.DeleteKey(ctx, by(acme, now), bootstrap.Key))
	if k := got(s.Credentials.FirstKey(ctx, "acme"))(t); !reflect.DeepEqual(k, plain) {
		t.Errorf("first key: %+v", k)
	}
	if _, err := s.Credentials.FirstKey(ctx, "nobody"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("first key of nobody: %v", err)
	}
}

func TestKeyPrefixIsTheServicesName(t *testing.T) {
	t.Parallel()
	s, err := store.Open(ctx, storetest.New(t), schema(t), store.Options{Domain: cred.Domain{Service: "notary"}})
	must.OK(t, err)
	defer s.Close()
	go s.Run(ctx, store.RunOptions{})
	if _, key := company(t, s, "acme"); !strings.HasPrefix(key.Key, "notary_") {
		t.Errorf("key %q", key.Key)
	}
}

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	acme, key := company(t, s, "acme")
	company(t, s, "zoo")
	client, secret, err := s.Credentials.CreateClient(ctx, by(acme, now), full, 1000)
	must.OK(t, err)
	token, _, err := s.Credentials.IssueTo(ctx, client.ID, secret, time.Hour, now)
	must.OK(t, err)
	for _, credential := range []string{key.Key, token} {
		for range 2 { // the first read is from the file, the second from the cache
			c, err := s.Credentials.Authenticate(ctx, keys.HashSecret(credential), now)
			if err != nil || c.Company.Chain != acme.Chain || c.Company.ID != "acme" {
				t.Errorf("%+v, %v", c, err)
			}
		}
	}
	for _, credential := range []string{"", "svc_", key.Key + "x", key.Key[:20], strings.ToUpper(key.Key), secret, client.ID, "acme"} {
		if _, err := s.Credentials.Authenticate(ctx, keys.HashSecret(credential), now); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%q: %v", credential, err)
		}
	}
	// Tokens expire to the millisecond, whether they are cached or not.
	end := now.Add(time.Hour)
	if _, err := s.Credentials.Authenticate(ctx, keys.HashSecret(token), end.Add(-time.Millisecond)); err != nil {
		t.Errorf("just before its end: %v", err)
	}
	if _, err := s.Credentials.Authenticate(ctx, keys.HashSecret(token), end); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("at its end: %v", err)
	}
	if _, err := s.Credentials.Authenticate(ctx, keys.HashSecret(key.Key), end.Add(1000*time.Hour)); err != nil {
		t.Errorf("a key does not expire: %v", err)
	}
	extra := got(s.Credentials.CreateKey(ctx, by(acme, now), nil, full, 1000))(t)
	if _, err := s.Credentials.Authenticate(ctx, keys.HashSecret(extra.Key), now); err != nil {
		t.Fatal(err)
	}
	must.OK(t, s.Credentials.DeleteKey(ctx, by(acme, now), extra.Key))
	if _, err := s.Credentials.Authenticate(ctx, keys.HashSecret(extra.Key), now); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
}

func TestOAuth(t *testing.T) {
	t.Parallel()
	path, at := storetest.New(t), &clocks{wall: now}
	s := openWith(t, path, at.options())
	acme, _ := company(t, s, "acme")
	zoo, _ := company(t, s, "zoo")
	first, secret, err := s.Credentials.CreateClient(ctx, by(acme, now), full, 1000)
	must.OK(t, err)
	second, otherSecret, err := s.Credentials.CreateClient(ctx, by(acme, now), full, 1000)
	must.OK(t, err)
	if !strings.HasPrefix(first.ID, "cc_") || first.ID == second.ID || secret == otherSecret || len(secret) < 43 {
		t.Errorf("%+v, %+v", first, second)
	}
	if all := all(t, s.Credentials.Clients(ctx, by(acme, now))); !same(all, []store.OAuthClient{first, second}) {
		t.Errorf("clients: %+v", all)
	}
	if all := all(t, s.Credentials.Clients(ctx, by(zoo, now))); len(all) != 0 {
		t.Errorf("clients of another company: %+v", all)
	}
	for _, try := range [][2]string{{first.ID, otherSecret}, {first.ID, ""}, {"cc_none", secret}, {"", ""}} {
		if _, _, err := s.Credentials.IssueTo(ctx, try[0], try[1], time.Hour, now); !errors.Is(err, store.ErrBadClient) {
			t.Errorf("%q: %v", try, err)
		}
	}
	token, _, err := s.Credentials.IssueTo(ctx, first.ID, secret, time.Hour, now)
	must.OK(t, err)
	if !strings.HasPrefix(token, "oauth_") {
		t.Errorf("token %q", token)
	}
	// A token is deleted a week after it expired; until then a clock that leapt ahead once does no
	// harm.
	db := other(t, path)
	for _, step := range []struct {
		after  time.Duration
		tokens int
	}{{7*24*time.Hour - time.Minute, 2}, {time.Hour + 7*24*time.Hour, 2}, {time.Hour + 14*24*time.Hour, 2}} {
		if _, _, err := s.Credentials.IssueTo(ctx, first.ID, secret, time.Hour, now.Add(step.after)); err != nil {
			t.Fatal(err)
		}
		passed := now.Add(step.after).Sub(at.now())
		at.pass(passed, passed)
		must.OK(t, s.Expired.Tokens(ctx, store.Sweep{Keep: store.DefaultRetention, Now: at.now, Deleted: func(string, int64) {}}))
		var tokens int
		must.OK(t, db.QueryRow("SELECT count(*) FROM oauth_token").Scan(&tokens))
		if tokens != step.tokens {
			t.Errorf("after %v: %d tokens, want %d", step.after, tokens, step.tokens)
		}
	}
	if strings.Contains(dump(t, db, "SELECT * FROM oauth_client"), secret) {
		t.Error("a secret in plaintext")
	}
}

func TestAgents(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	acme, _ := company(t, s, "acme")
	zoo, _ := company(t, s, "zoo")
	if a := got(s.Agents.Register(ctx, by(acme, now), "bot", raw(`{"v": 1}`), many))(t); a.ID != "bot" || a.RegisteredAt != chain.FormatTime(now) {
		t.Errorf("registered: %+v", a)
	}
	if _, err := s.Agents.Get(ctx, by(zoo, now), "bot"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("agent of another company: %v", err)
	}
	_, err := s.Agents.Register(ctx, by(zoo, now), "bot", nil, many)
	must.OK(t, err)
	if a := got(s.Agents.Get(ctx, by(acme, now), "bot"))(t); string(a.Metadata) != `{"v": 1}` {
		t.Errorf("agent: %+v", a)
	}
	later := now.Add(time.Minute)
	_, err = s.Agents.Register(ctx, by(acme, later), "bot", nil, many)
	must.OK(t, err)
	if a := got(s.Agents.Get(ctx, by(acme, now), "bot"))(t); a.Metadata != nil || a.RegisteredAt != chain.FormatTime(later) {
		t.Errorf("registered again: %+v", a)
	}
	for _, id := range []string{"c", "a", "B"} {
		_, err = s.Agents.Register(ctx, by(acme, now), id, nil, many)
		must.OK(t, err)
	}
	for after, want := range map[string]string{"": "B a bot c", "a": "bot c", "c": ""} {
		var ids []string
		for _, a := range all(t, s.Agents.List(ctx, by(acme, now), store.AgentFilter{}, after)) {
			ids = append(ids, a.ID)
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("agents after %q: %s", after, got)
		}
	}
}

func passport(jti string, issued int64) store.Passport {
	return store.Passport{JTI: jti, AgentID: "bot", Scopes: []string{"tool:*", "a:b"}, IssuedAt: issued, ExpiresAt: issued + 60}
}

func TestPassports(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	acme, _ := company(t, s, "acme")
	zoo, _ := company(t, s, "zoo")
	p := passport("one", 100)
	must.OK(t, s.Passports.Record(ctx, by(acme, now), p))
	if found := got(s.Passport(ctx, by(acme, now), "one"))(t); !same(found, p) {
		t.Errorf("found %+v, want %+v", found, p)
	}
	if err := s.Passports.Record(ctx, by(zoo, now), p); err == nil {
		t.Error("one jti, two passports")
	}
	for name, try := range map[string]func(*store.Company, string) error{
		"find": func(c *store.Company, jti string) error { _, err := s.Passport(ctx, by(c, now), jti); return err },
		"revoke": func(c *store.Company, jti string) error {
			_, err := s.Passports.Revoke(ctx, by(c, now), jti, nil)
			return err
		},
		"rotate": func(c *store.Company, jti string) error {
			return s.Passports.Rotate(ctx, by(c, now), passport(jti, 100), passport("x", 1))
		},
	} {
		if err := try(zoo, "one"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s another company's: %v", name, err)
		}
		if err := try(acme, "none"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s an unknown one: %v", name, err)
		}
	}
	must.OK(t, s.Passports.Rotate(ctx, by(acme, now), passport("one", 100), passport("two", 200)))
	p.RevokedAt = chain.FormatTime(now)
	if found := got(s.Passport(ctx, by(acme, now), "one"))(t); !same(found, p) {
		t.Errorf("rotated: %+v, want %+v", found, p)
	}
	if err := s.Passports.Rotate(ctx, by(acme, now), passport("one", 100), passport("three", 300)); !errors.Is(err, store.ErrRevoked) {
		t.Errorf("rotated twice: %v", err)
	}
	if _, err := s.Passport(ctx, by(acme, now), "three"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a failed rotation has recorded a passport: %v", err)
	}
	later := now.Add(time.Second)
	revoked := got(s.Passports.Revoke(ctx, by(acme, later), "two", ptr("stolen")))(t)
	if revoked.RevokedAt != chain.FormatTime(later) || *revoked.Reason != "stolen" || revoked.JTI != "two" {
		t.Errorf("revoked: %+v", revoked)
	}
	if _, err := s.Passports.Revoke(ctx, by(acme, later), "two", nil); !errors.Is(err, store.ErrRevoked) {
		t.Errorf("revoked twice: %v", err)
	}
	if all := all(t, s.Passports.Revoked(ctx, by(acme, now))); !same(all, []store.Passport{p, revoked}) {
		t.Errorf("revoked: %+v", all)
	}
	if all := all(t, s.Passports.Revoked(ctx, by(zoo, now))); len(all) != 0 {
		t.Errorf("revoked by another company: %+v", all)
	}
}

func TestPassportPages(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	acme, _ := company(t, s, "acme")
	zoo, _ := company(t, s, "zoo")
	must.OK(t, s.Passports.Record(ctx, by(zoo, now), passport("zoo's", 5)))
	var want []string
	for i := range 10 { // several in each second
		must.OK(t, s.Passports.Record(ctx, by(acme, now), passport(fmt.Sprint(i), int64(i/4))))
		want = append([]string{fmt.Sprint(i)}, want...)
	}
	for left, cursor := want, ""; len(left) > 0; left = left[1:] { // from each position
		listed := issued(t, s, acme, store.PassportFilter{}, cursor)
		var ids []string
		for _, p := range listed {
			ids = append(ids, p.JTI)
		}
		if !reflect.DeepEqual(ids, left) {
			t.Errorf("after %q: %v, want %v", cursor, ids, left)
		}
		cursor = listed[0].Cursor()
	}
	for _, cursor := range []string{"x", "1.2", "!", "MS4yIA", "Ky4"} {
		if _, _, err := s.Passports.List(ctx, by(acme, now), store.PassportFilter{}, cursor); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
}

func TestKeySurvivesInTheFile(t *testing.T) {
	t.Parallel()
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	svid := c.Issuer.SVID(c.Issuer.CompanyID(), now)
	must.OK(t, s.Close())
	found := got(open(t, path).Companies.Get(ctx, "acme"))(t)
	if _, err := found.Issuer.CheckDelegation(svid, now); err != nil || found.Issuer.Public.KID != c.Issuer.Public.KID {
		t.Error("another key after a restart")
	}
}
