package test

import (
	"crypto/ed25519"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"attestd/chain/tlog"
	"attestd/internal/must"
	"attestd/internal/testenv"
)

// privateService is what a company has behind a CA of its own: one server, which records the first
// part of the requested paths.
type privateService struct {
	*httptest.Server
	file string // with the CA

	mu    sync.Mutex
	asked map[string]bool
}

func newPrivateService(t *testing.T) *privateService {
	t.Helper()
	p := &privateService{file: filepath.Join(t.TempDir(), "ca.pem"), asked: map[string]bool{}}
	ca := testenv.NewCA(t)
	must.OK(t, os.WriteFile(p.file, ca.PEM(), 0o644))
	cert, key := ca.Server(t)
	pair, err := tls.X509KeyPair(cert, key)
	must.OK(t, err)
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		p.mu.Lock()
		p.asked[name] = true
		p.mu.Unlock()
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	p.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	p.Config.ErrorLog = log.New(io.Discard, "", 0) // of clients that do not trust the CA
	p.StartTLS()
	t.Cleanup(p.CloseClientConnections)
	t.Cleanup(p.Close)
	return p
}

// missing returns the names that were not requested.
func (p *privateService) missing(names ...string) (list []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range names {
		if !p.asked[name] {
			list = append(list, name)
		}
	}
	return list
}

// startWithPrivate starts the built binary with a witness, an export and a bucket there, and has a
// webhook and another issuer there too.
func (p *privateService) startWithPrivate(t *testing.T, flags ...string) (s *service, c *client, token string) {
	t.Helper()
	path, err := binary(t)
	must.OK(t, err)
	vkey := tlog.VKey{Name: "witness.example.com", Type: tlog.TypeCosignature,
		Public: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)).Public().(ed25519.PublicKey)}
	cmd := exec.Command(path, append([]string{"serve", "--listen", "127.0.0.1:0", "--db", filepath.Join(t.TempDir(), "attestd.db"),
		"--webhooks-allow-private", "--federation-allow-private", "--witness", p.URL + "/witness=" + vkey.String(),
		"--export-to", "https", "--export-address", p.URL + "/export",
		"--backup-to", "s3://bucket/prefix", "--backup-s3-endpoint", p.URL, "--backup-s3-path-style", "--backup-s3-region", "us-east-1"}, flags...)...)
	cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=secret")
	s, err = launch(cmd)
	must.OK(t, err)
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		_ = s.wait()
	})
	c = s.register(t, "acme")
	c.webhook(t, p.URL+"/webhook")
	c.call(t, 201, "POST", "/v1/federation", fmt.Sprintf(
		`{"name":"ci","issuer":%q,"audience":%q,"rules":[{"match":{"sub":"x"},"agentId":"ci","register":true}]}`, p.URL+"/issuer", s.URL+"/o/acme"), nil)
	c.call(t, 201, "POST", "/v1/attest", `{"agentId":"bot","actionType":"a.b","payload":{}}`, nil)
	now := time.Now().Unix()
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	token = part(`{"alg":"RS256","typ":"JWT","kid":"k"}`) + "." + part(fmt.Sprintf(
		`{"iss":%q,"aud":%q,"sub":"x","iat":%d,"exp":%d,"jti":"1"}`, p.URL+"/issuer", s.URL+"/o/acme", now, now+300)) + "." + part(strings.Repeat("s", 256))
	return s, c, token
}

// exchange presents a token of the other issuer.
func exchange(t *testing.T, c *client, token string) string {
	t.Helper()
	_, answer, err := c.send("POST", "/v1/oauth/token", fmt.Sprintf(`{"grant_type":"urn:ietf:params:oauth:grant-type:jwt-bearer","assertion":%q}`, token))
	must.OK(t, err)
	return string(answer)
}

// With --ca-file a server trusts a private CA wherever it connects to, and without it nowhere, and
// says so.
func TestPrivateCA(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	all := []string{"witness", "export", "bucket", "webhook", "issuer"}
	t.Run("trusted", func(t *testing.T) {
		t.Parallel()
		p := newPrivateService(t)
		_, c, token := p.startWithPrivate(t, "--ca-file", p.file)
		exchange(t, c, token)
		for end := time.Now().Add(patience); len(p.missing(all...)) > 0; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("never asked: %v", p.missing(all...))
			}
		}
	})
	t.Run("not trusted", func(t *testing.T) {
		t.Parallel()
		p := newPrivateService(t)
		s, c, token := p.startWithPrivate(t)
		if answer := exchange(t, c, token); !strings.Contains(answer, "of no CA that this service trusts") {
			t.Errorf("the other issuer: %s", answer)
		}
		for _, what := range []string{"the witness cannot be asked", "the export is not accepted", "the backup failed"} {
			answer := func() bool {
				for line := range strings.Lines(s.log.String()) {
					if strings.Contains(line, what) && strings.Contains(line, "certificate signed by unknown authority") {
						return true
					}
				}
				return false
			}
			for end := time.Now().Add(patience); !answer(); time.Sleep(20 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%q is not in the log: %s", what, tail(s.log.String(), 4000))
				}
			}
		}
		if got := p.missing(all...); len(got) != len(all) {
			t.Errorf("only %v were not asked", got)
		}
	})
}

// The CA of --ca-file is trusted for the collector of spans and for an ACME CA, too.
func TestPrivateCAOfCollectorAndACME(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	p := newPrivateService(t)
	path, err := binary(t)
	must.OK(t, err)
	for name, flags := range map[string][]string{"collector": nil, "acme": {"--acme-domain", "attest.example.com", "--acme-directory", p.URL + "/acme/dir"}} {
		address := fmt.Sprint("127.0.0.1:", freePort(t))
		cmd := exec.CommandContext(t.Context(), path, append([]string{"serve", "--listen", address, "--db", filepath.Join(t.TempDir(), "attestd.db"),
			"--ca-file", p.file}, flags...)...)
		cmd.Env = os.Environ()
		if flags == nil {
			cmd.Env = append(cmd.Env, "OTEL_EXPORTER_OTLP_ENDPOINT="+p.URL+"/collector")
		}
		must.OK(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		for end := time.Now().Add(patience); len(p.missing(name)) > 0; time.Sleep(20 * time.Millisecond) {
			if flags == nil { // a request has a span
				if answer, err := http.Get("http://" + address + "/v1/ca/well-known"); err == nil {
					answer.Body.Close()
				}
			}
			if time.Now().After(end) {
				t.Fatalf("the %s was never asked", name)
			}
		}
	}
}

// Commands that connect say what to do about a private CA, and a file without one is refused.
func TestPrivateCAOfCommands(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	p := newPrivateService(t)
	t.Run("refused", func(t *testing.T) {
		for _, args := range [][]string{{"serve", "--db", filepath.Join(t.TempDir(), "a.db")}, {"backup", "list", "--backup-to", "s3://bucket/x"}} {
			if _, err := attestd(t, append(args, "--ca-file", os.Args[0])...); err == nil || !strings.Contains(err.Error(), "--ca-file") {
				t.Errorf("%v: %v", args, err)
			}
		}
	})
	path, err := binary(t)
	must.OK(t, err)
	list := func(flags ...string) string {
		cmd := exec.CommandContext(t.Context(), path, append([]string{"backup", "list", "--backup-to", "s3://bucket/x", "--backup-s3-endpoint", p.URL,
			"--backup-s3-path-style", "--backup-s3-region", "us-east-1"}, flags...)...)
		cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=secret")
		text, err := cmd.CombinedOutput()
		if err == nil {
			t.Errorf("%v works", flags)
		}
		return string(text)
	}
	if out := list(); !strings.Contains(out, "name it with --ca-file or ATTESTD_CA_FILE") || len(p.missing("bucket")) == 0 {
		t.Errorf("without the CA: %s", out)
	}
	if out := list("--ca-file", p.file); strings.Contains(out, "authority") || len(p.missing("bucket")) > 0 {
		t.Errorf("with the CA: %s", out)
	}
}
