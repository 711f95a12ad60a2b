package service

import (
	"errors"
	"testing"
	"time"
)

// A nonce counts for the window in which it is handed out and the one after it, on each server that
// has the database, and nothing else does.
func TestNonceCountsForTwoWindows(t *testing.T) {
	t.Parallel()
	db, _ := newCompany(t)
	one, other := &Nonces{Store: db, Required: true}, &Nonces{Store: db, Required: true}
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	nonce, err := one.Current(t.Context(), begin)
	if err != nil || nonce == "" {
		t.Fatal(nonce, err)
	}
	for after, counts := range map[time.Duration]bool{
		-time.Second: false, 0: true, 119 * time.Second: true, 2 * time.Minute: true, 239 * time.Second: true, 4 * time.Minute: false, time.Hour: false,
	} {
		err := other.Check(t.Context(), nonce, begin.Add(after))
		var refused *NonceError
		if counts && err != nil || !counts && (!errors.As(err, &refused) || refused.Nonce == nonce) {
			t.Errorf("after %v: %v", after, err)
		}
	}
	for _, wrong := range []string{"", "x", nonce + "A", nonce[:len(nonce)-1]} {
		if err := one.Check(t.Context(), wrong, begin); err == nil {
			t.Errorf("%q counts", wrong)
		}
	}
	never := &Nonces{Store: db}
	if got, err := never.Current(t.Context(), begin); got != "" || err != nil || never.Check(t.Context(), "", begin) != nil {
		t.Errorf("not required: %q, %v", got, err)
	}
}
