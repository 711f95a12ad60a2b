package harness

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Service is a running `attestd serve`. The caller MUST end it with Stop, Kill or Dump.
type Service struct {
	Addr string // host:port

	cmd        *exec.Cmd
	done       chan struct{} // closed when the process has ended
	end        error         // result of Wait; read after done
	mu         sync.Mutex
	tail       []byte // the end of standard error
	goroutines int    // headers of goroutines in standard error
}

// Base is the public address of servers, unless a flag says otherwise. Requests have its Host.
const Base = "http://127.0.0.1"

// Serve starts the server on a database file and a free port, and returns when it listens.
func (l *Lab) Serve(ctx context.Context, db string, flags ...string) (*Service, error) {
	return l.ServeUnder(ctx, nil, db, flags...)
}

// ServeUnder is Serve through a program that executes the server. The server's command follows the
// program's arguments.
func (l *Lab) ServeUnder(ctx context.Context, program []string, db string, flags ...string) (*Service, error) {
	command := slices.Concat(program, []string{l.binary, "serve", "--listen", "127.0.0.1:0", "--db", db}, flags)
	if !slices.Contains(flags, "--base-url") {
		command = append(command, "--base-url", Base)
	}
	cmd := exec.Command(command[0], command[1:]...)
	for _, setting := range os.Environ() { // the environment can set flags too
		if !strings.HasPrefix(setting, "ATTESTD_") && !strings.HasPrefix(setting, "SERVICE_") {
			cmd.Env = append(cmd.Env, setting)
		}
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &Service{cmd: cmd, done: make(chan struct{})}
	address := make(chan string, 1)
	go func() {
		defer close(s.done)
		s.follow(bufio.NewReaderSize(stderr, 64<<10), address)
		s.end = cmd.Wait()
	}()
	select {
	case s.Addr = <-address:
		return s, nil
	case <-s.done:
		return nil, fmt.Errorf("attestd serve ended at once: %w: %s", s.end, s.output())
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(Patience):
		err = errors.New("attestd serve does not listen")
	}
	return nil, errors.Join(err, s.Kill())
}

// ServeNew starts the server on a new file in a new folder.
func (l *Lab) ServeNew(ctx context.Context, flags ...string) (s *Service, db string, err error) {
	folder, err := l.Folder()
	if err != nil {
		return nil, "", err
	}
	db = filepath.Join(folder, "attestd.db")
	s, err = l.Serve(ctx, db, flags...)
	return s, db, err
}

// follow reads standard error until its end, because a full pipe would block the process.
func (s *Service) follow(lines *bufio.Reader, address chan<- string) {
	listening := false
	for {
		line, err := lines.ReadSlice('\n')
		if !listening {
			if _, rest, ok := strings.Cut(string(line), "listens on http://"); ok {
				listening = true
				address <- strings.Fields(rest)[0]
			}
		}
		s.mu.Lock()
		s.tail = append(s.tail, line...)
		if over := len(s.tail) - 8<<10; over > 16<<10 {
			s.tail = append(s.tail[:0], s.tail[over:]...)
		}
		if bytes.HasPrefix(line, []byte("goroutine ")) {
			s.goroutines++
		}
		s.mu.Unlock()
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

func (s *Service) output() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.tail)
}

// PID returns the process ID.
func (s *Service) PID() int { return s.cmd.Process.Pid }

// Running returns nil while the process runs, and then an error with its exit status and last
// output.
func (s *Service) Running() error {
	select {
	case <-s.done:
		return fmt.Errorf("the server has ended: %v: %s", s.end, s.output())
	default:
		return nil
	}
}

// Stop sends SIGINT and returns nil after a clean exit. It may be called twice.
func (s *Service) Stop() error { return s.signal(os.Interrupt) }

// Kill kills the process. It returns an error if the process had already ended.
func (s *Service) Kill() error {
	if err := s.Running(); err != nil {
		return err
	}
	_ = s.cmd.Process.Kill() // fails only if the process has ended
	<-s.done
	var exit *exec.ExitError
	if !errors.As(s.end, &exit) || exit.Exited() {
		return fmt.Errorf("the server was not killed: it had ended by itself: %s", s.output())
	}
	return nil
}

// Dump ends the process with SIGQUIT, so that Go prints the goroutines' stacks, and returns their
// number.
func (s *Service) Dump() (goroutines int, err error) {
	_ = s.signal(syscall.SIGQUIT) // its exit status is 2
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.goroutines == 0 {
		return 0, fmt.Errorf("no stacks at SIGQUIT: %s", s.tail)
	}
	return s.goroutines, nil
}

func (s *Service) signal(sig os.Signal) error {
	_ = s.cmd.Process.Signal(sig) // fails only if the process has already ended
	select {
	case <-s.done:
	case <-time.After(Patience):
		_ = s.cmd.Process.Kill()
		<-s.done
		return fmt.Errorf("the server had to be killed: %s", s.output())
	}
	if s.end != nil {
		return fmt.Errorf("the server's end: %w: %s", s.end, s.output())
	}
	return nil
}
