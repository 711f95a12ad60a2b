package test

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// Standard error is a pipe without a reader, and soon full: every request is still answered, and a
// stop is prompt.
func TestUnreadLogDoesNotBlockServer(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s, stderr := serveToPipe(t)
	defer stderr.Close()
	askOften(t, s)
	must.OK(t, s.cmd.Process.Signal(syscall.SIGTERM))
	must.OK(t, s.wait())
}

// The reader of standard error dies: the server goes on, and its exit status is that of any other.
func TestServerSurvivesLogReader(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s, stderr := serveToPipe(t)
	must.OK(t, stderr.Close())
	askOften(t, s)
	must.OK(t, s.cmd.Process.Signal(syscall.SIGTERM))
	must.OK(t, s.wait())
}

// serveToPipe starts the built binary with a pipe for standard error, of which no more is read than
// where the service is.
func serveToPipe(t *testing.T) (s *service, stderr *os.File) {
	t.Helper()
	program, err := binary(t)
	must.OK(t, err)
	stderr, in, err := os.Pipe()
	must.OK(t, err)
	db := storetest.New(t)
	s = &service{cmd: exec.Command(program, "serve", "--listen", "127.0.0.1:0", "--db", db, "--rate-limits", "off"), end: make(chan error, 1)}
	s.cmd.Stderr = in
	must.OK(t, s.cmd.Start())
	must.OK(t, in.Close())
	go func() { s.end <- s.cmd.Wait() }()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // mostly it has ended
		_ = s.wait()
	})
	line, err := bufio.NewReader(stderr).ReadString('\n')
	must.OK(t, err)
	m := listens.FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("the first line is %q", line)
	}
	s.URL = m[1]
	return s, stderr
}

// askOften makes requests whose lines in the log are many times what a pipe holds.
func askOften(t *testing.T, s *service) {
	t.Helper()
	acme := s.register(t, "acme")
	for range 2000 {
		acme.call(t, http.StatusOK, "GET", "/v1/company", "", nil)
	}
	acme.call(t, http.StatusCreated, "POST", "/v1/attest", `{"agentId":"bot","actionType":"deploy","payload":{}}`, nil)
}

// A refused start ends with its exit status, although standard error is full and has no reader.
func TestUnreadRefusalDoesNotBlock(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	program, err := binary(t)
	must.OK(t, err)
	stderr, in, err := os.Pipe()
	must.OK(t, err)
	defer stderr.Close()
	fd := int(in.Fd())
	must.OK(t, syscall.SetNonblock(fd, true))
	for err = nil; err == nil; {
		_, err = syscall.Write(fd, make([]byte, 4096))
	}
	must.OK(t, syscall.SetNonblock(fd, false)) // the child shares this setting

	db := filepath.Join(t.TempDir(), "acme.db")
	must.OK(t, os.WriteFile(db, []byte("not a database"), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "serve", "--listen", "127.0.0.1:0", "--db", db)
	cmd.Stderr = in
	var exited *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exited) || exited.ExitCode() != 8 {
		t.Errorf("it ended with %v", err)
	}
	must.OK(t, in.Close())
}
