package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/rewrite"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/storetest"
)

// A history that was rewritten with the keys is consistent in itself but not with the stored
// checkpoints. Verify reports the log with the size and the witness, whether the new history is
// equally long, longer or shorter, until the rollback is accepted.
func TestVerifyComparesKeptCheckpoints(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick)
	storetest.AboutFile(t)
	t.Parallel()
	for table, again := range map[string]string{
		"checkpoint":  `INSERT INTO checkpoint (log_id, size, note) VALUES (?, 40, ?)`,
		"cosignature": `INSERT INTO cosignature (log_id, witness, size, note, line) VALUES (?1, 'watch.example+00000000+AAAA', 40, ?2, 'line')`,
	} {
		for _, more := range []int{-10, 0, 3} {
			t.Run(fmt.Sprintf("%s, %d records more", table, more), func(t *testing.T) {
				t.Parallel()
				path, older := grown(t)
				s := kept(t, path)
				log := got(s.Companies.Get(ctx, "acme"))(t).Actions
				note := publish(t, s, log)
				must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
				must.OK(t, s.Close())
				must.OK(t, os.Remove(storetest.Heads(path)))
				if more < 0 {
					storetest.Replace(t, path, older)
				} else {
					got(rewrite.Record(ctx, path, schema(t), store.Options{}, "acme", store.Actions, 5, func(payload []byte) []byte {
						return bytes.Replace(payload, []byte("true"), []byte("false"), 1)
					}))(t)
					s = kept(t, path)
					attest(t, s, got(s.Companies.Get(ctx, "acme"))(t), more)
					// Nothing else inside the file shows it.
					must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
					must.OK(t, s.Close())
				}
				db := other(t, path)
				got(db.Exec(again, log.ID, note))(t)
				must.OK(t, db.Close())

				s = got(store.OpenReadOnly(ctx, path))(t)
				var invalid *store.VerifyError
				err := s.VerifyAll(ctx, "", 2, nil, nil)
				if !errors.As(err, &invalid) || invalid.Company != "acme" || invalid.Log != store.Actions || invalid.Index != min(39, int64(40+more)) {
					t.Fatalf("verify says %v", err)
				}
				wants := []string{log.ID, "at size 40"}
				if table == "cosignature" {
					wants = append(wants, "watch.example")
				}
				for _, want := range wants {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("verify does not name %s: %v", want, err)
					}
				}
				must.OK(t, s.VerifyAll(ctx, "zoo", 2, nil, nil))
				must.OK(t, s.Close())
				// A backup of the database can still be made, because it covers all companies.
				must.OK(t, admin.Backup(ctx, path, path+".backup", schema(t), nil))
				accept(t, path)
				s = got(store.OpenReadOnly(ctx, path))(t)
				must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
				must.OK(t, s.Close())
			})
		}
	}
}
