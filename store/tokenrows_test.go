package store_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"attestd/crypto/keys"
	"attestd/crypto/seal"
	"attestd/internal/must"
	"attestd/store"
	"attestd/store/atrest"
	"attestd/store/storetest"
)

// tokenRows returns the names of the rows of access tokens, in hex.
func tokenRows(t testing.TB, path string) (names []string) {
	t.Helper()
	db := other(t, path)
	defer db.Close()
	rows := got(db.Query("SELECT hash FROM oauth_token"))(t)
	defer rows.Close()
	for rows.Next() {
		var name []byte
		must.OK(t, rows.Scan(&name))
		names = append(names, hex.EncodeToString(name))
	}
	must.OK(t, rows.Err())
	return names
}

// The row of a token follows those of earlier tokens, and is not on its own page anywhere in the
// table. Under a master key its name reveals only the time.
func TestTokenRowsStandInOrderOfIssue(t *testing.T) {
	t.Parallel()
	m := seal.NewMaster()
	for what, master := range map[string]*seal.Master{"in plaintext": nil, "sealed": &m} {
		path := storetest.New(t)
		s := openSealed(t, path, master)
		c, _ := company(t, s, "acme")
		client, secret, err := s.Credentials.CreateClient(ctx, by(c, now), full, 10)
		must.OK(t, err)
		var tokens []string
		for n := range 20 {
			at := now.Add(time.Duration(n) * time.Millisecond)
			token, _, err := s.Credentials.IssueTo(ctx, client.ID, secret, time.Hour, at)
			must.OK(t, err)
			tokens = append(tokens, token)
			last := slices.Max(tokenRows(t, path))
			hash := keys.HashSecret(token)
			if began := hex.EncodeToString(hash[:4]); !strings.HasPrefix(last, began) || len(last) != 64 {
				t.Fatalf("%s: the last row is %s, want that of the token, which begins with %s", what, last, began)
			}
			if plain := last == hex.EncodeToString(hash[:]); plain != (master == nil) {
				t.Errorf("%s: the row %s is named by the hash of the token alone: %v", what, last, plain)
			}
		}
		for _, token := range tokens {
			if who := got(s.Credentials.Authenticate(ctx, keys.HashSecret(token), now))(t); who.Client != client.ID {
				t.Errorf("%s: %+v", what, who)
			}
		}
		must.OK(t, s.Close())
	}
}

// Tokens whose rows an earlier version has named keep their rights.
func TestTokensOfFormerProgramsCount(t *testing.T) {
	t.Parallel()
	m := seal.NewMaster()
	path := storetest.New(t)
	s := openSealed(t, path, &m)
	c, _ := company(t, s, "acme")
	client, secret, err := s.Credentials.CreateClient(ctx, by(c, now), full, 10)
	must.OK(t, err)
	token, _, err := s.Credentials.IssueTo(ctx, client.ID, secret, time.Hour, now)
	must.OK(t, err)
	settings := map[string]string{}
	db := other(t, path)
	for _, name := range []string{"master_key_id", "seal_salt", "lookup_key"} {
		var value string
		must.OK(t, db.QueryRow("SELECT value FROM setting WHERE name = '"+name+"'").Scan(&value))
		settings[name] = value
	}
	must.OK(t, db.Close())
	secrets := got(got(atrest.ParseSealing(settings))(t).Unseal(path, &m))(t)
	hash := keys.HashSecret(token)
	must.OK(t, other(t, path, fmt.Sprintf("UPDATE oauth_token SET hash = x'%x'", secrets.Index(hash))).Close())
	must.OK(t, s.Close())
	s = openSealed(t, path, &m)
	if who := got(s.Credentials.Authenticate(ctx, hash, now))(t); who.Client != client.ID {
		t.Errorf("%+v", who)
	}
	who := by(got(s.Companies.Get(ctx, "acme"))(t), now)
	if about := got(s.Credentials.Introspect(ctx, who, hash))(t); about.Client != client.ID {
		t.Errorf("%+v", about)
	}
	must.OK(t, s.Credentials.RevokeToken(ctx, who, hash))
	if _, err := s.Credentials.Authenticate(ctx, hash, now); !errors.Is(err, store.ErrNotFound) || len(tokenRows(t, path)) != 0 {
		t.Errorf("revoked: %v", err)
	}
}
