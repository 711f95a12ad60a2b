package testenv

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The programs in $PATH have priority over newer ones of Debian.
func TestPathHasPriorityOverDebian(t *testing.T) {
	for _, c := range []struct{ version, refused string }{{"99.1", ""}, {"9.6", "is of version 9"}} {
		folder := t.TempDir()
		script := "#!/bin/sh\necho 'postgres (PostgreSQL) " + c.version + "'\n"
		if err := os.WriteFile(filepath.Join(folder, "postgres"), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", folder)
		found, err := PostgreSQLPrograms()
		if c.refused == "" && (err != nil || found != folder) || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("version %s: %q, %v", c.version, found, err)
		}
	}
}
