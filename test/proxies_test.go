package test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// public is the address of the pages' configurations.
const public = "https://attest.example.com"

// proxied is a server behind a reverse proxy with a certificate.
type proxied struct {
	*service
	ca    *testenv.CA
	proxy string // where the proxy listens
}

// from returns a caller with an address of its own on loopback, which reaches the proxy by its
// public name, or the server itself.
func (p *proxied) from(t *testing.T, address, url string) *client {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: p.ca.Pool()}, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, to string) (net.Conn, error) {
			if strings.HasPrefix(to, "attest.example.com:") {
				to = p.proxy
			}
			return dialer.DialContext(ctx, network, to)
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &client{http: &http.Client{Transport: transport, Timeout: patience}, url: url}
}

// behind starts a server as docs/operate/tls-and-proxies.md says, and a proxy with that page's
// configuration in a language, its names and ports changed to those of this test.
func behind(t *testing.T, language string, places func(folder, proxy, server, configuration string) string, command func(folder, file string) *exec.Cmd) *proxied {
	t.Helper()
	blocks := blocksOf(t, "../docs/operate/tls-and-proxies.md", language)
	if len(blocks) != 1 {
		t.Fatalf("docs/operate/tls-and-proxies.md shows %d configurations of %s", len(blocks), language)
	}
	p := &proxied{ca: testenv.NewCA(t), proxy: fmt.Sprint("127.0.0.1:", freePort(t))}
	p.service = serve(t, storetest.New(t), "--base-url", public, "--trusted-proxies", "127.0.0.1,::1", "--no-recover-endpoint",
		"--rate-limits", "sensitive=10,attest=5000,standard=100,log=6000,company=10")
	folder := t.TempDir()
	cert, key := p.ca.Server(t)
	must.OK(t, os.WriteFile(filepath.Join(folder, "tls.crt"), cert, 0o600))
	must.OK(t, os.WriteFile(filepath.Join(folder, "tls.key"), key, 0o600))
	file := filepath.Join(folder, "configuration")
	must.OK(t, os.WriteFile(file, []byte(places(folder, p.proxy, strings.TrimPrefix(p.URL, "http://"), blocks[0])), 0o600))
	startProxy(t, command(folder, file), folder, p.proxy)
	return p
}

// startProxy starts a reverse proxy in a folder of its own, and waits until it listens.
func startProxy(t *testing.T, cmd *exec.Cmd, folder, address string, env ...string) {
	t.Helper()
	cmd.Dir, cmd.Env = folder, append(os.Environ(), append(env, "HOME="+folder, "XDG_DATA_HOME="+folder, "XDG_CONFIG_HOME="+folder)...)
	var answer strings.Builder
	cmd.Stdout, cmd.Stderr = &answer, &answer
	must.OK(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the proxy: %s", tail(answer.String(), 4000))
		}
	})
	awaitListener(t, address)
}

// Behind nginx with the configuration of docs/operate/tls-and-proxies.md, everything works as
// without a proxy.
func TestBehindNginx(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced, testenv.Program("nginx"))
	t.Parallel()
	checkProxied(t, behind(t, "nginx", func(folder, proxy, server, configuration string) string {
		configuration = strings.NewReplacer("listen 443", "listen "+proxy, "127.0.0.1:8080", server, "/etc/nginx", folder).Replace(configuration)
		// what Debian's nginx.conf has around a file of conf.d, in the places of this test
		user := ""
		if os.Getuid() == 0 { // its workers must reach the folders of this test
			user = "user root root;\n"
		}
		return user + "daemon off;\npid pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\ngzip on;\ntcp_nopush on;\n" +
			"client_body_temp_path body;\nproxy_temp_path proxy;\nfastcgi_temp_path f;\nuwsgi_temp_path u;\nscgi_temp_path s;\n" + configuration + "}\n"
	}, func(folder, file string) *exec.Cmd {
		return exec.Command(testenv.Path(t, "nginx"), "-p", folder, "-c", file, "-e", "stderr")
	}))
}

// Behind Caddy, too.
func TestBehindCaddy(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced, testenv.Program("caddy"))
	t.Parallel()
	checkProxied(t, behind(t, "caddy", func(folder, proxy, server, configuration string) string {
		_, port, _ := net.SplitHostPort(proxy)
		return "{\n  admin off\n  auto_https disable_redirects\n  default_bind 127.0.0.1\n}\n" + strings.NewReplacer(
			"attest.example.com {", "attest.example.com:"+port+" {", "127.0.0.1:8080", server, "/etc/caddy", folder).Replace(configuration)
	}, func(_, file string) *exec.Cmd {
		return exec.Command(testenv.Path(t, "caddy"), "run", "--config", file, "--adapter", "caddyfile")
	}))
}

func checkProxied(t *testing.T, p *proxied) {
	t.Helper()
	c := p.from(t, "127.0.0.2", public)
	var made struct{ APIKey string }
	c.call(t, 201, "POST", "/v1/companies", `{"companyId":"acme"}`, &made)
	c.key = made.APIKey

	t.Run("stream", func(t *testing.T) { checkProxiedStream(t, c) })
	t.Run("limits", func(t *testing.T) { checkProxiedLimits(t, p) })

	item := `{"agentId":"bot","actionType":"a.b","payload":"` + strings.Repeat("x", 4000) + `"},`
	batch := `[` + strings.TrimSuffix(strings.Repeat(item, 1000), ",") + `]`
	c.call(t, 201, "POST", "/v1/attest/batch", `{"records":`+batch+`}`, nil)
	c.call(t, 413, "POST", "/v1/attest/batch", `{"records":`+batch+strings.Repeat(" ", 1<<20)+`}`, nil)

	if text := c.call(t, 200, "GET", "/o/acme/.well-known/openid-configuration", "", nil); strings.Contains(string(text), "http://") ||
		!strings.Contains(string(text), `"`+public+`/`) {
		t.Errorf("the addresses are not the public ones: %s", text)
	}
	answer := c.ask(t, "GET", "/", nil)
	if h := answer.Header; answer.StatusCode != 200 || answer.Proto != "HTTP/2.0" || h.Get("Content-Security-Policy") == "" ||
		h.Get("Strict-Transport-Security") == "" || !strings.HasPrefix(h.Get("Content-Type"), "text/html") {
		t.Errorf("the console: %s %s, %v", answer.Proto, answer.Status, h)
	}
	for origin, status := range map[string]int{public: 200, "https://elsewhere.example.com": 403, "http://attest.example.com": 403} {
		if answer := c.ask(t, "GET", "/v1/agents", http.Header{"Origin": {origin}}); answer.StatusCode != status {
			t.Errorf("a page of %s: %s", origin, answer.Status)
		}
	}
}

// ask makes one request with headers, and drops the body of the answer.
func (c *client) ask(t *testing.T, method, path string, header http.Header) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, c.url+path, nil)
	must.OK(t, err)
	if header != nil {
		request.Header = header
	}
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key)
	}
	answer, err := c.http.Do(request)
	must.OK(t, err)
	_, err = io.Copy(io.Discard, answer.Body)
	must.OK(t, err)
	answer.Body.Close()
	return answer
}

// checkProxiedStream follows the stream while a record is attested, and reads records as events.
func checkProxiedStream(t *testing.T, c *client) {
	t.Helper()
	transport := c.http.Transport.(*http.Transport)
	dialer := websocket.Dialer{NetDialContext: transport.DialContext, HandshakeTimeout: patience,
		TLSClientConfig: &tls.Config{RootCAs: transport.TLSClientConfig.RootCAs}}
	conn, _, err := dialer.DialContext(t.Context(), strings.Replace(public, "https", "wss", 1)+"/v1/ws", http.Header{"Origin": {public}})
	must.OK(t, err)
	defer conn.Close()
	must.OK(t, conn.SetReadDeadline(time.Now().Add(patience)))
	for n := range 3 {
		c.call(t, 201, "POST", "/v1/attest", fmt.Sprintf(`{"agentId":"bot","actionType":"seen","payload":{"n":%d}}`, n), nil)
		for {
			_, text, err := conn.ReadMessage()
			must.OK(t, err)
			if strings.Contains(string(text), fmt.Sprintf(`{"n":%d}`, n)) {
				break
			}
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), "GET", c.url+"/v1/records?action=seen", nil)
	must.OK(t, err)
	request.Header = http.Header{"Authorization": {"Bearer " + c.key}, "Accept": {"text/event-stream"}}
	answer, err := c.http.Do(request)
	must.OK(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must.OK(t, err)
	if answer.StatusCode != 200 || strings.Count(string(text), "event: record") != 3 {
		t.Errorf("%s: %s", answer.Status, text)
	}
}

// checkProxiedLimits asks without a credential, where the client's address has a limit.
func checkProxiedLimits(t *testing.T, p *proxied) {
	t.Helper()
	const path = "/v1/ca/public-key?companyId=acme"
	left := func(c *client, header http.Header) int {
		n, err := strconv.Atoi(c.ask(t, "GET", path, header).Header.Get("X-RateLimit-Remaining"))
		must.OK(t, err)
		return n
	}
	c, other := p.from(t, "127.0.0.3", public), p.from(t, "127.0.0.4", public)
	first := left(c, nil)
	for n, header := range []http.Header{
		{"X-Forwarded-For": {"198.51.100.7"}},
		{"X-Forwarded-For": {"198.51.100.8, 127.0.0.1"}},
		{"X-Forwarded-For": {"198.51.100.9", "::1"}},
		{"Forwarded": {"for=198.51.100.10"}, "X-Real-Ip": {"198.51.100.11"}, "X-Forwarded-For": {"not an address"}},
		{"Forwarded": {"for=198.51.100.12"}, "X-Forwarded-Host": {"elsewhere.example.com"}},
	} {
		if got := left(c, header); got != first-n-1 {
			t.Errorf("%v: %d requests are left, not %d", header, got, first-n-1)
		}
	}
	if got := left(other, http.Header{"X-Forwarded-For": {"127.0.0.3"}}); got != first {
		t.Errorf("a client that names another one's address: %d requests are left, not %d", got, first)
	}
	// who reaches the server past the proxy is no proxy
	direct := p.from(t, "127.0.0.5", p.URL)
	if got := left(direct, http.Header{"X-Forwarded-For": {"127.0.0.3"}}); got != first {
		t.Errorf("past the proxy: %d requests are left, not %d", got, first)
	}
	if got := left(c, nil); got != first-6 {
		t.Errorf("%d requests are left, not %d: others' were counted", got, first-6)
	}
}
