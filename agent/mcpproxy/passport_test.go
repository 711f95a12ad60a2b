package mcpproxy

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"attestd/crypto/cred"
)

// authority is an Authority with a table of passports.
type authority struct {
	passports map[string]cred.PassportClaims
	revoked   map[string]bool
	away      bool
	asked     int
}

func (a *authority) CheckPassport(token string, now time.Time) (cred.PassportClaims, error) {
	c, ok := a.passports[token]
	if !ok || now.Unix() >= c.ExpiresAt {
		return c, errors.New("token has expired")
	}
	return c, nil
}

func (a *authority) Revoked(context.Context, string, string) (bool, error) {
	if a.asked++; a.away {
		return false, errors.New("connection refused")
	}
	return a.revoked["1"], nil
}

func passportFile(t *testing.T, token string) string {
	path := filepath.Join(t.TempDir(), "passport")
	if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func refused(t *testing.T, p *Passport, tool, want string) {
	t.Helper()
	got := ""
	if _, err := p.Check(t.Context(), "files", tool, []byte("{}")); err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("%s: %q, want %q", tool, got, want)
	}
}

// A passport allows the tools in its scopes until it expires. A replaced file is used at the next
// call.
func TestPassport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		soon := time.Now().Add(time.Hour).Unix()
		a := &authority{passports: map[string]cred.PassportClaims{
			"one":   {ID: "1", AgentID: "bot", Scopes: []string{"tool:read", "net:*"}, ExpiresAt: soon},
			"two":   {ID: "2", AgentID: "bot", Scopes: []string{"tool:*"}, ExpiresAt: soon + 3600},
			"other": {ID: "3", AgentID: "another", Scopes: []string{"*"}, ExpiresAt: soon + 3600},
		}}
		path := passportFile(t, "one")
		p, err := NewPassport(path, "", a, false)
		if err != nil || p.Agent() != "bot" {
			t.Fatal(p, err)
		}
		refused(t, p, "read", "")
		refused(t, p, "write", "no scope of the passport covers the tool")
		time.Sleep(time.Hour)
		refused(t, p, "read", "the passport is not valid: token has expired")
		_ = os.WriteFile(path, []byte("two"), 0o600)
		refused(t, p, "write", "")
		_ = os.WriteFile(path, []byte("other"), 0o600)
		refused(t, p, "write", "the passport belongs to another agent")
		_ = os.WriteFile(path, []byte("forged"), 0o600)
		refused(t, p, "write", "the passport is not valid: token has expired")
		_ = os.Remove(path)
		refused(t, p, "write", "the passport file cannot be read")
		if _, err := NewPassport(passportFile(t, "one"), "another", a, false); err == nil {
			t.Error("a passport of another agent was accepted")
		}
	})
}

// Revocation is checked at most every 30 s and is final. While the service is unavailable the last
// status counts, and with failClosed all calls are refused.
func TestRevoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &authority{revoked: map[string]bool{}, passports: map[string]cred.PassportClaims{
			"one": {ID: "1", AgentID: "bot", Scopes: []string{"*"}, ExpiresAt: time.Now().Add(time.Hour).Unix()},
		}}
		path := passportFile(t, "one")
		open, _ := NewPassport(path, "bot", a, false)
		for range 10 {
			refused(t, open, "x", "")
		}
		if a.asked != 1 {
			t.Errorf("asked %d times", a.asked)
		}
		a.revoked["1"], a.away = true, true
		time.Sleep(statusLife)
		refused(t, open, "x", "")
		closed, _ := NewPassport(path, "bot", a, true)
		refused(t, closed, "x", "attestd gave no revocation status for the passport")
		a.away = false
		refused(t, closed, "x", "the passport is revoked")
		time.Sleep(statusLife)
		refused(t, open, "x", "the passport is revoked")
		a.revoked["1"] = false
		time.Sleep(statusLife)
		refused(t, open, "x", "the passport is revoked")
	})
}
