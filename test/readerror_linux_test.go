package test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"attestd/internal/harness"
	"attestd/internal/must"
	"attestd/store/storetest"
)

// A disk that cannot be read is not a damaged database: 1, not 8. attestd takes the place of a
// child process in which the kernel answers reads with EIO, from the second page of a file on (the
// first is what loads the program itself), and from pages that only verification comes to.
func TestReadErrorIsNotCorruption(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	const program, file, from = "ATTESTD_TEST_PROGRAM", "ATTESTD_TEST_FILE", "ATTESTD_TEST_UNREADABLE_FROM"
	if path := os.Getenv(program); path != "" {
		offset, err := strconv.Atoi(os.Getenv(from))
		must.OK(t, err)
		must.OK(t, harness.FailReads(uint32(offset)))
		must.OK(t, unix.Exec(path, []string{"attestd", "verify", "--db", os.Getenv(file)}, nil))
	}
	built, err := binary(t)
	must.OK(t, err)
	content, err := os.ReadFile("../store/testdata/schema-1.db")
	must.OK(t, err)
	db := filepath.Join(t.TempDir(), "attestd.db")
	must.OK(t, os.WriteFile(db, content, 0o600))
	for _, offset := range []string{"4096", "65536", "131072"} {
		child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		child.Env = append(os.Environ(), program+"="+built, file+"="+db, from+"="+offset,
			// what the child has made there by then, it cannot remove any more
			"TMPDIR="+t.TempDir())
		out, err := child.CombinedOutput()
		if exited := (*exec.ExitError)(nil); !errors.As(err, &exited) || exited.ExitCode() != 1 ||
			!strings.Contains(string(out), "storage unavailable") || strings.Contains(string(out), "corrupt") {
			t.Errorf("from byte %s: %v: %s", offset, err, out)
		}
	}
}
