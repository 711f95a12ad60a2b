package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"attestd/internal/harness"
)

// child is a server process: attestd or the bare one. The caller MUST stop it.
type child struct {
	cmd   *exec.Cmd
	addr  string // host:port
	stdin io.WriteCloser
	done  chan struct{} // closed when it has ended
}

// patience is the time limit for the start of a child, and for its end after a signal.
const patience = 30 * time.Second

// listensOn matches the line of standard error with which both servers report their address.
var listensOn = regexp.MustCompile(`listens on http://(\S+)`)

// serve starts this tree's attestd on a database file.
func (b *bench) serve(ctx context.Context, db string, flags ...string) (*child, error) {
	return serve(ctx, b.binary(), db, flags...)
}

// serve starts an attestd on a database file, without limits, without the background verification,
// which would begin with the server, and with default values for all other flags.
func serve(ctx context.Context, binary, db string, flags ...string) (*child, error) {
	return start(ctx, exec.Command(binary, append(serveArgs(db), flags...)...))
}

func serveArgs(db string) []string {
	return []string{"serve", "--listen", "127.0.0.1:0", "--base-url", harness.Base, "--rate-limits", "off", "--verify-every", "off", "--db", db}
}

// serveTenant starts a server on a new file with one tenant.
func (b *bench) serveTenant(ctx context.Context, file string, flags ...string) (server *child, t tenant, err error) {
	if server, err = b.serve(ctx, filepath.Join(b.dir, file), flags...); err != nil {
		return nil, tenant{}, err
	}
	if t, err = register(ctx, server.addr, "acme"); err != nil {
		return nil, tenant{}, errors.Join(err, server.stop())
	}
	return server, t, nil
}

// start starts cmd and returns when it listens.
func start(ctx context.Context, cmd *exec.Cmd) (*child, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, done: make(chan struct{})}
	// the bare server ends when its standard input closes, however this process ends
	if c.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	address := make(chan string, 1)
	var stderrText strings.Builder // read after done is closed
	go func() {
		defer close(c.done)
		follow(stderr, address, &stderrText)
		_ = cmd.Wait()
	}()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case c.addr = <-address:
		return c, nil
	case <-c.done:
		return nil, fmt.Errorf("%s ended at once: %s", cmd.Args[1], stderrText.String())
	case <-timeout.C:
		err = fmt.Errorf("%s does not listen after %v", cmd.Args[1], patience)
	case <-ctx.Done():
		err = ctx.Err()
	}
	return nil, errors.Join(err, c.stop())
}

// follow waits for the line with the address, and then reads as long as the process writes, because
// a full pipe would block it. It reads large pieces with pauses, because the server writes a line
// per request, and reading each one would add to the load.
func follow(stderr io.Reader, address chan<- string, stderrText *strings.Builder) {
	lines := bufio.NewReaderSize(stderr, 64<<10)
	for {
		line, err := lines.ReadString('\n')
		if match := listensOn.FindStringSubmatch(line); match != nil {
			address <- match[1]
			break
		}
		if stderrText.Len() < 4096 {
			stderrText.WriteString(line)
		}
		if err != nil {
			return
		}
	}
	buf := make([]byte, 64<<10)
	for {
		if _, err := lines.Read(buf); err != nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// stop interrupts the process, kills it if it does not end, and returns when it has ended. It may
// be called twice.
func (c *child) stop() error {
	c.stdin.Close()
	if c.cmd.Process.Signal(os.Interrupt) != nil { // it has ended, or the system has no such signal
		_ = c.cmd.Process.Kill()
	}
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case <-c.done:
		return nil
	case <-timeout.C:
		_ = c.cmd.Process.Kill()
		<-c.done
		return fmt.Errorf("%s had to be killed: it did not end within %v", c.cmd.Args[1], patience)
	}
}
