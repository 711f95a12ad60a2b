package https_test

import (
	"testing"
	"time"

	"attestd/server/https"
)

// A certificate ends when a week of its validity is left, or a fifth of a short one, or when no
// newer one can be had.
func TestCertificateEnds(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	now := time.Now()
	for name, tt := range map[string]struct {
		valid, left time.Duration
		failed      string
		want        bool
	}{
		"90 days, 8 left":          {90 * day, 8 * day, "", false},
		"90 days, 6 left":          {90 * day, 6 * day, "", true},
		"90 days, ended":           {90 * day, -time.Second, "", true},
		"6 days, 2 left":           {6 * day, 2 * day, "", false},
		"6 days, 1 left":           {6 * day, day, "", true},
		"90 days, 60 left, failed": {90 * day, 60 * day, "no key", true},
	} {
		s := https.Status{NotAfter: now.Add(tt.left), NotBefore: now.Add(tt.left - tt.valid), LastError: tt.failed}
		if s.Ends(now) != tt.want {
			t.Errorf("%s: %t", name, !tt.want)
		}
	}
	if (https.Status{}).Ends(now) || !(https.Status{LastError: "the CA refuses"}).Ends(now) {
		t.Error("before the first certificate only an error is a reason")
	}
}
