package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"attestd/crypto/keys"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
)

// atOnce runs fn n times at once and returns the errors.
func atOnce(n int, fn func(i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = fn(i)
		})
	}
	close(start)
	wg.Wait()
	return errs
}

// count returns how many errors are nil and how many are want; it reports any other error.
func count(t *testing.T, errs []error, want error) (none, wanted int) {
	t.Helper()
	for _, err := range errs {
		switch {
		case err == nil:
			none++
		case errors.Is(err, want):
			wanted++
		default:
			t.Error(err)
		}
	}
	return none, wanted
}

func TestConcurrentKeysDeleteEachOther(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s, _ := fresh(t)
	for i := range 20 {
		c, first := company(t, s, fmt.Sprint("c", i))
		second := got(s.Credentials.CreateKey(ctx, by(c, now), nil, full, 1000))(t)
		keys := []string{first.Key, second.Key}
		deleted, last := count(t, atOnce(2, func(i int) error { return s.Credentials.DeleteKey(ctx, by(c, now), keys[i]) }), store.ErrLastKey)
		if deleted != 1 || last != 1 {
			t.Errorf("%d deleted, %d refused", deleted, last)
		}
		if left := all(t, s.Credentials.Keys(ctx, by(c, now))); len(left) != 1 {
			t.Errorf("left: %v", left)
		}
	}
}

func TestOneOfConcurrentRotationsSucceeds(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s, _ := fresh(t)
	c, _ := company(t, s, "acme")
	must.OK(t, s.Passports.Record(ctx, by(c, now), passport("old", 1)))
	errs := atOnce(20, func(i int) error {
		return s.Passports.Rotate(ctx, by(c, now), passport("old", 1), passport(fmt.Sprint(i), 2))
	})
	if won, lost := count(t, errs, store.ErrRevoked); won != 1 || lost != 19 {
		t.Errorf("%d won, %d lost", won, lost)
	}
	if page := issued(t, s, c, store.PassportFilter{}, ""); len(page) != 2 {
		t.Errorf("passports: %v", page)
	}
}

func TestOneOfConcurrentRegistrationsSucceeds(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s, _ := fresh(t)
	errs := atOnce(20, func(int) error { _, _, err := s.Companies.Create(ctx, "acme", nil, now); return err })
	if won, lost := count(t, errs, store.ErrExists); won != 1 || lost != 19 {
		t.Errorf("%d won, %d lost", won, lost)
	}
}

// often is the number of attempts at each race.
func often() int { return testenv.Rounds(25, 100) }

// A lookup that runs concurrently with a deletion must not bring the key back into the cache.
func TestCacheNeverRestoresDeletedKey(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	s, _ := fresh(t)
	c, _ := company(t, s, "acme")
	for range often() {
		key := got(s.Credentials.CreateKey(ctx, by(c, now), nil, full, 1000))(t)
		deleted := make(chan struct{})
		errs := atOnce(4, func(i int) error {
			if i == 0 {
				defer close(deleted)
				return s.Credentials.DeleteKey(ctx, by(c, now), key.Key)
			}
			for {
				select {
				case <-deleted:
					_, err := s.Credentials.Authenticate(ctx, keys.HashSecret(key.Key), now)
					return err
				default:
					s.Credentials.Authenticate(ctx, keys.HashSecret(key.Key), now)
				}
			}
		})
		if none, gone := count(t, errs, store.ErrNotFound); none != 1 || gone != 3 {
			t.Fatalf("the deletion returned, and %d still came in", none-1)
		}
	}
}

// A check that runs concurrently with a revocation must not bring the valid passport back into the
// cache.
func TestCacheNeverRestoresRevokedPassport(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	s, _ := fresh(t)
	c, _ := company(t, s, "acme")
	for n := range often() {
		jti := fmt.Sprint(n)
		must.OK(t, s.Passports.Record(ctx, by(c, now), passport(jti, 1)))
		revoked := make(chan struct{})
		errs := atOnce(4, func(i int) error {
			if i == 0 {
				defer close(revoked)
				_, err := s.Passports.Revoke(ctx, by(c, now), jti, nil)
				return err
			}
			for {
				select {
				case <-revoked:
					revoked, err := s.Passports.IsRevoked(ctx, by(c, now), jti)
					if err == nil && !revoked {
						return errors.New("still valid")
					}
					return err
				default:
					s.Passports.IsRevoked(ctx, by(c, now), jti)
				}
			}
		})
		for _, err := range errs {
			must.OK(t, err)
		}
	}
}

// Writes of all kinds share transactions, and each is stored.
func TestManyWritersOfAllKinds(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	errs := atOnce(40, func(i int) (err error) {
		switch id := fmt.Sprint(i); i % 4 {
		case 0:
			_, _, err = s.Companies.Create(ctx, id, nil, now)
		case 1:
			_, err = s.Agents.Register(ctx, by(c, now), id, nil, many)
		case 2:
			err = s.Passports.Record(ctx, by(c, now), passport(id, 1))
		case 3:
			_, err = s.Credentials.CreateKey(ctx, by(c, now), &id, full, 1000)
		}
		return err
	})
	count(t, errs, nil)
	must.OK(t, s.Close())
	s = open(t, path)
	agents := all(t, s.Agents.List(ctx, by(c, now), store.AgentFilter{}, ""))
	companies := verified(t, s)
	keys := all(t, s.Credentials.Keys(ctx, by(c, now)))
	passports := issued(t, s, c, store.PassportFilter{}, "")
	if len(agents) != 10 || len(companies) != 11 || len(keys) != 11 || len(passports) != 10 {
		t.Errorf("%d agents, %d companies, %d keys, %d passports", len(agents), len(companies), len(keys), len(passports))
	}
}
