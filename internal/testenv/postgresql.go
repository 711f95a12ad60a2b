package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// oldestPostgreSQL is the oldest supported major version of PostgreSQL.
const oldestPostgreSQL = 15

// PostgreSQLPrograms returns the folder of the server's programs: that of $ATTESTD_TEST_POSTGRES,
// or else of $PATH in any version, or else the newest of Debian's folders, which are not in $PATH.
func PostgreSQLPrograms() (string, error) {
	if asked := os.Getenv("ATTESTD_TEST_POSTGRES"); asked != "" {
		if major(asked) < oldestPostgreSQL {
			return "", fmt.Errorf("ATTESTD_TEST_POSTGRES: in %s are no programs of PostgreSQL %d or newer that run", asked, oldestPostgreSQL)
		}
		return asked, nil
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		// the other programs are in the file's folder, not in that of a link to it
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return "", err
		}
		if have := major(filepath.Dir(path)); have < oldestPostgreSQL {
			return "", fmt.Errorf("%s of $PATH is of version %d, and %d or newer is needed", path, have, oldestPostgreSQL)
		}
		return filepath.Dir(path), nil
	}
	folders, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.SortFunc(folders, func(a, b string) int { return major(b) - major(a) })
	for _, folder := range folders {
		if major(folder) >= oldestPostgreSQL {
			return folder, nil
		}
	}
	return "", fmt.Errorf("PostgreSQL %d or newer is not installed: apt-get install postgresql", oldestPostgreSQL)
}

// major returns the major version of the programs in a folder, or 0 if they do not run.
func major(folder string) (version int) {
	out, _ := exec.Command(filepath.Join(folder, "postgres"), "--version").Output()
	fmt.Sscanf(string(out), "postgres (PostgreSQL) %d", &version)
	return version
}
