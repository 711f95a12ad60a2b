package test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// What docs/policies/gateways.md shows is typed, and prints what it shows below.
func TestGatewaysPageTyped(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	typePage(t, "../docs/policies/gateways.md", 2)
}

// guarded is a service behind a proxy that asks attestd about each request.
type guarded struct {
	attestd  *service
	company  *client
	url      string // of the proxy
	http     *http.Client
	passport string
}

// guard starts a proxy with the configuration of docs/policies/gateways.md in a language.
func guard(t *testing.T, language string, file func(folder, configuration string, places *strings.Replacer) string, command func(folder, file string) *exec.Cmd) *guarded {
	t.Helper()
	blocks := blocksOf(t, "../docs/policies/gateways.md", language)
	if len(blocks) != 1 {
		t.Fatalf("docs/policies/gateways.md shows %d configurations of %s", len(blocks), language)
	}
	g := &guarded{attestd: serve(t, storetest.New(t), "--rate-limits", "off")}
	g.company = g.attestd.register(t, "acme")
	g.company.call(t, 201, "POST", "/v1/agents/register", `{"agentId":"bot"}`, nil)
	var made struct{ Key, Passport string }
	g.company.call(t, 201, "POST", "/v1/keys", `{"role":"reader"}`, &made)
	g.company.call(t, 201, "POST", "/v1/agents/bot/passport", `{"scopes":["http:GET","http:POST"]}`, &made)
	g.passport = made.Passport
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // an error is seen by its length
		r.Header.Set("Seen-Body", string(body))
		r.Header.Set("Seen-Path", r.RequestURI)
		_ = json.NewEncoder(w).Encode(r.Header)
	}))
	t.Cleanup(behind.Close)
	folder, ca, proxy := t.TempDir(), testenv.NewCA(t), fmt.Sprint("127.0.0.1:", freePort(t))
	_, port, _ := net.SplitHostPort(proxy)
	cert, key := ca.Server(t)
	must.OK(t, os.WriteFile(filepath.Join(folder, "tls.crt"), cert, 0o600))
	must.OK(t, os.WriteFile(filepath.Join(folder, "tls.key"), key, 0o600))
	must.OK(t, os.WriteFile(filepath.Join(folder, "attestd.key"), []byte(`proxy_set_header X-Attestd-Authorization "Bearer `+made.Key+`";`), 0o600))
	places := strings.NewReplacer("api.example.com", "attest.example.com", "127.0.0.1:8080", strings.TrimPrefix(g.attestd.URL, "http://"),
		"127.0.0.1:9000", strings.TrimPrefix(behind.URL, "http://"), "/etc/nginx", folder, "/etc/caddy", folder, "listen 443", "listen "+proxy,
		"$server_name;", "$server_name:"+port+";", "{host}", "{hostport}")
	name := filepath.Join(folder, "configuration")
	must.OK(t, os.WriteFile(name, []byte(file(folder, strings.Replace(blocks[0], "api.example.com {", "attest.example.com:"+port+" {", 1), places)), 0o600))
	startProxy(t, command(folder, name), folder, proxy, "ATTESTD_GATEWAY_KEY="+made.Key)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool(), ServerName: "attest.example.com"}}
	t.Cleanup(transport.CloseIdleConnections)
	g.http, g.url = &http.Client{Transport: transport, Timeout: patience}, "https://"+proxy
	return g
}

// sends sends a request through the proxy, and returns the status and what the service has seen.
func (g *guarded) sends(t *testing.T, method, path, body string, headers ...string) (int, http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, g.url, strings.NewReader(body))
	must.OK(t, err)
	request.URL.Opaque = path
	request.Host = "attest.example.com" + g.url[strings.LastIndexByte(g.url, ':'):]
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		request.Header[name] = append(request.Header[name], value) // as it is spelt
	}
	answer, err := g.http.Do(request)
	must.OK(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must.OK(t, err)
	var seen http.Header
	if answer.StatusCode == http.StatusOK {
		must.OK(t, json.Unmarshal(text, &seen))
		return answer.StatusCode, seen
	}
	return answer.StatusCode, answer.Header
}

// A service behind nginx with the configuration of docs/policies/gateways.md.
func TestNginxAsks(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced, testenv.Program("nginx"))
	t.Parallel()
	checkGuarded(t, guard(t, "nginx", func(_, configuration string, places *strings.Replacer) string {
		user := ""
		if os.Getuid() == 0 { // its workers must reach the folders of this test
			user = "user root root;\n"
		}
		return user + "daemon off;\npid pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n" +
			"client_body_temp_path body;\nproxy_temp_path proxy;\nfastcgi_temp_path f;\nuwsgi_temp_path u;\nscgi_temp_path s;\n" + places.Replace(configuration) + "}\n"
	}, func(folder, file string) *exec.Cmd {
		return exec.Command(testenv.Path(t, "nginx"), "-p", folder, "-c", file, "-e", "stderr")
	}))
}

// A service behind Caddy, too.
func TestCaddyAsks(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced, testenv.Program("caddy"))
	t.Parallel()
	checkGuarded(t, guard(t, "caddy", func(_, configuration string, places *strings.Replacer) string {
		return "{\n  admin off\n  auto_https disable_redirects\n  default_bind 127.0.0.1\n}\n" + places.Replace(configuration)
	}, func(_, file string) *exec.Cmd {
		return exec.Command(testenv.Path(t, "caddy"), "run", "--config", file, "--adapter", "caddyfile")
	}))
}

func checkGuarded(t *testing.T, g *guarded) {
	t.Helper()
	passport := "Service-Passport: " + g.passport
	forged := []string{
		"X-Attestd-Agent: admin", "X-Attestd-Company: umbrella", "X-Attestd-Spiffe-Id: spiffe://x", "X-Attestd-Record: 7", "X-Attestd-Decision: allow", "X-Attestd-Authorization: Bearer x",
		"X_Attestd_Agent: admin", "X-Forwarded-Proto: http", "X-Forwarded-Host: evil.example",
	}
	for _, method := range []string{"GET", "POST"} {
		status, seen := g.sends(t, method, "/v1/reports?page=2", strings.Repeat("x", map[string]int{"GET": 0, "POST": 100_000}[method]), append(forged, passport)...)
		if status != 200 {
			t.Fatalf("%s: %d %v", method, status, seen)
		}
		for name, want := range map[string]string{
			"X-Attestd-Agent": "bot", "X-Attestd-Company": "acme", "X-Attestd-Spiffe-Id": "spiffe://attestd.local/company/acme/agent/bot", "Seen-Path": "/v1/reports?page=2",
		} {
			if got := seen[name]; len(got) != 1 || got[0] != want {
				t.Errorf("%s: the service is told %s: %q, want %q", method, name, got, want)
			}
		}
		if method == "POST" && len(seen.Get("Seen-Body")) != 100_000 {
			t.Errorf("of the body %d bytes arrive", len(seen.Get("Seen-Body")))
		}
		for name, values := range seen {
			if text := strings.Join(values, " "); strings.Contains(text, "admin") || strings.Contains(text, "umbrella") || strings.HasPrefix(name, "X-Attestd-Authorization") || name == "X-Attestd-Record" || name == "X-Attestd-Decision" {
				t.Errorf("%s: the service is told %s: %s", method, name, text)
			}
		}
	}
	for _, a := range []struct {
		name, method, path string
		headers            []string
		status             int
	}{
		{"no credential", "GET", "/v1/reports", forged, 401},
		{"a method without a right", "DELETE", "/v1/reports", []string{passport}, 403},
		{"a method that the client names", "DELETE", "/v1/reports", []string{passport, "X-Original-Method: GET", "X-Forwarded-Method: GET"}, 403},
		{"an escaped slash", "GET", "/v1%2Freports", []string{passport}, 403},
		{"dot segments with parameters", "GET", "/v1/..;/admin", []string{passport}, 403},
	} {
		status, header := g.sends(t, a.method, a.path, "", a.headers...)
		if status != a.status {
			t.Errorf("%s: %d, want %d", a.name, status, a.status)
		}
		if a.status == 401 && header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: no challenge", a.name)
		}
	}
	// a path that the client names beside it does not count
	g.company.call(t, 200, "PUT", "/v1/policies/public", `{"cedar":"permit (principal, action, resource) when { resource.path like \"/public/*\" };"}`, nil)
	for path, want := range map[string]int{"/public/a": 200, "/private": 403, "/public/../private": 403, "/public/%2e%2e/private": 403} {
		if status, _ := g.sends(t, "GET", path, "", passport, "X-Original-URI: /public/a", "X-Forwarded-Uri: /public/a"); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
	// revoked, it ends with the next request; and nothing passes a proxy that cannot ask
	var all struct{ Passports []struct{ JTI string } }
	g.company.call(t, 200, "GET", "/v1/passports?agent=bot", "", &all)
	g.company.call(t, 200, "POST", "/v1/passports/"+all.Passports[0].JTI+"/revoke", `{"reason":"lost"}`, nil)
	if status, _ := g.sends(t, "GET", "/public/a", "", passport); status != 401 {
		t.Errorf("revoked: %d", status)
	}
	must.OK(t, g.attestd.interrupt())
	if status, _ := g.sends(t, "GET", "/public/a", "", passport); status < 500 {
		t.Errorf("without attestd: %d", status)
	}
}

// awaitListener waits until a program listens.
func awaitListener(t *testing.T, address string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatalf("nothing listens: %v", err)
		}
	}
}
