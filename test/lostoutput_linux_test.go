package test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"attestd/internal/must"
)

// A command whose output is lost, as on a full disk, fails: no script takes it for a success.
func TestLostOutputIsAFailure(t *testing.T) {
	t.Parallel()
	built, err := binary(t)
	must.OK(t, err)
	db := filepath.Join(t.TempDir(), "attestd.db")
	s := serve(t, db)
	s.client(t, "").call(t, 201, "POST", "/v1/companies", `{"companyId":"acme"}`, nil)
	must.OK(t, s.interrupt())
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	must.OK(t, err)
	t.Cleanup(func() { full.Close() })
	for _, line := range []string{"--version", "version", "help", "help verify", "verify --db " + db, "verify --json --db " + db, "company list --db " + db,
		"company list --json --db " + db, "doctor --json --db " + db, "config", "verifier"} {
		var told bytes.Buffer
		c := exec.Command(built, strings.Fields(line)...)
		c.Stdout, c.Stderr = full, &told
		_ = c.Run()
		if status := c.ProcessState.ExitCode(); status == 0 || !strings.Contains(told.String(), "no space left on device") {
			t.Errorf("attestd %s has exit status %d: %s", line, status, &told)
		}
	}
}
