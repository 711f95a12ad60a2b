package store_test

import (
	"errors"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
)

// Rows that are committed while a snapshot is read are not in it: neither records nor keys nor
// passports. Afterwards the connection sees the current data again, however the snapshot ended.
func TestSnapshotIsConsistent(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	t.Parallel()
	s, _ := fresh(t)
	c, _ := company(t, s, "acme")
	who := by(c, now)
	attest(t, s, c, 3)
	failed := errors.New("failed")
	for round := range int64(12) { // more than there are connections
		before := length(t, s, c)
		err := s.Snapshot(ctx, func(v *store.View) error {
			keys := func() (string, int) {
				company := got(v.CompanyNow(ctx, c.Chain))(t)
				_, ring, err := v.KeyRing(ctx, c.Actions.Chain)
				must.OK(t, err)
				return company.Issuer.Public.KID, len(ring)
			}
			head, _, err := v.Tip(ctx, c.Chain)
			must.OK(t, err)
			kid, generations := keys()

			attest(t, s, c, 1)
			_, _, err = s.Companies.RotateKey(ctx, who, false)
			must.OK(t, err)
			jti := "jti-" + kid
			must.OK(t, s.Passports.Record(ctx, who, passport(jti, now.Unix())))

			again, _, err := v.Tip(ctx, c.Chain)
			must.OK(t, err)
			if kid2, generations2 := keys(); head.Length != before || again.Length != before || kid != kid2 || generations != generations2 {
				t.Errorf("length %d, then %d of %d; key %s of %d, then %s of %d", head.Length, again.Length, before, kid, generations, kid2, generations2)
			}
			if _, err := v.Passport(ctx, who, jti); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("a passport of later: %v", err)
			}
			if round%2 == 0 {
				return failed
			}
			return nil
		})
		if round%2 == 0 && err != failed || round%2 == 1 && err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if after := length(t, s, c); after != before+1 {
			t.Errorf("length %d after the snapshot, want %d", after, before+1)
		}
	}
}
