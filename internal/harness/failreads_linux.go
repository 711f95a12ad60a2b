package harness

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// FailReads makes every pread(2) of this process at offset or beyond fail with EIO, permanently
// (seccomp(2)).
func FailReads(offset uint32) error {
	// offsets in struct seccomp_data of the system call and the low half of its fourth argument
	const number, fourth = 0, 16 + 3*8
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_PREAD64, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: fourth},
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: offset, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EIO)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	p := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&p))); errno != 0 {
		return errno
	}
	return nil
}
