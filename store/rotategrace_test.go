package store_test

import (
	"sync/atomic"
	"testing"
	"time"

	"attestd/chain"
	"attestd/crypto/keys"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/storetest"
)

// A rotation that waits for its turn ends the old key when it is carried out: tokens that were
// issued in the meantime, until the commit is known, verify.
func TestTokensIssuedDuringRotation(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	var waited atomic.Int64 // the reading of the monotonic clock
	asked := make(chan struct{}, 16)
	reached, release := make(chan struct{}), make(chan struct{})
	var holds atomic.Bool
	s := openWith(t, storetest.New(t), store.RunOptions{
		Steady: func() time.Duration {
			reading := time.Duration(waited.Load()) // before the test learns of it, and changes it
			select {
			case asked <- struct{}{}:
			default:
			}
			return reading
		},
		Publish: func([]chain.Extension, bool) {
			if holds.CompareAndSwap(true, false) {
				close(reached)
				<-release
			}
		},
	})
	c, key := company(t, s, "acme")
	old := got(s.Credentials.Authenticate(ctx, keys.HashSecret(key.Key), now))(t).Company.Issuer

	holds.Store(true)
	appended := make(chan error, 1)
	go func() {
		_, err := s.Append(ctx, draft(c))
		appended <- err
	}()
	<-reached // nothing else is written until release
	for len(asked) > 0 {
		<-asked
	}
	rotated := make(chan error, 1)
	at := now.Truncate(time.Second).Add(900 * time.Millisecond)
	go func() {
		_, _, err := s.Companies.RotateKey(ctx, by(c, at), false)
		rotated <- err
	}()
	<-asked
	// This is one more than the first reading of the clock, which is taken before the request
	// waits.
	const wait = 2500 * time.Millisecond
	waited.Store(int64(wait))
	whileWaiting := old.SVID(c.Issuer.CompanyID(), at.Add(wait))
	whileCommitting := old.SVID(c.Issuer.CompanyID(), at.Add(wait+200*time.Millisecond))
	close(release)
	must.OK(t, <-appended)
	must.OK(t, <-rotated)

	at = at.Add(wait + time.Second)
	issuer := got(s.Credentials.Authenticate(ctx, keys.HashSecret(key.Key), at))(t).Company.Issuer
	if issuer.Public.KID == old.Public.KID {
		t.Fatal("the key is the old one")
	}
	for what, token := range map[string]string{"while it waited": whileWaiting, "while it was committed": whileCommitting} {
		if _, err := issuer.CheckDelegation(token, at); err != nil {
			t.Errorf("a token that was issued %s: %v", what, err)
		}
	}
	late := old.SVID(c.Issuer.CompanyID(), at)
	if _, err := issuer.CheckDelegation(late, at); err == nil {
		t.Error("a token that is dated after the end of its key is accepted")
	}
}
