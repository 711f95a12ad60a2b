package store_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"attestd/chain"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/postgres/pgtest"
	"attestd/store/storetest"
)

// Faults are injected into a child process: this test binary, whose environment variable names the
// part to play.
const part = "ATTESTD_TEST_PART"

// parts print their results to standard output and exit without closing anything, as a killed
// server does.
var parts = map[string]func(path string) error{
	"many writers":               manyWriters,
	"move":                       moveUntilKilled,
	"failing sync":               failingSync,
	"failing sync observed":      observedFailingSync,
	"failing sync of a rotation": failingRotation,
	"failing write":              failingWrite,
	"failing read":               failingRead,
	"unreadable close":           unreadableClose,
}

func TestMain(m *testing.M) {
	name, path, playing := strings.Cut(os.Getenv(part), ":")
	if !playing {
		os.Exit(pgtest.Run(m))
	}
	if err := parts[name](path); err != nil {
		fmt.Println("error:", err)
	}
	os.Exit(0)
}

// play runs a part in a child process and returns its output.
func play(t *testing.T, name, path string, environment ...string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), part+"="+name+":"+path), environment...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	must.OK(t, err)
	return string(out)
}

// begin opens a database as a server does and registers a company.
func begin(path string) (*store.Store, *store.Company, error) {
	text, err := os.ReadFile("../schema.sql")
	if err != nil {
		return nil, nil, err
	}
	s, err := store.Open(ctx, path, string(text), store.Options{Master: master()})
	if err != nil {
		return nil, nil, err
	}
	go s.Run(ctx, store.RunOptions{})
	c, _, err := s.Companies.Create(ctx, "acme", nil, now)
	return s, c, err
}

// outcome names the result of a write.
func outcome(err error) string {
	switch {
	case err == nil:
		return "done"
	case errors.Is(err, store.ErrUnknown):
		return "unknown"
	case errors.Is(err, store.ErrUnavailable):
		return "not done"
	}
	return err.Error()
}

func say(err error) { fmt.Println(outcome(err)) }

// failing is a system call that must fail with EIO if the test (BPF_JGE or BPF_JSET; 0 for always)
// holds for its argument and the value.
type failing struct {
	call     uint32
	argument uint32 // 0 is the first
	test     uint16
	value    uint32
}

// failCalls makes system calls fail in this process until it exits.
func failCalls(calls ...failing) error {
	// In struct seccomp_data the number of the call is the first word, and the arguments begin at
	// byte 16.
	const load = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	fail := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(syscall.EIO)}
	var program []unix.SockFilter
	for _, c := range calls {
		rule := []unix.SockFilter{fail}
		if c.test != 0 {
			rule = []unix.SockFilter{
				{Code: load, K: 16 + 8*c.argument}, // the low half on a little-endian machine
				{Code: unix.BPF_JMP | c.test | unix.BPF_K, K: c.value, Jf: 1},
				fail,
			}
		}
		program = append(program,
			unix.SockFilter{Code: load, K: 0},
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: c.call, Jf: uint8(len(rule))})
		program = append(program, rule...)
	}
	program = append(program, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	p := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&p))); errno != 0 {
		return errno
	}
	return nil
}

// failingSync appends a record, and appends again when every sync fails.
func failingSync(path string) error {
	s, c, err := begin(path)
	if err != nil {
		return err
	}
	for i := range 3 {
		if i == 1 {
			if err := failCalls(failing{call: unix.SYS_FSYNC}, failing{call: unix.SYS_FDATASYNC}); err != nil {
				return err
			}
		}
		_, err = s.Append(ctx, draft(c))
		say(err)
	}
	return nil
}

// If a sync fails, it is unknown whether the data reached the disk, and the answer says so. No
// acknowledged record is lost.
func TestFailedSyncGivesUnknownOutcome(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	path := target(t)
	if said := play(t, "failing sync", path); said != "done\nunknown\nunknown\n" {
		t.Fatalf("said %q", said)
	}
	s := open(t, path)
	c := got(s.Companies.Get(ctx, "acme"))(t)
	if n := length(t, s, c); n < 1 || n > 3 {
		t.Errorf("%d records", n)
	}
	must.OK(t, s.VerifyAll(ctx, "", 1, nil, nil))
	attest(t, s, c, 1)
}

// observedFailingSync prints how transactions are observed, and whether the store is ready, before
// and after every sync fails.
func observedFailingSync(path string) error {
	text, err := os.ReadFile("../schema.sql")
	if err != nil {
		return err
	}
	s, err := store.Open(ctx, path, string(text), store.Options{Master: master()})
	if err != nil {
		return err
	}
	go s.Run(ctx, store.RunOptions{Transacted: func(t chain.Transacted) {
		if t.Records > 0 || t.Err != nil {
			say(t.Err)
		}
	}})
	c, _, err := s.Companies.Create(ctx, "acme", nil, now)
	if err != nil {
		return err
	}
	fmt.Println(s.Ready(ctx) == nil)
	if err := failCalls(failing{call: unix.SYS_FSYNC}, failing{call: unix.SYS_FDATASYNC}); err != nil {
		return err
	}
	_, _ = s.Append(ctx, draft(c))
	fmt.Println(s.Ready(ctx) == nil)
	return nil
}

// A failed sync is observed as a transaction of unknown outcome, and the store is not ready after
// it.
func TestFailedSyncIsObserved(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	if said := play(t, "failing sync observed", target(t)); !strings.HasPrefix(said, "done\ntrue\nunknown\nfalse\n") {
		t.Fatalf("said %q", said)
	}
}

// failingRotation rotates a key when every sync fails.
func failingRotation(path string) error {
	s, c, err := begin(path)
	if err != nil {
		return err
	}
	for i := range 3 {
		if i == 2 {
			if err := failCalls(failing{call: unix.SYS_FSYNC}, failing{call: unix.SYS_FDATASYNC}); err != nil {
				return err
			}
		}
		_, _, err = s.Companies.RotateKey(ctx, by(c, now), false)
		say(err)
		_, err = s.Append(ctx, draft(c))
		say(err)
	}
	return nil
}

// A rotation whose sync failed is either complete or absent, and so are the records after it.
func TestRotationWithFailedSyncIsAtomic(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	path := target(t)
	if said := play(t, "failing sync of a rotation", path); said != "done\ndone\ndone\ndone\nunknown\nunknown\n" {
		t.Fatalf("said %q", said)
	}
	s := open(t, path)
	c := got(s.Companies.Get(ctx, "acme"))(t)
	attest(t, s, c, 3)
	got2(s.Companies.RotateKey(ctx, by(c, now), false))(t)
	attest(t, s, c, 3)
	must.OK(t, s.VerifyAll(ctx, "", 1, nil, nil))
}

// failingWrite appends more than the file-size limit allows, and then less.
func failingWrite(path string) error {
	s, c, err := begin(path)
	if err != nil {
		return err
	}
	_, err = s.Append(ctx, draft(c))
	say(err)
	signal.Ignore(syscall.SIGXFSZ)
	info, err := os.Stat(path + "-wal")
	if err != nil {
		return err
	}
	// The limit leaves room for five more frames of the write-ahead log.
	limit := syscall.Rlimit{Cur: uint64(info.Size()) + 5*4120, Max: unix.RLIM_INFINITY}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	long := saying(c, fmt.Sprintf(`{"x":%q}`, strings.Repeat("x", 100_000)))
	_, err = s.Append(ctx, long)
	say(err)
	_, err = s.Append(ctx, chain.Draft{Chain: c.Chain, Payload: draft(c).Payload, Canonical: draft(c).Canonical})
	say(err)
	return nil
}

// A commit that failed while it was written is overwritten at once, so its outcome is known:
// nothing was written.
func TestFailedCommitIsOverwritten(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	path := target(t)
	if said := play(t, "failing write", path); said != "done\nnot done\ndone\n" {
		t.Fatalf("said %q", said)
	}
	s := open(t, path)
	if n := length(t, s, got(s.Companies.Get(ctx, "acme"))(t)); n != 2 {
		t.Errorf("%d records", n)
	}
	must.OK(t, s.VerifyAll(ctx, "", 1, nil, nil))
}

// manyWriters imitates a busy service: 64 callers make all kinds of changes, each for its own
// company, and one of the changes covers many pages.
func manyWriters(path string) error {
	s, c, err := begin(path)
	if err != nil {
		return err
	}
	if _, err := s.Agents.Register(ctx, by(c, now), "bot", nil, store.AgentBounds{Most: 1}); err != nil {
		return err
	}
	if err := errors.Join(atOnce(1000, func(i int) error { return s.Passports.Record(ctx, by(c, now), passport(fmt.Sprint(i), 1)) })...); err != nil {
		return err
	}
	calls := []failing{{unix.SYS_OPENAT, 2, unix.BPF_JSET, unix.O_EXCL}}
	if runtime.GOARCH == "amd64" {
		// This is the system call open, which other architectures do not have.
		calls = append(calls, failing{2, 1, unix.BPF_JSET, unix.O_EXCL})
	}
	if err := failCalls(calls...); err != nil {
		return err
	}
	return errors.Join(atOnce(64, func(i int) error {
		mine, _, err := s.Companies.Create(ctx, fmt.Sprint("company", i), nil, now)
		for n := 0; n < 20 && err == nil; n++ {
			_, err = s.Append(ctx, saying(mine, fmt.Sprintf(`{"x":%q}`, strings.Repeat("x", 10_000))))
			if err == nil {
				_, err = s.Credentials.CreateKey(ctx, by(mine, now), nil, full, 1<<20)
			}
			if err == nil && i == 32 && n == 10 {
				_, _, err = s.Agents.Disable(ctx, by(c, now), "bot")
			}
		}
		return err
	})...)
}

// A service needs no directory for temporary files, even with many writers: it creates no files
// except the database and those next to it, so it works where no temporary file can be created.
func TestNoTemporaryFiles(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	path := target(t)
	if said := play(t, "many writers", path); said != "" {
		t.Fatalf("said %.500q", said)
	}
	s := open(t, path)
	for _, c := range verified(t, s) {
		if c.Length != 20 && c.Company != "acme" {
			t.Errorf("%s has %d records", c.Company, c.Length)
		}
	}
}
