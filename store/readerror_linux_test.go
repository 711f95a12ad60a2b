package store_test

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"attestd/store"
)

// A disk that cannot be read is not a damaged database. The reads fail in a child process, in which the kernel answers them with EIO:
// from the first byte on, and from one that only verification comes to. (row 27)
func TestAReadThatFailsIsNotCorruption(t *testing.T) {
	t.Parallel()
	const name, from = "ATTESTD_TEST_FILE", "ATTESTD_TEST_UNREADABLE_FROM"
	if path := os.Getenv(name); path != "" {
		failReads(t, uint32(got(strconv.Atoi(os.Getenv(from)))(t)))
		s, err := store.OpenReadOnly(ctx, path)
		if err == nil {
			err = s.VerifyAll(ctx, "", 1, nil, nil)
		}
		if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrCorrupt) {
			t.Error(err)
		}
		return
	}
	path, _ := sample(t)
	for _, offset := range []string{"0", "65536", "131072"} {
		child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		child.Env = append(os.Environ(), name+"="+path, from+"="+offset)
		if out, err := child.CombinedOutput(); err != nil {
			t.Errorf("from byte %s: %s", offset, out)
		}
	}
}

// failReads makes every pread(2) of this process at offset or beyond fail, for good (seccomp(2)).
func failReads(t *testing.T, offset uint32) {
	t.Helper()
	const number, fourth = 0, 16 + 3*8 // where struct seccomp_data has the system call and the low half of its fourth argument
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_PREAD64, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: fourth},
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: offset, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EIO)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	must(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})))
	if errno != 0 {
		t.Fatal(errno)
	}
}
