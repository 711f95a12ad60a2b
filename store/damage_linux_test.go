package store_test

import (
	"fmt"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"attestd/internal/must"
	"attestd/store/storetest"
)

// failingRead reads and writes when every read of a file fails, and again when reads work.
func failingRead(path string) error {
	s, c, err := begin(path)
	if err != nil {
		return err
	}
	for range 3 {
		_, err = s.Append(ctx, draft(c))
		say(err)
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread and its filter end with the goroutine
		done <- failReadsOfThread()
		_, _, err := s.Tip(ctx, c.Chain)
		say(err)
		close(done)
	}()
	if err := <-done; err != nil {
		return err
	}
	<-done
	for range 20 { // once for each connection of the pool
		if _, _, err := s.Tip(ctx, c.Chain); err != nil {
			return err
		}
	}
	_, err = s.Append(ctx, draft(c))
	say(err)
	say(s.Ready(ctx))
	fmt.Println(s.Close())
	return nil
}

// failReadsOfThread makes each pread(2) of this thread fail with EIO.
func failReadsOfThread() error {
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_PREAD64, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EIO)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	p := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&p))); errno != 0 {
		return errno
	}
	return nil
}

// A request whose reads fail on the disk is answered as not done, and the database does not count
// as damaged: later requests read and write as before.
func TestFailedReadFailsOnlyItsRequest(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	path := target(t)
	if said := play(t, "failing read", path); said != "done\ndone\ndone\nnot done\ndone\ndone\n<nil>\n" {
		t.Fatalf("said %q", said)
	}
	must.OK(t, open(t, path).VerifyAll(ctx, "", 1, nil, nil))
}

// unreadableClose appends, and closes the store when no file can be read any more.
func unreadableClose(path string) error {
	s, c, err := begin(path)
	if err != nil {
		return err
	}
	for range 3 {
		_, err = s.Append(ctx, draft(c))
		say(err)
	}
	if err := failCalls(failing{call: unix.SYS_PREAD64}); err != nil {
		return err
	}
	say(s.Close())
	return nil
}

// A store that cannot read its file when it is closed says so, and does not call it damaged. All
// that was acknowledged is there when the file can be read again.
func TestCloseOfUnreadableFile(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	path := target(t)
	if said := play(t, "unreadable close", path); said != "done\ndone\ndone\nnot done\n" {
		t.Fatalf("said %q", said)
	}
	s := open(t, path)
	c := got(s.Companies.Get(ctx, "acme"))(t)
	if head, _, err := s.Tip(ctx, c.Chain); err != nil || head.Length != 3 {
		t.Errorf("the log has %d records: %v", head.Length, err)
	}
	must.OK(t, s.VerifyAll(ctx, "", 1, nil, nil))
}
