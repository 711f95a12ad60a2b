package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// oldest is the first major version of PostgreSQL that serves.
const oldest = 15

// installation is where PostgreSQL's programs are, and who runs them.
type installation struct {
	programs string   // their folder
	account  *account // nil: the user of this process
}

// account is an unprivileged user of the system.
type account struct{ uid, gid int }

// installed finds PostgreSQL. Without it the test is skipped, but in CI, which installs it, it
// fails.
func installed(t testing.TB) installation {
	t.Helper()
	programs, err := find()
	if err != nil && os.Getenv("CI") != "" {
		t.Fatal("in CI nothing is skipped: ", err)
	}
	if err != nil {
		t.Skip(err)
	}
	i := installation{programs: programs}
	if os.Geteuid() == 0 {
		if i.account, err = unprivileged(); err != nil {
			t.Fatal(err)
		}
	}
	return i
}

// find is the folder of the programs: the one that $ATTESTD_TEST_POSTGRES names, or else that of
// $PATH, whatever its version, or where it has none the newest of Debian's, which are in no $PATH.
func find() (string, error) {
	if asked := os.Getenv("ATTESTD_TEST_POSTGRES"); asked != "" {
		if major(asked) < oldest {
			return "", fmt.Errorf("ATTESTD_TEST_POSTGRES: in %s are no programs of PostgreSQL %d or newer that run", asked, oldest)
		}
		return asked, nil
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		// the other programs stand beside the file, not beside a link to it
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return "", err
		}
		if have := major(filepath.Dir(path)); have < oldest {
			return "", fmt.Errorf("%s of $PATH is of version %d, and %d or newer is needed", path, have, oldest)
		}
		return filepath.Dir(path), nil
	}
	folders, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.SortFunc(folders, func(a, b string) int { return major(b) - major(a) })
	for _, folder := range folders {
		if major(folder) >= oldest {
			return folder, nil
		}
	}
	return "", fmt.Errorf("PostgreSQL %d or newer is not installed: apt-get install postgresql", oldest)
}

// major is the major version of the programs in a folder, and 0 if they do not run.
func major(folder string) (version int) {
	out, _ := exec.Command(filepath.Join(folder, "postgres"), "--version").Output()
	fmt.Sscanf(string(out), "postgres (PostgreSQL) %d", &version)
	return version
}

// unprivileged finds a user for programs that refuse to run as root.
func unprivileged() (*account, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.Atoi(u.Uid)
		if err != nil {
			continue
		}
		gid, err := strconv.Atoi(u.Gid)
		if err != nil {
			continue
		}
		return &account{uid, gid}, nil
	}
	return nil, errors.New("pgtest: PostgreSQL does not run as root, and there is no user postgres or nobody")
}

// give makes the account the owner of a file or folder.
func (i installation) give(path string) error {
	if i.account == nil {
		return nil
	}
	return os.Chown(path, i.account.uid, i.account.gid)
}
