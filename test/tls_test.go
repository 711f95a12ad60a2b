package test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// secureServer is the built binary with a certificate of a private CA.
type secureServer struct {
	url, dir string
	ca       *testenv.CA
	client   *http.Client
	program  string
	cmd      *exec.Cmd
	first    string // line
	rest     chan string
}

// serveTLS starts the built binary with its own certificate in files, and further flags.
func serveTLS(t *testing.T, flags ...string) *secureServer {
	t.Helper()
	program, err := binary(t)
	must.OK(t, err)
	s := &secureServer{dir: t.TempDir(), ca: testenv.NewCA(t), program: program, rest: make(chan string, 1)}
	cert, key := s.ca.Server(t)
	must.OK(t, os.WriteFile(filepath.Join(s.dir, "tls.crt"), cert, 0o644))
	must.OK(t, os.WriteFile(filepath.Join(s.dir, "tls.key"), key, 0o600))
	must.OK(t, os.WriteFile(filepath.Join(s.dir, "ca.pem"), s.ca.PEM(), 0o644))
	s.cmd = exec.Command(program, append([]string{"serve", "--listen", "127.0.0.1:0", "--db", storetest.New(t),
		"--rate-limits", "off", "--tls-cert", "tls.crt", "--tls-key", "tls.key"}, flags...)...)
	s.cmd.Dir = s.dir
	stderr, err := s.cmd.StderrPipe()
	must.OK(t, err)
	must.OK(t, s.cmd.Start())
	var once = make(chan struct{})
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // it has ended already, mostly
		<-once
		_ = s.cmd.Wait()
	})
	lines := make(chan string, 1)
	go func() {
		defer close(once)
		var all bytes.Buffer
		buffer := make([]byte, 4096)
		sent := false
		for {
			n, err := stderr.Read(buffer)
			all.Write(buffer[:n])
			if line, _, whole := strings.Cut(all.String(), "\n"); whole && !sent {
				sent = true
				lines <- line
			}
			if err != nil {
				break
			}
		}
		if !sent {
			lines <- all.String()
		}
		s.rest <- all.String()
	}()
	select {
	case s.first = <-lines:
	case <-time.After(patience):
		t.Fatal("the server prints nothing")
	}
	if m := regexp.MustCompile(`https://127\.0\.0\.1:\d+`).FindString(s.first); m != "" {
		s.url = m
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.ca.Pool()}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	s.client = &http.Client{Transport: transport, Timeout: patience}
	return s
}

// attestd runs a command in the server's folder and returns what it prints, and whether it ended
// well.
func (s *secureServer) attestd(t *testing.T, environment []string, args ...string) (out string, ok bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), s.program, args...)
	cmd.Dir = s.dir
	cmd.Env = append([]string{"HOME=" + s.dir, "XDG_CONFIG_HOME=" + filepath.Join(s.dir, "config"),
		"PATH=" + os.Getenv("PATH")}, environment...)
	text, err := cmd.CombinedOutput()
	return string(text), err == nil
}

// The program serves TLS with a certificate from files and prints its address as https. Commands
// reach it when they trust its CA, and not otherwise; the stop says why and after how long.
func TestServeTLS(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := serveTLS(t)
	if s.url == "" || !strings.Contains(s.first, "listens on "+s.url) {
		t.Fatalf("the first line is %q", s.first)
	}
	res, err := s.client.Post(s.url+"/v1/companies", "application/json", strings.NewReader(`{"companyId":"acme"}`))
	must.OK(t, err)
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	must.OK(t, err)
	if res.StatusCode != 201 || res.Proto != "HTTP/2.0" {
		t.Fatalf("%s %s: %s", res.Proto, res.Status, body)
	}
	key := regexp.MustCompile(`"apiKey":"([^"]+)"`).FindStringSubmatch(string(body))[1]
	attest := []string{"attest", "--agent", "bot", "--action", "deploy", `{"n":1}`, "--url", s.url}
	if out, ok := s.attestd(t, []string{"ATTESTD_KEY=" + key}, attest...); ok || !strings.Contains(out, "certificate") {
		t.Errorf("without the CA: %s", out)
	}
	for name, run := range map[string]func() (string, bool){
		"flag": func() (string, bool) {
			return s.attestd(t, []string{"ATTESTD_KEY=" + key}, append(attest, "--ca-file", "ca.pem")...)
		},
		"variable": func() (string, bool) {
			return s.attestd(t, []string{"ATTESTD_KEY=" + key, "ATTESTD_CA_FILE=ca.pem"}, attest...)
		},
	} {
		if out, ok := run(); !ok {
			t.Errorf("%s: %s", name, out)
		}
	}
	// what init writes, later commands trust
	must.OK(t, os.Mkdir(filepath.Join(s.dir, "config"), 0o700))
	must.OK(t, os.Mkdir(filepath.Join(s.dir, "project"), 0o700))
	if out, ok := s.attestd(t, []string{"ATTESTD_KEY=" + key}, "init", "claude-code", "--unsigned", "--write", "--url", s.url, "--ca-file", "ca.pem", "--settings", filepath.Join(s.dir, "project", "settings.json")); !ok {
		t.Fatalf("init: %s", out)
	}
	if out, ok := s.attestd(t, nil, "attest", "--agent", "bot", "--action", "deploy", `{"n":2}`); !ok {
		t.Errorf("with the connection file alone: %s", out)
	}
	if out, ok := s.attestd(t, nil, "attest", "--ca-file", "tls.key", "--agent", "bot", "--action", "deploy", `{"n":2}`); ok || strings.Contains(out, "PRIVATE") {
		t.Errorf("a file without certificates: %s", out)
	}
	must.OK(t, s.cmd.Process.Signal(os.Interrupt))
	select {
	case log := <-s.rest:
		if !regexp.MustCompile(`msg=stopped reason="interrupt signal received" ran=\S+\n$`).MatchString(log) {
			t.Errorf("the log ends without why: %q", log[max(0, len(log)-300):])
		}
	case <-time.After(patience):
		t.Fatal("the server goes on")
	}
}

// Flags of TLS that do not go together, keys that others may read and pairs that do not fit end the
// start, and no error shows a key.
func TestServeTLSRefusals(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	program, err := binary(t)
	must.OK(t, err)
	dir, ca := t.TempDir(), testenv.NewCA(t)
	cert, key := ca.Server(t)
	_, other := ca.Server(t)
	for name, file := range map[string]struct {
		text []byte
		mode os.FileMode
	}{"tls.crt": {cert, 0o644}, "tls.key": {key, 0o600}, "open.key": {key, 0o644}, "other.key": {other, 0o600}, "leaf.pem": {cert, 0o644}, "empty.pem": {nil, 0o644}} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), file.text, file.mode))
	}
	must.OK(t, os.Mkdir(filepath.Join(dir, "open.acme"), 0o755))
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer taken.Close()
	pair := []string{"--tls-cert", "tls.crt", "--tls-key", "tls.key"}
	for _, tt := range []struct {
		message string
		args    []string
	}{
		{"require each other", []string{"--tls-cert", "tls.crt"}},
		{"require each other", []string{"--tls-key", "tls.key"}},
		{"exclude each other", append(pair, "--acme-domain", "attest.example.com")},
		{"require --tls-cert or --acme-domain", []string{"--tls-client-ca", "tls.crt"}},
		{"require --tls-cert or --acme-domain", []string{"--http-redirect", ":0"}},
		{"require --acme-domain", append(pair, "--acme-email", "a@example.com")},
		{"must begin with https://", append(pair, "--base-url", "http://attest.example.com")},
		{"others than the owner", []string{"--tls-cert", "tls.crt", "--tls-key", "open.key"}},
		{"does not match", []string{"--tls-cert", "tls.crt", "--tls-key", "other.key"}},
		{"no such file", []string{"--tls-cert", "none.crt", "--tls-key", "tls.key"}},
		{"is no CA's", append(pair, "--tls-client-ca", "leaf.pem")},
		{"no certificate in PEM", append(pair, "--tls-client-ca", "empty.pem")},
		{"choose another address with --http-redirect", append(pair, "--http-redirect", taken.Addr().String())},
		{"must list names", []string{"--acme-domain", "127.0.0.1"}},
		{"must list names", []string{"--acme-domain", "*.example.com"}},
		{"begins with https://", []string{"--acme-domain", "a.example.com", "--acme-directory", "http://ca.example.com"}},
		{"only its owner can read", []string{"--acme-domain", "a.example.com", "--acme-cache", "open.acme"}},
		{"requires --acme-cache", []string{"--acme-domain", "a.example.com", "--db", "postgres://localhost/none"}},
	} {
		cmd := exec.CommandContext(t.Context(), program, append([]string{"serve", "--listen", "127.0.0.1:0", "--db", "new.db"}, tt.args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), tt.message) || strings.Contains(string(out), "PRIVATE") {
			t.Errorf("%v: %s", tt.args, out)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "new.db")); err == nil {
		t.Error("a refused start has made a database")
	}
}
