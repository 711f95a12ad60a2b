package server_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/server/https"
	"attestd/server/limit"
)

// secure is a service that speaks TLS with a certificate in files.
type secure struct {
	*service
	ca         *testenv.CA // of the server's certificate
	clientCA   *testenv.CA
	cert, key  string // paths
	clientFile string // path of the client CAs
}

func readKey(path string) ([]byte, error) { return os.ReadFile(path) }

// startTLS runs a service that speaks TLS and asks for client certificates.
func startTLS(t testing.TB, change ...func(*server.Config)) *secure {
	t.Helper()
	dir := t.TempDir()
	s := &secure{
		ca: testenv.NewCA(t), clientCA: testenv.NewCA(t),
		cert: filepath.Join(dir, "tls.crt"), key: filepath.Join(dir, "tls.key"), clientFile: filepath.Join(dir, "clients.pem"),
	}
	s.install(t, s.ca)
	must.OK(t, os.WriteFile(s.clientFile, s.clientCA.PEM(), 0o600))
	s.service = start(t, append([]func(*server.Config){func(c *server.Config) {
		files, err := https.OpenFiles(s.cert, s.key, readKey, 5*time.Millisecond, c.Log)
		must.OK(t, err)
		clients, err := https.OpenClientCAs(s.clientFile, os.ReadFile, 5*time.Millisecond, c.Log)
		must.OK(t, err)
		c.TLS = &server.TLS{Certificates: files, ClientCAs: clients}
	}}, change...)...)
	s.url = strings.Replace(s.url, "http://", "https://", 1)
	s.client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: s.ca.Pool()}
	return s
}

// install writes a new certificate and key.
func (s *secure) install(t testing.TB, ca *testenv.CA) {
	t.Helper()
	cert, key := ca.Server(t)
	must.OK(t, os.WriteFile(s.cert, cert, 0o600))
	must.OK(t, os.WriteFile(s.key, key, 0o600))
}

// as is a client of the service that has a certificate, if any. Each has connections of its own.
func (s *secure) as(t testing.TB, h2 bool, certs ...tls.Certificate) *http.Client {
	t.Helper()
	config := &tls.Config{RootCAs: s.ca.Pool()}
	if len(certs) > 0 { // which is sent whatever CAs the server names
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certs[0], nil }
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: h2}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// The API answers over HTTP/2 and HTTP/1.1, with at least TLS 1.2. Browsers are instructed to use
// https from then on, but not for other programs of this machine.
func TestServesTLS(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := startTLS(t)
	acme := s.company(t, "acme")
	acme.agent(t, "bot")
	for proto, h2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		c := acme
		c.service = &service{url: s.url, client: s.as(t, h2), log: s.log}
		c.attestMany(t, 3)
		res, err := c.service.client.Get(s.url + "/v1/health")
		must.OK(t, err)
		res.Body.Close()
		if res.Proto != proto || res.Header.Get("Strict-Transport-Security") != "" {
			t.Errorf("%s, HSTS %q: want %s and none on loopback", res.Proto, res.Header.Get("Strict-Transport-Security"), proto)
		}
		req, err := http.NewRequest("GET", s.url+"/", nil)
		must.OK(t, err)
		req.Host = "attest.example.com"
		res, err = c.service.client.Do(req)
		must.OK(t, err)
		res.Body.Close()
		if got := res.Header.Get("Strict-Transport-Security"); got != "max-age=2592000" {
			t.Errorf("HSTS %q", got)
		}
	}
	// what the service says of itself begins with https
	if got := s.anyone().do(t, "GET /v1/ca/well-known?companyId=acme", "").status(200).raw; !strings.Contains(string(got), `"https://127.0.0.1:`) {
		t.Errorf("discovery without https: %s", got)
	}
	acme.do(t, "GET /v1/company", "", "Origin: "+s.url).status(200)
	acme.do(t, "GET /v1/company", "", "Origin: "+strings.Replace(s.url, "https", "http", 1)).status(403)
	old := &tls.Config{RootCAs: s.ca.Pool(), MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}
	if conn, err := tls.Dial("tcp", strings.TrimPrefix(s.url, "https://"), old); err == nil {
		conn.Close()
		t.Error("TLS 1.1 is spoken")
	}
}

// The stream is a WebSocket over HTTP/1.1 on a port that also serves HTTP/2. Over HTTP/2 it is
// refused, without headers that HTTP/2 forbids.
func TestStreamOverTLS(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := startTLS(t)
	acme := s.company(t, "acme")
	dialer := websocket.Dialer{TLSClientConfig: &tls.Config{RootCAs: s.ca.Pool()}}
	conn, res, err := dialer.Dial(strings.Replace(s.url, "https://", "wss://", 1)+"/v1/ws", http.Header{"Authorization": {"Bearer " + acme.credential}})
	must.OK(t, err)
	defer conn.Close()
	res.Body.Close()
	acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"deploy","payload":{"n":1}}`).status(201)
	_, message, err := conn.ReadMessage()
	must.OK(t, err)
	if !strings.Contains(string(message), "deploy") {
		t.Errorf("the stream has %s", message)
	}
	res, err = s.as(t, true).Get(s.url + "/v1/ws")
	must.OK(t, err)
	res.Body.Close()
	if res.StatusCode != http.StatusUpgradeRequired || res.Header.Get("Upgrade") != "" {
		t.Errorf("over %s: %d, Upgrade %q", res.Proto, res.StatusCode, res.Header.Get("Upgrade"))
	}
}

// Plain HTTP on the port of TLS is a 400. On the listener that redirects, readers are redirected to
// https, and a client that sends a credential or a change learns that it went unencrypted.
func TestPlainHTTP(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	s := startTLS(t, func(c *server.Config) { c.TLS.Redirect, c.TLS.RedirectPort = plain, "8443" })
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	res, err := client.Get(strings.Replace(s.url, "https://", "http://", 1) + "/v1/health")
	must.OK(t, err)
	res.Body.Close()
	if res.StatusCode != 400 {
		t.Errorf("plain HTTP to TLS: %d", res.StatusCode)
	}
	for _, tt := range []struct {
		method, host, path, credential, location string
		status                                   int
	}{
		{"GET", "attest.example.com", "/v1/health?a=b", "", "https://attest.example.com:8443/v1/health?a=b", 308},
		{"HEAD", "attest.example.com:80", "/", "", "https://attest.example.com:8443/", 308},
		{"GET", "[::1]:80", "/", "", "https://[::1]:8443/", 308},
		{"GET", "attest.example.com", "//evil.example/x", "", "https://attest.example.com:8443//evil.example/x", 308},
		{"GET", "a@evil.example", "/", "", "", 403},
		{"GET", "attest.example.com", "/v1/company", "Bearer svc_x", "", 403},
		{"POST", "attest.example.com", "/v1/attest", "", "", 403},
	} {
		req, err := http.NewRequest(tt.method, "http://"+plain.Addr().String()+tt.path, nil)
		must.OK(t, err)
		req.Host = tt.host
		if tt.credential != "" {
			req.Header.Set("Authorization", tt.credential)
		}
		res, err := client.Do(req)
		must.OK(t, err)
		res.Body.Close()
		if res.StatusCode != tt.status || res.Header.Get("Location") != tt.location {
			t.Errorf("%+v: %d %s", tt, res.StatusCode, res.Header.Get("Location"))
		}
	}
}

// While a new certificate is installed, no request fails; new connections get it and open ones go
// on. A pair that does not fit is logged, and the former one stays.
func TestCertificateIsReloadedUnderLoad(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	testenv.Concurrent(t)
	t.Parallel()
	s := startTLS(t)
	acme := s.company(t, "acme")
	next := testenv.NewCA(t)
	pool := s.ca.Pool()
	pool.AddCert(next.Cert)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var requests, failed atomic.Int64
	done := make(chan struct{})
	for i := range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: i%2 == 0, DisableKeepAlives: i < 2}
			defer transport.CloseIdleConnections()
			for ctx.Err() == nil {
				req, _ := http.NewRequest("GET", s.url+"/v1/company", nil)
				req.Header.Set("Authorization", "Bearer "+acme.credential)
				res, err := (&http.Client{Transport: transport}).Do(req)
				if err != nil || res.StatusCode != 200 {
					failed.Add(1)
				}
				if err == nil {
					_, _ = io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
				requests.Add(1)
			}
		}()
	}
	shown := func(want *testenv.CA) bool {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(s.url, "https://"), &tls.Config{RootCAs: want.Pool()})
		if err == nil {
			conn.Close()
		}
		return err == nil
	}
	s.install(t, next)
	for !shown(next) && t.Context().Err() == nil {
	}
	must.OK(t, os.WriteFile(s.key, []byte("no key"), 0o600))
	for s.log.says("was not taken into use") == 0 && t.Context().Err() == nil {
		shown(next)
	}
	if !shown(next) {
		t.Error("a bad pair was taken into use")
	}
	for requests.Load() < 20 && t.Context().Err() == nil { // however busy the machine is
		shown(next)
	}
	stop()
	for range 4 {
		<-done
	}
	if failed.Load() > 0 {
		t.Errorf("%d of %d requests failed", failed.Load(), requests.Load())
	}
}

// A client that does not finish its handshake holds one of the places of its address, and a
// refusal over TLS is a closed connection.
func TestHandshakesHaveSeats(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := startTLS(t, func(c *server.Config) { c.Budgets.Connections = limit.Size{Most: 3, Share: 3} })
	address := strings.TrimPrefix(s.url, "https://")
	var silent []net.Conn
	for range 3 {
		conn, err := net.Dial("tcp", address)
		must.OK(t, err)
		defer conn.Close()
		silent = append(silent, conn)
	}
	conn, err := net.Dial("tcp", address)
	must.OK(t, err)
	defer conn.Close()
	if n, err := conn.Read(make([]byte, 100)); n > 0 || err == nil {
		t.Error("a connection beyond the budget is answered")
	}
	silent[0].Close()
	for {
		res, err := s.as(t, false).Get(s.url + "/v1/health")
		if err == nil {
			res.Body.Close()
			break
		}
	}
}
