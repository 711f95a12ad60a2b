//go:build unix

package server_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/server/local"
	"attestd/store"
	"attestd/store/db"
)

func dialSocket(t testing.TB, db string) net.Conn {
	t.Helper()
	c, err := net.Dial("unix", db+".sock")
	must.OK(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// leaveSocket leaves a socket without a server, as a killed server does.
func leaveSocket(t testing.TB, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must.OK(t, err)
	l.SetUnlinkOnClose(false)
	must.OK(t, l.Close())
}

// A command reads what is sent to it strictly, and says what kind of error it is.
func TestLocalErrorsKeepTheirKind(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s, operator := startLocal(t)
	s.company(t, "acme")
	var answered *local.Error
	if _, err := operator.Suspend(t.Context(), local.Decision{CompanyID: "nobody", Reason: "x"}); !errors.Is(err, store.ErrNotFound) || !errors.As(err, &answered) {
		t.Errorf("an unknown company: %v", err)
	}
	if _, err := operator.Suspend(t.Context(), local.Decision{CompanyID: "acme"}); !errors.Is(err, store.ErrRefused) {
		t.Errorf("no reason: %v", err)
	}
	if _, err := operator.Resume(t.Context(), local.Decision{CompanyID: "acme", Reason: "x"}); !errors.Is(err, store.ErrRefused) {
		t.Errorf("not suspended: %v", err)
	}
	if _, err := operator.Suspend(t.Context(), local.Decision{CompanyID: db.InstallationID, Reason: "x"}); !errors.Is(err, store.ErrRefused) {
		t.Errorf("the installation: %v", err)
	}
	for body, want := range map[string]string{
		`{"companyId":"acme","reason":"x","why":1}`: "400", `{"companyId":"acme","companyId":"zoo","reason":"x"}`: "400", `{`: "400",
		`{"companyId":"` + strings.Repeat("a", 1<<17) + `"}`: "400",
	} {
		c := dialSocket(t, s.path)
		if _, err := c.Write([]byte("POST /company/suspend HTTP/1.1\r\nHost: local\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\nConnection: close\r\n\r\n" + body)); err != nil && len(body) < 1<<16 {
			t.Fatal(err)
		}
		head := make([]byte, 12)
		_, _ = c.Read(head)
		if !strings.HasSuffix(string(head), want) {
			t.Errorf("%.40s: %s", body, head)
		}
	}
	seen := 0
	for c, err := range operator.List(t.Context()) {
		must.OK(t, err)
		if seen++; c.CompanyID != "acme" || c.SuspendedAt != "" {
			t.Errorf("%+v", c)
		}
	}
	if seen != 1 {
		t.Errorf("%d companies", seen)
	}
}

// Idle connections to the socket make no command report an unknown outcome. A command that meets
// too many of them learns that nothing was carried out, and retries.
func TestCommandWithIdleConnections(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	var cfg *server.Config
	s, operator := startLocal(t, func(c *server.Config) { cfg = c })
	socket := cfg.Local
	s.company(t, "acme")
	var idle []net.Conn
	for range 40 {
		idle = append(idle, dialSocket(t, s.path))
	}
	// those that are open are accepted in order, and so before the commands below
	hasty := dialSocket(t, s.path)
	const suspend = `{"companyId":"acme","reason":"x"}`
	fmt.Fprintf(hasty, "POST /company/suspend HTTP/1.1\r\nHost: local\r\nContent-Length: %d\r\n\r\n%s", len(suspend), suspend)
	answer, err := io.ReadAll(hasty)
	if !strings.HasPrefix(string(answer), "HTTP/1.1 503 ") || !strings.Contains(string(answer), `nothing was carried out; try again","kind":"busy"}`) {
		t.Errorf("beside idle connections: %s, %v", answer, err)
	}
	turnedAway := func(n int64) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); socket.Status().Busy < n; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%+v", socket.Status())
			}
		}
	}
	patient := make(chan error)
	go func() {
		_, err := operator.Suspend(t.Context(), local.Decision{CompanyID: "acme", Reason: "x"})
		patient <- err
	}()
	turnedAway(socket.Status().Busy + 1)
	for _, c := range idle {
		must.OK(t, c.Close())
	}
	must.OK(t, <-patient)
	if found, err := operator.Show(t.Context(), "acme"); err != nil || found.SuspendedAt == "" {
		t.Errorf("%+v, %v", found, err)
	}
	s.stop()
	if _, err := operator.Show(t.Context(), "acme"); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("when the server has ended: %v", err)
	}
}

// A path that is too long for a socket is reached through its folder on Linux.
func TestSocketInALongPath(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("needs the folder of open files of Linux")
	}
	dir := filepath.Join(t.TempDir(), strings.Repeat("a", 200))
	must.OK(t, os.Mkdir(dir, 0o700))
	db := filepath.Join(dir, "attestd.db")
	l := &local.Server{}
	must.OK(t, l.Listen(db))
	defer l.Close()
	if _, err := local.Dial(t.Context(), db); err != nil {
		t.Error(err)
	}
}

// A process of another user is refused by what the kernel reports, even where the mode would admit
// it.
func TestSocketRefusesOtherUsers(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("needs Linux and root, to be another user")
	}
	python, err := exec.LookPath("/usr/bin/python3") // no shim of a folder that is not everybody's
	if err != nil {
		t.Skip("needs Python, to be another user")
	}
	s, _ := startLocal(t)
	s.company(t, "acme")
	must.OK(t, os.Chmod(s.path+".sock", 0o666))
	script := `import socket,sys
s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
b=b'{"companyId":"acme","reason":"x"}'
try:
  s.sendall(b"POST /company/suspend HTTP/1.1\r\nHost: local\r\nContent-Length: %d\r\n\r\n"%len(b)+b)
  print(s.recv(100))
except OSError: print(b'')`
	for dir := filepath.Dir(s.path); dir != "/" && dir != "."; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o001 == 0 {
			must.OK(t, os.Chmod(dir, info.Mode().Perm()|0o011))
		}
	}
	as := func(uid uint32) string {
		cmd := exec.Command(python, "-c", script, s.path+".sock")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Skipf("another user cannot run Python here: %v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if out := as(65534); out != "b''" {
		t.Errorf("another user gets %s", out)
	}
	if out := as(0); !strings.Contains(out, "200 OK") {
		t.Errorf("root gets %s", out)
	}
}
