package web_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"attestd/internal/harness"
	"attestd/internal/must"
	"attestd/internal/testenv"
)

// service is a running attestd on a database of its own.
type service struct {
	t          testing.TB
	base       string // http://127.0.0.1:port
	db         string
	cmd        *exec.Cmd
	log        sync.WaitGroup
	ago        time.Duration // how far its clock is behind
	invitation chan string   // of the first person, as it is printed
}

// now is the time by the clock of the service.
func (s *service) now() time.Time { return time.Now().Add(-s.ago) }

var atOnce sync.Map // tests that run with others

// parallelBrowsers lets a test that begins with a service or a page run with others. It may be
// called more than once. A benchmark runs alone.
func parallelBrowsers(tb testing.TB) {
	t, ok := tb.(*testing.T)
	if _, known := atOnce.LoadOrStore(tb, true); ok && !known {
		t.Parallel()
	}
}

// startService starts attestd with limits switched off and with more flags; db "" is a new
// database, listen "" any free port.
func startService(t testing.TB, db, listen string, flags ...string) *service {
	t.Helper()
	parallelBrowsers(t)
	path, err := binary()
	must.OK(t, err)
	return (&service{t: t, db: db}).start(path, listen, nil, flags...)
}

// startServiceAgo starts attestd with a clock that is behind, on a new database.
func startServiceAgo(t testing.TB, ago time.Duration) *service {
	t.Helper()
	parallelBrowsers(t)
	path, err := binaryWithWall()
	must.OK(t, err)
	wall, err := harness.NewWall(filepath.Join(t.TempDir(), "wall"))
	must.OK(t, err)
	t.Cleanup(func() { _ = wall.Close() })
	must.OK(t, wall.SetAhead(-ago))
	return (&service{t: t, ago: ago}).start(path, "", []string{wall.Env()})
}

// start starts a binary on the service's database, with more variables and flags.
func (s *service) start(path, listen string, variables []string, flags ...string) *service {
	t, db := s.t, s.db
	t.Helper()
	if db == "" {
		db = filepath.Join(t.TempDir(), "attestd.db")
	}
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	s.db, s.cmd = db, exec.Command(path, append([]string{"serve", "--listen", listen, "--db", db, "--rate-limits", "off"}, flags...)...)
	s.cmd.Env = append(os.Environ(), variables...)
	stderr, err := s.cmd.StderrPipe()
	must.OK(t, err)
	must.OK(t, s.cmd.Start())
	t.Cleanup(s.stop)
	lines := bufio.NewScanner(stderr)
	address := regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+`)
	for lines.Scan() && s.base == "" {
		s.base = address.FindString(lines.Text())
		if s.base != "" {
			break
		}
	}
	if s.base == "" {
		t.Fatal("attestd did not say where it listens")
	}
	s.invitation = make(chan string, 1)
	s.log.Go(func() {
		defer close(s.invitation)
		for lines.Scan() { // keep the pipe empty
			if _, secret, is := strings.Cut(lines.Text(), "/#/join/"); is {
				s.invitation <- secret // there is one such line
			}
		}
	})
	return s
}

func (s *service) stop() {
	if s.cmd.ProcessState != nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(15*time.Second, func() { _ = s.cmd.Process.Kill() })
	defer kill.Stop()
	s.log.Wait()
	_ = s.cmd.Wait()
}

// api calls the service; a status of 300 or more fails the test.
func (s *service) api(method, path, key string, body any) map[string]any {
	s.t.Helper()
	answer, err := s.try(method, path, key, body)
	must.OK(s.t, err)
	return answer
}

func (s *service) try(method, path, key string, body any) (map[string]any, error) {
	var b bytes.Buffer
	if raw, ok := body.(string); ok {
		b.WriteString(raw)
	} else if body != nil {
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(body); err != nil {
			return nil, err
		}
	}
	r, err := http.NewRequest(method, s.base+path, &b)
	if err != nil {
		return nil, err
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var answer map[string]any
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if response.StatusCode >= 300 {
		return nil, fmt.Errorf("%s %s: %d %v", method, path, response.StatusCode, answer)
	}
	return answer, nil
}

// client keeps enough connections for the tests that append from many goroutines.
var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 30 * time.Second}

// company registers a company and returns its API key.
func (s *service) company(id string) string {
	s.t.Helper()
	return s.api("POST", "/v1/companies", "", map[string]any{"companyId": id})["apiKey"].(string)
}

// attest appends n records from several clients at once.
func (s *service) attest(key string, n int) {
	s.t.Helper()
	const clients = 32
	next := make(chan int, n)
	for i := range n {
		next <- i
	}
	close(next)
	failed := make(chan error, clients)
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for i := range next {
				body := fmt.Sprintf(`{"agentId":"agent-%d","actionType":%q,"payload":{"n":%d,"amount":%d.50,"note":"nr. %d"}}`, i%7, actions[i%len(actions)], i, i*3, i)
				if _, err := s.try("POST", "/v1/attest", key, body); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-failed:
		s.t.Fatal(err)
	default:
	}
}

var actions = []string{"file.read", "payment.prepare", "mail.send", "tool.call", "record.update"}

// binary builds attestd once for all browser tests.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "attestd-browser-test")
	if err != nil {
		return "", err
	}
	built = dir
	path := filepath.Join(dir, "attestd")
	return path, harness.Build(context.Background(), path)
})

// binaryWithWall is attestd with a wall clock that a harness.Wall sets, which takes a minute to
// build.
var binaryWithWall = sync.OnceValues(func() (string, error) {
	path, err := binary()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(filepath.Dir(path), "wall")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	path = filepath.Join(dir, "attestd")
	return path, harness.BuildWithWall(context.Background(), path, dir)
})

var built string // directory of the binary, to be removed at the end

func TestMain(m *testing.M) {
	testenv.MoreAtOnce() // browser tests wait for a page
	status := m.Run()
	endBrowser()
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(status)
}

// freePort returns an address that nothing listens on, for what listens there again after a pause.
func freePort(t testing.TB) string {
	t.Helper()
	parallelBrowsers(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer l.Close()
	return l.Addr().String()
}
