package pgtest

import (
	"errors"
	"os"
	"os/user"
	"strconv"
	"testing"

	"attestd/internal/testenv"
)

// installation has the location of PostgreSQL's programs, and the account that runs them.
type installation struct {
	programs string   // their folder
	account  *account // nil: the user of this process
}

// account is an unprivileged user of the system.
type account struct{ uid, gid int }

// installed finds PostgreSQL. Without it the test is skipped, but fails in CI, which installs it.
func installed(t testing.TB) installation {
	t.Helper()
	programs, err := testenv.PostgreSQLPrograms()
	if err != nil {
		testenv.Missing(t, err.Error())
	}
	i := installation{programs: programs}
	if os.Geteuid() == 0 {
		if i.account, err = unprivileged(); err != nil {
			t.Fatal(err)
		}
	}
	return i
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
