package postgres

import "testing"

// A placeholder without a number is the one after the largest, as in SQLite.
func TestRebind(t *testing.T) {
	for in, want := range map[string]string{
		"SELECT 1":                          "SELECT 1",
		"a = ? AND b = ?":                   "a = $1 AND b = $2",
		"a = ?1 OR b = ?1 AND c > ?2":       "a = $1 OR b = $1 AND c > $2",
		"a = ?1 OR b = ?1 LIMIT ?":          "a = $1 OR b = $1 LIMIT $2",
		"a = ?12 AND b = ?3 AND c = (?, ?)": "a = $12 AND b = $3 AND c = ($13, $14)",
	} {
		if got := Rebind(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
