package store_test

import (
	"crypto/ed25519"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/storetest"
)

// A company's key is rotated on one server while other servers, which have cached the old key,
// append. No record is signed with a key that had ended, no record is lost, and the chain is a
// single list.
func TestRotationsWhileOthersAppend(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	rounds := 15
	if testenv.Night() {
		rounds = 1000
	}
	database := storetest.Shared(t)
	var servers []*store.Store
	for range 3 {
		servers = append(servers, openWith(t, database, store.RunOptions{}))
	}
	c, _ := company(t, servers[0], "acme")
	l := newLoad(c, servers[1:]...)
	l.run(t, 16)
	for n := range rounds {
		l.await(t, 10)
		_, next, err := servers[n%2].Companies.RotateKey(ctx, by(c, now), false)
		must.OK(t, err)
		head, _, err := servers[2].Tip(ctx, c.Chain)
		must.OK(t, err)
		if head.Length < next.From {
			t.Errorf("the key of rotation %d signs from record %d on, and there are %d", n, next.From, head.Length)
		}
	}
	l.stop()
	l.check(t, servers[0])
	set := got(servers[0].KeySet(ctx, c.Chain))(t)
	if len(set) != rounds+1 {
		t.Errorf("%d keys", len(set))
	}
	for _, r := range read(t, servers[0], c.Chain, 0, 1<<40) {
		if !ed25519.Verify(set.At(r.Index).Key, r.Hash[:], r.Signature[:]) {
			t.Fatalf("record %d is not signed with the key of its time", r.Index)
		}
	}
}
