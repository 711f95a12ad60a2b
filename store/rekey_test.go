package store_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"attestd/crypto/keys"
	"attestd/crypto/seal"
	"attestd/crypto/tokenkey"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/storetest"
)

// sealed is a database under a master key that holds every kind of secret, together with all
// secrets that it ever held.
type sealed struct {
	path                  string
	keys                  []string // API keys that are accepted
	client, secret, token string
	federated             string // token of a workload
	cosigner              ed25519.PrivateKey
	hook                  string
	forOthers             string            // name of the token key
	signs, signed         []byte            // the webhook's present and previous secrets
	traces                map[string][]byte // every secret that the database ever held
}

func openSealed(t testing.TB, path string, m *seal.Master) *store.Store {
	t.Helper()
	s, err := store.Open(ctx, path, schema(t), store.Options{Master: m})
	must.OK(t, err)
	go s.Run(ctx, store.RunOptions{Now: func() time.Time { return now }})
	t.Cleanup(func() { s.Close() })
	return s
}

// withSecrets creates a database under m and closes it.
func withSecrets(t testing.TB, m *seal.Master) (f sealed) {
	t.Helper()
	f.path = storetest.New(t)
	f.cosigner = cosignerKey(t, f.path, m)
	s := openSealed(t, f.path, m)
	c, first := company(t, s, "acme")
	attest(t, s, c, 3)
	second, gone := got(s.Credentials.CreateKey(ctx, by(c, now), nil, full, 1000))(t), got(s.Credentials.CreateKey(ctx, by(c, now), nil, full, 1000))(t)
	must.OK(t, s.Credentials.DeleteKey(ctx, by(c, now), gone.Key))
	f.keys = []string{first.Key, second.Key}
	client, secret, err := s.Credentials.CreateClient(ctx, by(c, now), full, 1000)
	must.OK(t, err)
	f.client, f.secret = client.ID, secret
	f.token, _, err = s.Credentials.IssueTo(ctx, client.ID, secret, time.Hour, now)
	must.OK(t, err)
	got(s.Agents.Register(ctx, by(c, now), "bot", nil, store.AgentBounds{New: true, Most: 10}))(t)
	f.federated = got(s.Federations.IssueFederated(ctx, by(c, now), store.Federated{
		Federation: got(s.Federations.Create(ctx, by(c, now), aFederation("ci"), 3))(t), Subject: "x", AgentID: "bot", Ends: now.Add(time.Hour)}, 100))(t)
	before, after := webhookSecret(), webhookSecret()
	f.hook = got(s.Webhooks.Create(ctx, by(c, now), store.Webhook{URL: "https://hooks.example.com/"}, before, 16))(t).ID
	got(s.Webhooks.RotateSecret(ctx, by(c, now), f.hook, after, now.Add(time.Hour)))(t)
	f.signs, f.signed = after.Bytes, before.Bytes
	f.traces = map[string][]byte{"a webhook's secret": f.signs, "a webhook's former secret": f.signed, "a key": []byte(first.Key[4:]), "a deleted key": []byte(gone.Key[4:]), "a client's secret": []byte(secret[3:]), "a token": []byte(f.token[12:]),
		"a workload's token":        []byte(f.federated[12:]),
		"the witness's private key": f.cosigner.Seed()}
	seeds := func(which string) {
		var seed []byte
		db := other(t, f.path)
		must.OK(t, db.QueryRow("SELECT seed FROM company_key WHERE company = 1 AND seed IS NOT NULL").Scan(&seed))
		must.OK(t, db.Close())
		if m == nil {
			f.traces[which] = seed
		}
	}
	former := got(s.TokenKeys.Signer(ctx, by(c, now), tokenkey.ES256))(t)
	seeds("a former private key")
	_, _, err = s.Companies.RotateKey(ctx, by(c, now), false)
	must.OK(t, err)
	seeds("a private key")
	// which has ended, and is deleted; the key after it signs later
	later := now.Add(time.Hour)
	must.OK(t, s.TokenKeys.Wipe(ctx, later))
	next := got(s.TokenKeys.Signer(ctx, by(got(s.Companies.Get(ctx, "acme"))(t), later), tokenkey.ES256))(t)
	f.forOthers = next.Public().KID
	for what, k := range map[string]*tokenkey.Private{"a former token key": former, "a token key": next} {
		f.traces[what] = got(k.PKCS8())(t)[36:68]
	}
	company(t, s, "globex")
	attest(t, s, got(s.Companies.Get(ctx, "acme"))(t), 3)
	must.OK(t, s.Close())
	return f
}

// cosignerKey returns the cosigner key of a closed database.
func cosignerKey(t testing.TB, path string, m *seal.Master) ed25519.PrivateKey {
	t.Helper()
	s := got(store.Open(ctx, path, schema(t), store.Options{Master: m}))(t)
	_, private, err := s.Cosigner.Key(ctx, "", now)
	must.OK(t, err)
	must.OK(t, s.Close())
	return private
}

// check demands that everything that was valid before is valid under the master key m.
func (f sealed) check(t testing.TB, m *seal.Master) {
	t.Helper()
	if !cosignerKey(t, f.path, m).Equal(f.cosigner) {
		t.Error("the witness has another key")
	}
	s := openSealed(t, f.path, m)
	defer s.Close()
	must.OK(t, s.VerifyAll(ctx, "", 1, nil, nil))
	c := got(s.Companies.Get(ctx, "acme"))(t)
	attest(t, s, c, 1)
	if d := got(s.Webhooks.Delivery(ctx, c.Chain, f.hook))(t); !bytes.Equal(d.Secret, f.signs) || !bytes.Equal(d.Former, f.signed) {
		t.Error("the webhook has other secrets")
	}
	if k := got(s.TokenKeys.Signer(ctx, by(c, now.Add(time.Hour)), tokenkey.ES256))(t); k.Public().KID != f.forOthers {
		t.Error("tokens for others are signed with another key")
	}
	for _, secret := range append(f.keys, f.token, f.federated) {
		if who, err := s.Credentials.Authenticate(ctx, keys.HashSecret(secret), now); err != nil || who.Company.ID != "acme" {
			t.Errorf("credential %.6s…: %v, %v", secret, who, err)
		}
	}
	var listed []string
	for _, k := range all(t, s.Credentials.Keys(ctx, by(c, now))) {
		listed = append(listed, k.Key)
	}
	if strings.Join(listed, " ") != strings.Join(f.keys, " ") || got(s.Credentials.FirstKey(ctx, "acme"))(t).Key != f.keys[0] {
		t.Errorf("%d keys are listed, or others than were made", len(listed))
	}
	for i, credential := range all(t, s.Credentials.List(ctx, by(c, now), "")) {
		if secret := append(f.keys, f.secret)[i]; credential.Fingerprint != keys.Fingerprint(keys.HashSecret(secret)) {
			t.Errorf("credential %d has the fingerprint %s", i, credential.Fingerprint)
		}
	}
	_, _, err := s.Credentials.IssueTo(ctx, f.client, f.secret, time.Hour, now)
	must.OK(t, err)
}

// spellings returns the encodings in which a secret may appear in a file.
func spellings(secret []byte) (forms [][]byte) {
	forms = append(forms, secret, []byte(hex.EncodeToString(secret)), []byte(strings.ToUpper(hex.EncodeToString(secret))))
	for shift := range 3 { // base64 at each offset in a longer text
		padded := append(make([]byte, shift), secret...)
		for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := e.EncodeToString(padded)
			forms = append(forms, []byte(text[4:len(text)-4]))
		}
	}
	return forms
}

// found lists the secrets that appear in the files of f's directory.
func (f sealed) found(t testing.TB) (found []string) {
	t.Helper()
	for part, content := range storetest.Content(t, f.path) {
		for what, secret := range f.traces {
			if slices.ContainsFunc(spellings(secret), func(form []byte) bool { return strings.Contains(content, string(form)) }) {
				found = append(found, what+" in "+part)
			}
		}
	}
	slices.Sort(found)
	return found
}

func rekey(t testing.TB, path string, old, next *seal.Master) error {
	t.Helper()
	return admin.Rekey(ctx, path, schema(t), admin.RekeyOptions{Old: old, New: next})
}

// Keys are sealed, sealed under another master key, put back in plaintext and sealed again. Each
// time everything remains valid, and the old plaintext is gone, even from free pages.
func TestRekey(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	a, b := seal.NewMaster(), seal.NewMaster()
	f := withSecrets(t, nil)
	if found := f.found(t); len(found) < 2 {
		t.Fatalf("in plaintext, the file holds only: %v", found)
	}
	for i, step := range []struct{ old, next *seal.Master }{{nil, &a}, {&a, &b}, {&b, &a}, {&a, nil}, {nil, &b}, {nil, &b}} {
		// The last step is already done and needs nothing.
		must.OK(t, rekey(t, f.path, step.old, step.next))
		if found := f.found(t); step.next != nil && len(found) > 0 {
			t.Errorf("step %d: %v", i, found)
		}
		f.check(t, step.next)
		if found := f.found(t); step.next != nil && len(found) > 0 {
			t.Errorf("step %d, after use: %v", i, found)
		}
	}
	_, empty := fresh(t)
	compareShapes(t, "after a rekey", shape(t, f.path), shape(t, empty))
}

// A database that is sealed from its first start never holds a secret in plaintext, and neither
// does its backup, which is made without the master key.
func TestSealedFromTheStart(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	m := seal.NewMaster()
	f := withSecrets(t, &m)
	if !storetest.OnPostgres() {
		must.OK(t, admin.Backup(ctx, f.path, filepath.Join(filepath.Dir(f.path), "backup.db"), schema(t), nil))
	}
	if found := f.found(t); len(found) > 0 {
		t.Error(found)
	}
	f.check(t, &m)
	if storetest.OnPostgres() {
		return
	}
	f.path = filepath.Join(filepath.Dir(f.path), "backup.db")
	f.check(t, &m)
}

// If the master key is missing or wrong, or the keys are in plaintext although one is given, the
// database is not opened and nothing is changed.
func TestAnotherMasterKeyTouchesNothing(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	a, b := seal.NewMaster(), seal.NewMaster()
	clear, closed := withSecrets(t, nil), withSecrets(t, &a)
	for _, test := range []struct {
		path string
		m    *seal.Master
	}{{clear.path, &a}, {closed.path, nil}, {closed.path, &b}} {
		before := storetest.Content(t, test.path)
		if _, err := store.Open(ctx, test.path, schema(t), store.Options{Master: test.m}); !errors.Is(err, store.ErrMasterKey) {
			t.Errorf("open: %v", err)
		}
		other := seal.NewMaster()
		if err := rekey(t, test.path, test.m, &other); !errors.Is(err, store.ErrMasterKey) {
			t.Errorf("rekey: %v", err)
		}
		if !maps.Equal(storetest.Content(t, test.path), before) {
			t.Errorf("a file has changed")
		}
		s := got(store.OpenReadOnly(ctx, test.path))(t)
		if err := s.Unseal(test.m); !errors.Is(err, store.ErrMasterKey) {
			t.Errorf("unseal: %v", err)
		}
		must.OK(t, s.VerifyAll(ctx, "", 1, nil, nil)) // verification needs no private key
		must.OK(t, s.Close())
	}
	s := got(store.OpenReadOnly(ctx, closed.path))(t)
	defer s.Close()
	if _, err := s.Credentials.FirstKey(ctx, "acme"); !errors.Is(err, store.ErrMasterKey) {
		t.Errorf("a key without the master key: %v", err)
	}
}

// A sealed secret is valid only at its own place: an attacker who writes the file cannot give one
// company the key of another.
func TestMovedSealedSecretIsRefused(t *testing.T) {
	t.Parallel()
	m := seal.NewMaster()
	f := withSecrets(t, &m)
	must.OK(t, other(t, f.path, "DROP TRIGGER company_key_only_ends",
		"UPDATE company_key SET (public_key, seed) = (SELECT public_key, seed FROM company_key WHERE company = 2) WHERE company = 1 AND ended_at IS NULL",
		"UPDATE api_key SET key = (SELECT key FROM api_key WHERE company = 1 ORDER BY id LIMIT 1) WHERE company = 2",
		"UPDATE webhook SET former_secret = secret").Close())
	s := openSealed(t, f.path, &m)
	if c, err := s.Companies.Get(ctx, "acme"); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("acme has the private key of globex: %v, %v", c, err)
	}
	if _, err := s.Webhooks.Delivery(ctx, 1, f.hook); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("a webhook signs with a secret of another place: %v", err)
	}
	globex := got(s.Companies.Get(ctx, "globex"))(t)
	for k, err := range s.Credentials.Keys(ctx, by(globex, now)) {
		if !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("globex lists a key of acme: %.6s…, %v", k.Key, err)
		}
	}
	if k, err := s.Credentials.FirstKey(ctx, "globex"); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("globex recovers a key of acme: %.6s…, %v", k.Key, err)
	}
}

// If the keys were changed but the file could not be copied, the database is served with a warning,
// and the next run completes the change.
func TestInterruptedRekeyResumes(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	a := seal.NewMaster()
	f := withSecrets(t, nil)
	s := openSealed(t, f.path, nil)
	c := got(s.Companies.Get(ctx, "acme"))(t)
	gone := got(s.Credentials.CreateKey(ctx, by(c, now), ptr("gone"), full, 1000))(t)
	must.OK(t, s.Close())
	must.OK(t, other(t, f.path, "CREATE TABLE copied AS WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999) SELECT key FROM api_key, n WHERE label = 'gone'",
		"DROP TABLE copied").Close()) // it leaves free pages
	s = openSealed(t, f.path, nil)
	must.OK(t, s.Credentials.DeleteKey(ctx, by(got(s.Companies.Get(ctx, "acme"))(t), now), gone.Key))
	must.OK(t, s.Close())
	f.traces["a key that was copied"] = []byte(gone.Key[4:])
	stop, cancel := context.WithCancel(ctx)
	err := admin.Rekey(stop, f.path, schema(t), admin.RekeyOptions{New: &a, Progress: func(stage string, done, total int64) {
		if stage == "copy" {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "run it once more") {
		t.Errorf("interrupted: %v", err)
	}
	if len(f.found(t)) == 0 {
		t.Error("free pages hold nothing: this test shows nothing")
	}
	s = openSealed(t, f.path, &a)
	if n := s.Notices(); len(n) != 1 || !strings.Contains(n[0], "rekey") {
		t.Errorf("notices %q", n)
	}
	must.OK(t, s.Close())
	must.OK(t, rekey(t, f.path, &a, &a))
	if found := f.found(t); len(found) > 0 {
		t.Error(found)
	}
	f.check(t, &a)
}
