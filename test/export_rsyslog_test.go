package test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// certificateFiles writes a certificate for 127.0.0.1 and its key.
func certificateFiles(t *testing.T, folder string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	of := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	made, err := x509.CreateCertificate(rand.Reader, of, of, private.Public(), private)
	must.OK(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	must.OK(t, err)
	cert, key = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	must.OK(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made}), 0o600))
	must.OK(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600))
	return cert, key
}

// rsyslog takes what a server exports over TLS, also records of a megabyte, and loses nothing when
// it is restarted. What it has stored holds.
func TestExportToRsyslog(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain, testenv.NotRaced, testenv.Program("rsyslogd"))
	t.Parallel()
	folder := t.TempDir()
	cert, _ := certificateFiles(t, folder)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	address := free.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	must.OK(t, free.Close())
	configuration := filepath.Join(folder, "rsyslog.conf")
	blocks := blocksOf(t, "../docs/operate/exports.md", "rsyslog")
	if len(blocks) != 1 {
		t.Fatalf("docs/operate/exports.md shows %d configurations of rsyslog", len(blocks))
	}
	// as it is there, with the paths of this test
	text := strings.NewReplacer("/var/spool/rsyslog", folder, "/etc/rsyslog/ca.pem", cert, "/etc/rsyslog", folder,
		"/var/log", folder, `port="6514"`, `address="127.0.0.1" port="`+port+`"`).Replace(blocks[0])
	must.OK(t, os.WriteFile(configuration, []byte(text), 0o600))
	start := func() *exec.Cmd {
		cmd := exec.Command("rsyslogd", "-n", "-f", configuration, "-i", filepath.Join(folder, "pid"))
		var answer strings.Builder
		cmd.Stderr = &answer
		must.OK(t, cmd.Start())
		t.Cleanup(func() {
			if cmd.ProcessState == nil {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}
			if t.Failed() {
				t.Logf("rsyslogd: %s", answer.String())
			}
		})
		return cmd
	}
	receiver := start()
	s := serve(t, storetest.New(t), "--export-to", "syslog", "--export-address", address, "--export-ca-file", cert)
	c := s.register(t, "acme")
	var published struct{ Fingerprint string }
	c.call(t, 200, "GET", "/v1/ca/public-key?companyId=acme", "", &published)
	records := int64(0)
	for i, payload := range []string{"{\"a\":\t\"\x7f é \u2028\"}", `{"a":"` + strings.Repeat("y", 1_000_000) + `"}`, `{}`} {
		for range 3 {
			c.call(t, 201, "POST", "/v1/attest", `{"agentId":"bot","actionType":"a.b","payload":`+payload+`}`, nil)
			records++
		}
		if i == 1 {
			must.OK(t, receiver.Process.Signal(syscall.SIGTERM))
			_ = receiver.Wait()
			receiver = start()
		}
	}
	stored := filepath.Join(folder, "attestd.ndjson")
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		r := command(t, "check", "--lines", "--json", "--key", published.Fingerprint, stored)
		if r.status == 0 && nextOf(t, r.stdout) == records {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("not exported: %s", r.all)
		}
	}
	must.OK(t, s.interrupt())
	must.OK(t, receiver.Process.Signal(syscall.SIGTERM))
	_ = receiver.Wait()
	exportedLines(t, published.Fingerprint, records, stored)
}
