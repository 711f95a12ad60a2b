package test

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// On PostgreSQL the doctor reads the database while servers run, asks one whether it is ready, and
// says what it cannot check. Each fault turns its line.
func TestDoctorOnPostgres(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	db, empty := postgres(t)
	masterKey, _ := newMasterKey(t)
	heads := filepath.Join(t.TempDir(), "heads")
	must.OK(t, os.Chmod(filepath.Dir(heads), 0o700))
	s := serve(t, db, "--master-key-file", masterKey, "--heads", heads)
	c := s.register(t, "acme")
	c.call(t, 201, "POST", "/v1/agents/register", `{"agentId":"bot"}`, nil)
	c.call(t, 201, "POST", "/v1/attest", `{"agentId":"bot","actionType":"open","payload":{"door":1}}`, nil)
	flags := []string{"--db", db, "--master-key-file", masterKey, "--heads", heads, "--skip", "database"}
	d := diagnose(t, append(flags, "--url", s.URL)...)
	if d.status != 0 {
		t.Errorf("nothing is wrong: %q", d.wrong())
	}
	for check, text := range map[string]string{"chains": "3 logs with 6 records verify", "tables": "", "guards": "", "heads": heads, "sealing": "opens them",
		"readiness": "the server says: ready", "clock": "", "listen": ""} {
		d.finds(t, check, "ok", text)
	}
	for check, text := range map[string]string{"server": "has no socket", "space": "", "log": "", "locks": "", "links": "", "permissions": "", "pages": "",
		"backups": "its own tools", "witnesses": "only the servers know"} {
		d.finds(t, check, "skipped", text)
	}
	if u, err := url.Parse(db); err != nil || d.Database == db && u.User != nil {
		t.Errorf("the database is %q", d.Database)
	}

	must.OK(t, s.interrupt())
	d = diagnose(t, append(flags, "--url", s.URL, "--quick")...)
	d.finds(t, "readiness", "fail", "not ready")
	d = diagnose(t, "--db", empty)
	d.finds(t, "database", "fail", "")
	d.finds(t, "chains", "skipped", "cannot be read")
	d = diagnose(t, "--db", "postgres://127.0.0.1:1/none?connect_timeout=2", "--quick")
	d.finds(t, "database", "fail", "")

	execute(t, db, `ALTER TABLE record DISABLE TRIGGER ALL`, `UPDATE record SET payload = replace(payload, '"door":1', '"door":2')`,
		`UPDATE agent SET disabled_at = '2026-01-01T00:00:00.000Z'`)
	d = diagnose(t, flags...)
	d.finds(t, "guards", "fail", "record")
	d.finds(t, "chains", "fail", "acme, record 0")
	d.finds(t, "tables", "fail", "acme (control)")
	d = diagnose(t, "--db", db, "--master-key-file", masterKey, "--quick")
	d.finds(t, "heads", "skipped", "--heads")
	d.finds(t, "database", "warn", "synchronous_standby_names")
	execute(t, db, `DROP TABLE agent_session`)
	d = diagnose(t, append(flags, "--quick")...)
	d.finds(t, "guards", "fail", "agent_session")
}
