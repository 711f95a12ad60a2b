package test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// pebbleCA is Let's Encrypt's CA for tests, with a DNS server for which every name is this machine.
type pebbleCA struct {
	directory string // URL
	ca        *testenv.CA
	client    *http.Client
	root      *x509.CertPool // of the certificates that it issues
}

// startPebble starts the CA, which connects to these ports for its challenges.
func startPebble(t *testing.T, tlsPort, httpPort int) *pebbleCA {
	t.Helper()
	bin := pebblePrograms(t)
	dir, ca := t.TempDir(), testenv.NewCA(t)
	cert, key := ca.Server(t)
	must.OK(t, os.WriteFile(filepath.Join(dir, "cert.pem"), cert, 0o600))
	must.OK(t, os.WriteFile(filepath.Join(dir, "key.pem"), key, 0o600))
	must.OK(t, os.WriteFile(filepath.Join(dir, "ca.pem"), ca.PEM(), 0o600))
	listen, management, dns := freePort(t), freePort(t), freePort(t)
	config, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": fmt.Sprint("127.0.0.1:", listen), "managementListenAddress": fmt.Sprint("127.0.0.1:", management),
		"certificate": filepath.Join(dir, "cert.pem"), "privateKey": filepath.Join(dir, "key.pem"),
		"httpPort": httpPort, "tlsPort": tlsPort, "keyAlgorithm": "ecdsa", "retryAfter": map[string]int{"authz": 1, "order": 1},
	}})
	must.OK(t, err)
	must.OK(t, os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600))
	run := func(name string, args ...string) {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1")
		must.OK(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	run("pebble-challtestsrv", "-dnsserver", fmt.Sprint("127.0.0.1:", dns), "-defaultIPv6", "", "-doh", "",
		"-http01", "", "-https01", "", "-tlsalpn01", "", "-management", "")
	run("pebble", "-config", filepath.Join(dir, "config.json"), "-dnsserver", fmt.Sprint("127.0.0.1:", dns))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool()}}
	t.Cleanup(transport.CloseIdleConnections)
	p := &pebbleCA{directory: fmt.Sprint("https://127.0.0.1:", listen, "/dir"), ca: ca, client: &http.Client{Transport: transport, Timeout: patience}, root: x509.NewCertPool()}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for ctx.Err() == nil {
		res, err := p.client.Get(fmt.Sprint("https://127.0.0.1:", management, "/roots/0"))
		if err != nil {
			continue
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		must.OK(t, err)
		if !p.root.AppendCertsFromPEM(text) {
			t.Fatalf("no root: %s", text)
		}
		return p
	}
	t.Fatal("the CA does not answer")
	return nil
}

// pebblePrograms builds the CA in its module, once.
func pebblePrograms(t *testing.T) string {
	t.Helper()
	out, err := builtPebble()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(scratch, "pebble")
}

var builtPebble = sync.OnceValues(func() ([]byte, error) {
	const programs = "github.com/letsencrypt/pebble/v2/cmd/"
	build := exec.Command("go", "build", "-o", filepath.Join(scratch, "pebble")+"/", programs+"pebble", programs+"pebble-challtestsrv")
	build.Dir = "../internal/tools/acme"
	return build.CombinedOutput()
})

// freePort returns a port on which nothing listens.
func freePort(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}

// The server gets its certificate from an ACME CA, by a challenge in a handshake or, where only the
// listener that redirects is reached, by HTTP; it serves it, and has it after a restart without the
// CA. Other names get none.
func TestCertificateFromACME(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.Slow)
	t.Parallel()
	program, err := binary(t)
	must.OK(t, err)
	for _, challenge := range []string{"TLS-ALPN-01", "HTTP-01"} {
		t.Run(challenge, func(t *testing.T) {
			t.Parallel()
			port, plain := freePort(t), freePort(t)
			tlsPort := port
			if challenge == "HTTP-01" {
				tlsPort = freePort(t) // without a listener
			}
			ca, dir := startPebble(t, tlsPort, plain), t.TempDir()
			must.OK(t, os.WriteFile(filepath.Join(dir, "ca.pem"), ca.ca.PEM(), 0o600))
			start := func(directory string) (stop func() string) {
				args := []string{"serve", "--db", "attestd.db", "--listen", fmt.Sprint("127.0.0.1:", port),
					"--acme-domain", "Attest.Example.com", "--acme-directory", directory, "--acme-ca", "ca.pem"}
				if challenge == "HTTP-01" {
					args = append(args, "--http-redirect", fmt.Sprint("127.0.0.1:", plain))
				}
				var log bytes.Buffer
				cmd := exec.Command(program, args...)
				cmd.Dir, cmd.Stderr = dir, &log
				must.OK(t, cmd.Start())
				var once sync.Once
				stop = func() string {
					once.Do(func() {
						_ = cmd.Process.Signal(os.Interrupt)
						_ = cmd.Wait()
					})
					return log.String()
				}
				t.Cleanup(func() { stop() })
				return stop
			}
			handshake := func(name string) error {
				conn, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", fmt.Sprint("127.0.0.1:", port),
					&tls.Config{ServerName: name, RootCAs: ca.root})
				if err == nil {
					conn.Close()
				}
				return err
			}
			await := func(stop func() string) {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				for ctx.Err() == nil {
					if handshake("attest.example.com") == nil {
						return
					}
					select { // a handshake fails at once while there is no certificate
					case <-time.After(50 * time.Millisecond):
					case <-ctx.Done():
					}
				}
				t.Fatalf("no certificate: %v\n%s", handshake("attest.example.com"), stop())
			}
			stop := start(ca.directory)
			await(stop)
			if handshake("other.example.com") == nil {
				t.Error("a name that nobody has asked for has a certificate")
			}
			log := stop()
			if !strings.Contains(log, fmt.Sprintf("listens on https://attest.example.com:%d ", port)) || strings.Contains(log, "PRIVATE") {
				t.Errorf("the log: %s", log)
			}
			info, err := os.Stat(filepath.Join(dir, "attestd.db.acme"))
			must.OK(t, err)
			if info.Mode().Perm() != 0o700 {
				t.Errorf("the folder with keys has mode %o", info.Mode().Perm())
			}
			await(start("https://127.0.0.1:1/dir"))
		})
	}
}
