package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// role is the superuser of every server.
const role = "pgtest"

// server is one PostgreSQL server: its folder, and its postmaster while that runs.
type server struct {
	installation
	*folder    // contains the data, the password and stderr
	password   string
	port       int
	settings   []string // name=value
	postmaster *os.Process
	ended      chan struct{} // closed after the postmaster was waited for
}

// newServer creates the folder of a server without starting it. The name becomes its cluster_name.
func newServer(i installation, name string, settings ...string) (*server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	folder, err := newFolder()
	if err != nil {
		return nil, err
	}
	s := &server{installation: i, folder: folder, port: port, password: rand.Text()}
	s.settings = append([]string{
		"port=" + strconv.Itoa(port), "listen_addresses=127.0.0.1", "unix_socket_directories=", "cluster_name=" + name,
		"max_connections=500", "shared_buffers=32MB", "min_wal_size=32MB", "max_wal_size=128MB", "logging_collector=off",
		"timezone=UTC",
	}, settings...)
	if err := s.give(folder.path); err != nil {
		folder.remove()
		return nil, err
	}
	return s, nil
}

// freePort returns a free port. It is below the range for outgoing connections, so that it stays
// free while the server is down.
func freePort() (int, error) {
	const first, last = 15000, 32000
	for range 100 {
		n, err := rand.Int(rand.Reader, big.NewInt(last-first))
		if err != nil {
			return 0, err
		}
		port := first + int(n.Int64())
		if l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("pgtest: no port is free")
}

func (s *server) data() string    { return s.in("data") }
func (s *server) stderr() string  { return s.in("stderr") }
func (s *server) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

func (s *server) url(database string) string {
	return (&url.URL{Scheme: "postgres", User: url.UserPassword(role, s.password), Host: s.address(), Path: database,
		RawQuery: "sslmode=disable"}).String()
}

// program returns a command for a program of PostgreSQL, run by the account, without the settings
// in the environment of the tests.
func (s *server) program(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.programs, name), args...)
	cmd.Dir = s.path
	cmd.Env = []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = attributes(s.account)
	return cmd
}

// run runs a program to its end. Its error includes the program's output.
func (s *server) run(name string, args ...string) error {
	if out, err := s.program(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("pgtest: %s: %w\n%s", name, err, out)
	}
	return nil
}

// initialize creates the data of a server with empty databases. The options are passed to initdb.
func (s *server) initialize(options ...string) error {
	password := s.in("password")
	if err := os.WriteFile(password, []byte(s.password), 0o600); err != nil {
		return err
	}
	if err := s.give(password); err != nil {
		return err
	}
	return s.run("initdb", append(options, "--no-sync", "--no-instructions", "--encoding=UTF8", "--locale=C",
		"--auth=scram-sha-256",
		"--username="+role, "--pwfile="+password, "--pgdata="+s.data())...)
}

// start starts the postmaster and waits until it accepts connections.
func (s *server) start() error {
	stderr, err := os.OpenFile(s.stderr(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer stderr.Close()
	args := []string{"-D", s.data()}
	for _, setting := range s.settings {
		args = append(args, "-c", setting)
	}
	cmd := s.program("postgres", args...)
	cmd.Stderr = stderr
	started, ended := make(chan error), make(chan struct{})
	// Linux ends the postmaster with the thread that started it, so this goroutine lives as long.
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Wait()
		}
		close(ended)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	s.postmaster, s.ended = cmd.Process, ended
	err = s.poll("the server takes no connections", func(ctx context.Context) (bool, error) {
		c, err := pgx.Connect(ctx, s.url("postgres"))
		if err != nil {
			return false, err
		}
		return true, c.Close(ctx)
	})
	if err != nil {
		return errors.Join(err, s.abort())
	}
	return nil
}

// poll asks until the answer is yes, the postmaster has ended, or the limit is reached. An error
// counts as no; the last one is part of poll's error.
func (s *server) poll(failure string, ask func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for {
		yes, last := ask(ctx)
		if yes {
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
			continue
		case <-s.ended:
		case <-ctx.Done():
		}
		return errors.Join(fmt.Errorf("pgtest: %s\n%s", failure, s.log()), last)
	}
}

// log returns the end of the server's stderr.
func (s *server) log() string {
	text, err := os.ReadFile(s.stderr())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-8<<10):])
}

// stop ends the server as an operator does (fast shutdown): sessions end, everything is written,
// and a standby has received everything.
func (s *server) stop() error { return s.end(os.Interrupt) }

// abort ends the server at once (immediate shutdown), which suffices if the data is removed.
func (s *server) abort() error { return s.end(syscall.SIGQUIT) }

// end sends the postmaster a signal and waits until it has ended with all its children.
func (s *server) end(signal os.Signal) error {
	if !s.running() {
		return nil
	}
	if err := s.postmaster.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("pgtest: %w", err)
	}
	return s.wait()
}

func (s *server) wait() error {
	select {
	case <-s.ended:
		return nil
	case <-time.After(limit):
		return fmt.Errorf("pgtest: the server does not end\n%s", s.log())
	}
}

// running reports whether the postmaster was started and has not ended.
func (s *server) running() bool {
	if s.postmaster == nil {
		return false
	}
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}
