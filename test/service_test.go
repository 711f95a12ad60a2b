package test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"attestd/internal/harness"
	"attestd/internal/must"
	"attestd/internal/testenv"
)

// patience bounds every wait for a process or an answer. Nothing takes so long; what does, hangs.
const patience = 30 * time.Second

// service is a running `attestd serve`.
type service struct {
	URL   string
	Start string // what it printed before its first request
	cmd   *exec.Cmd
	out   bytes.Buffer // standard output; read it after the end
	log   lineLog      // standard error
	end   chan error   // the result of Wait
}

// launch starts cmd, an `attestd serve --listen 127.0.0.1:0 …`, and returns when it answers. An
// error tells what it printed.
func launch(cmd *exec.Cmd) (*service, error) {
	s := &service{cmd: cmd, end: make(chan error, 1)}
	cmd.Stdout = &s.out
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	listening, asked := make(chan string, 1), make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			before := s.log.String()
			s.log.add(lines.Text())
			if m := listens.FindStringSubmatch(lines.Text()); m != nil && before == "" {
				listening <- m[1]
			}
			if strings.Contains(lines.Text(), "/v1/health") && len(asked) == 0 {
				asked <- before
			}
		}
		close(listening)
		s.end <- cmd.Wait()
	}()
	if err := s.await(listening, asked); err != nil {
		_ = cmd.Process.Kill() // it has ended already, or hangs
		return nil, fmt.Errorf("%w: %w\n%s", err, s.wait(), s.log.String())
	}
	return s, nil
}

// await returns when the server answers; all that a start prints is in s.Start then.
func (s *service) await(listening, asked <-chan string) error {
	select {
	case s.URL = <-listening:
	case <-time.After(patience):
	}
	if s.URL == "" {
		return errors.New("the server does not listen")
	}
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(s.URL + "/v1/health")
	if err != nil {
		return err
	}
	select {
	case s.Start = <-asked:
	case <-time.After(patience):
		return errors.New("the server does not log its requests")
	}
	return answer.Body.Close()
}

// listens finds the address in the first line, as text or as JSON.
var listens = regexp.MustCompile(`(?:listens on |"msg":"listening","url":")(http://[0-9.:]+)`)

// signal asks the server to stop, and does not wait.
func (s *service) signal() error { return s.cmd.Process.Signal(os.Interrupt) }

// interrupt is Ctrl-C; the error is nil after a clean stop with exit status 0.
func (s *service) interrupt() error {
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	return s.wait()
}

// kill ends the server at once, as a power cut would.
func (s *service) kill() error {
	if err := s.cmd.Process.Kill(); err != nil {
		return err
	}
	if exited := (*exec.ExitError)(nil); !errors.As(s.wait(), &exited) || exited.Exited() {
		return errors.New("the server was not killed: it had ended by itself")
	}
	return nil
}

func (s *service) wait() error {
	select {
	case err := <-s.end:
		s.end <- err
		return err
	case <-time.After(patience):
		_ = s.cmd.Process.Kill()
		err := <-s.end
		s.end <- err
		return fmt.Errorf("the server had to be killed: %w", err)
	}
}

// binary builds attestd as the README describes, once. The race detector does not cover it.
func binary(t *testing.T) (string, error) {
	t.Helper()
	testenv.Needs(t, testenv.NotRaced)
	return built()
}

var built = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "attestd-built")
	return path, harness.Build(context.Background(), path)
})

// serve starts the built binary on a free port and ends it with the test, if it still runs.
func serve(t *testing.T, db string, flags ...string) *service {
	t.Helper()
	path, err := binary(t)
	must.OK(t, err)
	s, err := launch(exec.Command(path, append([]string{"serve", "--listen", "127.0.0.1:0", "--db", db}, flags...)...))
	must.OK(t, err)
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // mostly it has ended
		_ = s.wait()
		if t.Failed() {
			t.Logf("the end of the server's log:\n%s", tail(s.log.String(), 2000))
		}
	})
	return s
}

// attestd runs the built binary to its end.
func attestd(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	path, err := binary(t)
	must.OK(t, err)
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = atHome(filepath.Join(scratch, "home"))
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err = cmd.Run(); err != nil {
		err = fmt.Errorf("attestd %s: %w: %s", strings.Join(args, " "), err, log.String())
	}
	return out.String(), err
}

// lineLog is what a process prints, to be read while it does.
type lineLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lineLog) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.WriteString(line + "\n")
}

func (l *lineLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// client calls a service with a company's key.
type client struct {
	http *http.Client
	url  string
	key  string
}

// send makes one call. body is sent as it is.
func (c *client) send(method, path, body string) (status int, answer []byte, err error) {
	request, err := http.NewRequest(method, c.url+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// call makes one call that must give status, and reads its answer into dest unless that is nil.
func (c *client) call(t *testing.T, status int, method, path, body string, dest any) []byte {
	t.Helper()
	got, answer, err := c.send(method, path, body)
	must.OK(t, err)
	if got != status {
		t.Fatalf("%s %s answers %d, want %d: %.300s", method, path, got, status, answer)
	}
	if dest != nil {
		must.OK(t, json.Unmarshal(answer, dest))
	}
	return answer
}

// client returns a caller with a key, "" for none.
func (s *service) client(t *testing.T, key string) *client {
	c := &client{http: &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 32}}, url: s.URL, key: key}
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

// register makes a company and returns its caller.
func (s *service) register(t *testing.T, company string) *client {
	t.Helper()
	c := s.client(t, "")
	var made struct{ APIKey string }
	c.call(t, http.StatusCreated, "POST", "/v1/companies", fmt.Sprintf(`{"companyId":%q}`, company), &made)
	c.key = made.APIKey
	return c
}

// at is the same caller at another service: a server that was started again has another port.
func (c *client) at(s *service) *client { return &client{http: c.http, url: s.URL, key: c.key} }

// tail is the end of a text, n bytes at most.
func tail(text string, n int) string { return text[max(0, len(text)-n):] }
