package test

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"attestd/internal/must"
	"attestd/store/storetest"
)

// A server that was started on a terminal reads its settings again while that is open, and stops
// when it is closed.
func TestClosedTerminalStopsServer(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	program, err := binary(t)
	must.OK(t, err)
	// a server is started with SIGHUP ignored where these tests are, as by nohup
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(heard) })
	master, slave := openTerminal(t)
	cmd := exec.Command(program, "serve", "--listen", "127.0.0.1:0", "--db", filepath.Join(t.TempDir(), "acme.db"))
	cmd.Stdin = slave
	// descriptor 0 is the terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	s, err := launch(cmd)
	must.OK(t, err)
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // mostly it has ended
		_ = s.wait()
	})
	must.OK(t, slave.Close())
	lineHas(t, s.hangup(t), "level=INFO", `changed=""`)
	must.OK(t, master.Close()) // sends SIGHUP
	must.OK(t, s.wait())
	if !strings.Contains(s.log.String(), `msg=stopped reason="the terminal was closed"`) {
		t.Error(s.log.String())
	}
}
