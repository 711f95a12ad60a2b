package store_test

import (
	"testing"

	"attestd/chain/tlog"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/storetest"
)

// A restore reports what a witness would forget: its key, and the logs of which it has signed
// larger trees.
func TestRestoreReportsLostWitnessState(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	path, _ := sample(t)
	before := backUp(t, path)
	advance := func(origin string, size int64) {
		s := got(store.Open(ctx, path, schema(t), store.Options{Master: master()}))(t)
		_, _, err := s.Cosigner.Key(ctx, "", now)
		must.OK(t, err)
		go s.Run(ctx, store.RunOptions{})
		from := got(s.Cosigner.Logs().Latest(ctx, origin))(t)
		if !got(s.Cosigner.Logs().Advance(ctx, origin, from, tlog.Tree{Size: size, Root: tlog.Hash{byte(size)}}, []byte("checkpoint")))(t) {
			t.Error("not advanced")
		}
		must.OK(t, s.Close())
	}
	advance("a.example", 5)
	advance("b.example", 7)
	later := backUp(t, path)
	advance("a.example", 9)
	checkRollback(t, later, path, "witness: a.example was cosigned at size 9, in the backup at 5")
	advance("a.example", 9)
	checkRollback(t, before, path,
		"witness: the key of attestd.local/witness, gone",
		"witness: a.example was cosigned at size 9, in the backup at 0",
		"witness: b.example was cosigned at size 7, in the backup at 0")
}
