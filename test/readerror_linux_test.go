package test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

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
		failReads(t, uint32(offset))
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

// failReads makes every pread(2) of this process at offset or beyond fail, for good (seccomp(2)).
func failReads(t *testing.T, offset uint32) {
	t.Helper()
	// where struct seccomp_data has the system call and the low half of its fourth argument
	const number, fourth = 0, 16 + 3*8
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_PREAD64, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: fourth},
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: offset, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EIO)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	must.OK(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})))
	if errno != 0 {
		t.Fatal(errno)
	}
}
