package store_test

import (
	"errors"
	"testing"
	"time"

	"attestd/chain"
	"attestd/crypto/keys"
	"attestd/internal/must"
	"attestd/store"
)

func TestRolesCoverThoseBefore(t *testing.T) {
	t.Parallel()
	order := []store.Role{"", store.Reader, store.Writer, store.Admin}
	for i, role := range order {
		for j, needed := range order {
			if role.Covers(needed) != (i >= j) {
				t.Errorf("%q covers %q: %v", role, needed, i < j)
			}
		}
		if role.Covers("owner") || store.Role("owner").Covers(role) {
			t.Errorf("an unknown role beside %q", role)
		}
	}
}

// A key, and a token of its client, has the role that it was created with until it expires, to the
// millisecond; afterwards it is treated as unknown.
func TestGrants(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	acme, _ := company(t, s, "acme")
	end := now.Add(30 * time.Minute)
	for _, role := range []store.Role{store.Reader, store.Writer, store.Admin} {
		grant := store.Grant{Role: role, Expires: end}
		key := got(s.Credentials.CreateKey(ctx, by(acme, now), nil, grant, 1000))(t)
		client, secret, err := s.Credentials.CreateClient(ctx, by(acme, now), grant, 1000)
		must.OK(t, err)
		token, ends, err := s.Credentials.IssueTo(ctx, client.ID, secret, time.Hour, now)
		must.OK(t, err)
		if !ends.Equal(end) {
			t.Errorf("a token ends at %v, its client at %v", ends, end)
		}
		short, ends, err := s.Credentials.IssueTo(ctx, client.ID, secret, time.Minute, now)
		must.OK(t, err)
		if !ends.Equal(now.Add(time.Minute)) {
			t.Errorf("a token of a minute ends at %v", ends)
		}
		for credential, end := range map[string]time.Time{key.Key: end, token: end, short: now.Add(time.Minute)} {
			for range 2 { // the first read is from the file, the second from the cache
				who := got(s.Credentials.Authenticate(ctx, keys.HashSecret(credential), end.Add(-time.Millisecond)))(t)
				if who.Role != role || !who.Expires.Equal(end) {
					t.Errorf("%s: %+v", role, who)
				}
			}
			for range 2 {
				if _, err := s.Credentials.Authenticate(ctx, keys.HashSecret(credential), end); !errors.Is(err, store.ErrNotFound) {
					t.Errorf("%s at its end: %v", role, err)
				}
			}
		}
		for _, at := range []time.Time{end, end.Add(time.Hour)} {
			if _, _, err := s.Credentials.IssueTo(ctx, client.ID, secret, time.Hour, at); !errors.Is(err, store.ErrBadClient) {
				t.Errorf("a token of a client that has ended: %v", err)
			}
		}
	}
	for _, c := range all(t, s.Credentials.List(ctx, by(acme, now), ""))[1:] {
		if c.ExpiresAt != chain.FormatTime(end) {
			t.Errorf("%+v", c)
		}
	}
	for _, role := range []store.Role{"", "owner"} {
		if _, err := s.Credentials.CreateKey(ctx, by(acme, now), nil, store.Grant{Role: role}, 1000); err == nil {
			t.Errorf("a key of the role %q", role)
		}
	}
}

// Keys that expire and keys that cannot create others do not count when the last key is protected.
func TestLastAdminKeyIsKept(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	acme, first := company(t, s, "acme")
	create := func(g store.Grant) string {
		return got(s.Credentials.CreateKey(ctx, by(acme, now), nil, g, 1000))(t).Key
	}
	others := []string{
		create(store.Grant{Role: store.Reader}), create(store.Grant{Role: store.Writer}),
		create(store.Grant{Role: store.Admin, Expires: now.Add(1000 * time.Hour)}),
	}
	if err := s.Credentials.DeleteKey(ctx, by(acme, now), first.Key); !errors.Is(err, store.ErrLastKey) {
		t.Errorf("the last key: %v", err)
	}
	for _, key := range others {
		must.OK(t, s.Credentials.DeleteKey(ctx, by(acme, now), key))
	}
	second := create(full)
	must.OK(t, s.Credentials.DeleteKey(ctx, by(acme, now), first.Key))
	if err := s.Credentials.DeleteKey(ctx, by(acme, now), second); !errors.Is(err, store.ErrLastKey) {
		t.Errorf("the last key: %v", err)
	}
}

// A recovered key is one that can make others: the oldest of an admin without an end, even where a
// reader's key, or one that expires, is older.
func TestRecoveredKeyIsAnAdmins(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	acme, first := company(t, s, "acme")
	for _, g := range []store.Grant{{Role: store.Reader}, {Role: store.Admin, Expires: now.Add(1000 * time.Hour)}} {
		got(s.Credentials.CreateKey(ctx, by(acme, now), nil, g, 1000))(t)
	}
	second := got(s.Credentials.CreateKey(ctx, by(acme, now), nil, full, 1000))(t)
	got(s.Credentials.CreateKey(ctx, by(acme, now), nil, full, 1000))(t)
	for _, want := range []string{first.Key, second.Key} {
		if k := got(s.Credentials.FirstKey(ctx, "acme"))(t); k.Key != want {
			t.Errorf("the recovered key is labelled %v", k.Label)
		}
		if k := got(s.Credentials.RecoverKey(ctx, "acme", store.RecoveredByCommand, now))(t); k.Key != want {
			t.Errorf("the recovered key is labelled %v", k.Label)
		}
		if want == first.Key {
			must.OK(t, s.Credentials.DeleteKey(ctx, by(acme, now), first.Key))
		}
	}
}
