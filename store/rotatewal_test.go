package store_test

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"attestd/internal/must"
	"attestd/store"
	"attestd/store/storetest"
)

// When a rotation is answered, the seed of the old key is gone from the served file and from its
// write-ahead log.
func TestSeedOfEndedKeyIsErased(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	path := storetest.New(t)
	s := got(store.Open(ctx, path, schema(t), store.Options{}))(t) // in plaintext
	go s.Run(ctx, store.RunOptions{})
	t.Cleanup(func() { s.Close() })
	acme, _ := company(t, s, "acme")
	for i := range 20 { // their rows share the page of the seed
		company(t, s, fmt.Sprint("zoo", i))
	}
	attest(t, s, acme, 50)
	seed := seedOf(t, path)
	if !anywhere(t, path, seed) {
		t.Fatal("the seed is in no file before it has ended")
	}
	for _, compromised := range []bool{false, true} {
		_, _, err := s.Companies.RotateKey(ctx, by(got(s.Companies.Get(ctx, "acme"))(t), now), compromised)
		must.OK(t, err)
		if anywhere(t, path, seed) {
			t.Error("the seed of a key that has ended stands in the file or its log")
		}
		seed = seedOf(t, path)
	}
	attest(t, s, got(s.Companies.Get(ctx, "acme"))(t), 5)
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
}

func seedOf(t *testing.T, path string) (seed []byte) {
	t.Helper()
	db := other(t, path)
	defer db.Close()
	must.OK(t, db.QueryRow("SELECT seed FROM company_key WHERE company = 1 AND ended_at IS NULL").Scan(&seed))
	return seed
}

func anywhere(t *testing.T, path string, secret []byte) (found bool) {
	t.Helper()
	for _, name := range []string{path, path + "-wal"} {
		found = found || bytes.Contains(got(os.ReadFile(name))(t), secret)
	}
	return found
}
