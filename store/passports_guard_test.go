package store_test

import (
	"database/sql"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/store"
	"attestd/store/storetest"
)

// As long as the guards are in place, no SQL statement can undo a revocation or change, remove or
// replace a passport; revoking remains possible.
func TestRevocationsAreForGood(t *testing.T) {
	t.Parallel()
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	for _, jti := range []string{"p", "q"} {
		must.OK(t, s.Passports.Record(ctx, by(c, now), store.Passport{JTI: jti, AgentID: "bot", Scopes: []string{"tool:read"}, ExpiresAt: 1 << 40}))
	}
	_, err := s.Passports.Revoke(ctx, by(c, now), "p", ptr("lost"))
	must.OK(t, err)
	db := storetest.Stranger(t, path)
	statements := []string{
		"UPDATE passport SET revoked_at = NULL, reason = NULL WHERE jti = 'p'", "UPDATE passport SET scopes = '[\"*\"]' WHERE jti = 'q'",
		"UPDATE passport SET jti = 'r' WHERE jti = 'p'", "UPDATE passport SET expires_at = expires_at + 1", "DELETE FROM passport WHERE jti = 'p'",
	}
	if !storetest.OnPostgres() {
		statements = append(statements, "REPLACE INTO passport (company, jti, agent_id, scopes, issued_at, expires_at) VALUES (1, 'p', 'bot', '[]', 1, 2)",
			"UPDATE OR REPLACE passport SET jti = 'p' WHERE jti = 'q'")
	}
	for _, statement := range statements {
		if _, err := db.Exec(statement); err == nil || !strings.Contains(err.Error(), "a passport is only revoked, for good") {
			t.Errorf("%s: %v", statement, err)
		}
	}
	if revoked, err := s.Passports.IsRevoked(ctx, by(c, now), "p"); !revoked || err != nil {
		t.Errorf("the revocation is gone: %v", err)
	}
	_, err = s.Passports.Revoke(ctx, by(c, now), "q", nil)
	must.OK(t, err)
	var left sql.NullInt64
	must.OK(t, db.QueryRow("SELECT count(*) FROM passport WHERE revoked_at IS NOT NULL").Scan(&left))
	if left.Int64 != 2 {
		t.Errorf("%d passports are revoked", left.Int64)
	}
}
