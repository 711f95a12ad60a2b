package store_test

import (
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/storetest"
)

// A chain whose head an intruder moved, or beyond whose head an intruder wrote a record, is refused
// on every server, whether the server has cached the head or not. Other chains accept writes, even
// in the same transaction.
func TestOnlyTheTamperedChainIsRefused(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick, testenv.Plain)
	t.Parallel()
	const (
		record = `INSERT INTO record (id, hash, signature, timestamp, payload) SELECT (chain << 40) + length, root, root || root, timestamp, '{}' FROM head WHERE chain = $1`
		node   = `INSERT INTO node (chain, level, idx, hash, log_hash) SELECT chain, 8, length >> 8, root, root FROM head WHERE chain = $1`
	)
	for name, intrusion := range map[string]string{
		"record beyond the head": record,
		"node beyond the head":   node,
		"root":                   `UPDATE head SET root = sha256(root), length = length WHERE chain = $1`,
		"length":                 `UPDATE head SET length = length + 1 WHERE chain = $1`,
		"length back":            `UPDATE head SET length = length - 1 WHERE chain = $1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := storetest.Shared(t)
			servers := []*store.Store{openWith(t, database, store.RunOptions{}), openWith(t, database, store.RunOptions{})}
			bad, _ := company(t, servers[0], "acme")
			good, _ := company(t, servers[0], "zoo")
			for _, s := range servers {
				attest(t, s, good, 3)
			}
			attest(t, servers[0], bad, 255) // the first server caches the head
			db := got(sql.Open("pgx", database+"&session_replication_role=replica"))(t)
			defer db.Close()
			_, err := db.Exec(intrusion, bad.Chain)
			must.OK(t, err)
			for i, s := range servers {
				var both sync.WaitGroup
				for n := range 40 {
					both.Go(func() {
						if _, err := s.Append(ctx, numbered(bad, n)); err == nil || strings.Contains(name, "beyond") && !errors.Is(err, store.ErrCorrupt) {
							t.Errorf("server %d: the answer for a chain that is not what it was is %v", i, err)
						}
					})
					both.Go(func() {
						if _, err := s.Append(ctx, numbered(good, n)); err != nil {
							t.Errorf("server %d: %v", i, err)
						}
					})
				}
				both.Wait()
			}
			if err := servers[0].VerifyAll(ctx, "", 2, nil, nil); err == nil && !strings.Contains(name, "node") {
				t.Error("the chain verifies")
			}
		})
	}
}
