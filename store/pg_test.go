package store_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"attestd/chain"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/storetest"
)

// Two servers write one chain at the same time: it has no gap, both can read all of it, and it
// verifies.
func TestTwoServersOneChain(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	const callers, each = 16, 50
	url := storetest.Shared(t)
	servers := []*store.Store{openWith(t, url, store.RunOptions{}), openWith(t, url, store.RunOptions{})}
	c, _ := company(t, servers[0], "acme")
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for n := range each {
				if _, err := servers[i%2].Append(ctx, saying(c, fmt.Sprintf(`{"caller":%d,"n":%d}`, i, n))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for _, s := range servers {
		must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
		if n := length(t, s, c); n != callers*each {
			t.Errorf("length %d", n)
		}
	}
}

// A retry that reaches another server, even while the first attempt is in progress, is answered
// with the same record.
func TestRetryOnAnotherServer(t *testing.T) {
	t.Parallel()
	const keys = 40
	url := storetest.Shared(t)
	servers := []*store.Store{openWith(t, url, store.RunOptions{}), openWith(t, url, store.RunOptions{}), openWith(t, url, store.RunOptions{})}
	c, _ := company(t, servers[0], "acme")
	for i := range keys {
		var all sync.WaitGroup
		places := make([]int64, len(servers))
		for n, s := range servers {
			all.Go(func() {
				a, err := s.AppendAll(ctx, []chain.Draft{keyed(c, fmt.Sprint("key ", i), ""), draft(c)})
				if err != nil {
					t.Error(err)
					return
				}
				places[n] = a[0].Index
			})
		}
		all.Wait()
		if places[1] != places[0] || places[2] != places[0] {
			t.Fatalf("key %d stands for records %d", i, places)
		}
	}
	if n := length(t, servers[0], c); n != keys*(1+int64(len(servers))) {
		t.Errorf("length %d", n)
	}
	must.OK(t, servers[0].VerifyAll(ctx, "", 2, nil, nil))
}

// If a head file knows a database, no new database is created: the URL may have been mistyped, or
// the database lost.
func TestNoNewPostgreSQLDatabaseBesideHeadFile(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	heads := filepath.Join(t.TempDir(), "attestd.heads")
	s, err := store.Open(ctx, storetest.Shared(t), "", store.Options{Heads: heads})
	must.OK(t, err)
	must.OK(t, s.Close())
	empty := storetest.Shared(t)
	if _, err := store.Open(ctx, empty, "", store.Options{Heads: heads}); !errors.Is(err, store.ErrRefused) {
		t.Errorf("an empty database: %v", err)
	}
	if _, err := store.OpenReadOnly(ctx, empty); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("it is not as it was: %v", err)
	}
}
