package mcptest

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// The server suite of @modelcontextprotocol/conformance has the same results with the SDK's server
// directly and through the proxy, and each call that the server receives is recorded.
func TestHTTPConformance(t *testing.T) {
	t.Parallel()
	node := testenv.Path(t, "node")
	suite := filepath.Join("testdata", "node_modules", "conformance-server", "dist", "index.js")
	if _, err := os.Stat(suite); err != nil {
		testenv.Missing(t, "there is no conformance suite: npm ci --prefix test/mcp/testdata")
	}
	suite, err := filepath.Abs(suite)
	must.OK(t, err)
	everything := filepath.Join(t.TempDir(), "everything-server")
	build := exec.Command("go", "build", "-o", everything, "github.com/modelcontextprotocol/go-sdk/conformance/everything-server")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	port := freePort(t)
	startProgram(t, exec.Command(everything, "-http", "127.0.0.1:"+port, "-stateless=false"), "listening", testLog{t})
	var calls atomic.Int64
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "127.0.0.1:" + port})
	forward.FlushInterval = -1
	counting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		calls.Add(int64(bytes.Count(body, []byte(`"method":"tools/call"`))))
		r.Body = io.NopCloser(bytes.NewReader(body))
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(counting.Close)
	run := func(address string) string {
		t.Helper()
		cmd := exec.Command(node, suite, "server", "--suite", "all", "--url", address)
		cmd.Dir = t.TempDir()
		out, err := cmd.CombinedOutput()
		_, summary, ok := strings.Cut(string(out), "=== SUMMARY ===")
		if err != nil || !ok {
			t.Fatalf("%v\n%.3000s", err, out)
		}
		return summary
	}
	direct := run("http://127.0.0.1:" + port + "/mcp")
	s := serve(t)
	proxy := s.listening("127.0.0.1:0", filepath.Join(t.TempDir(), "state"), counting.URL+"/mcp")
	if through := run(proxy.addr); through != direct {
		t.Errorf("through the proxy:\n%s\ndirectly:\n%s", through, direct)
	}
	must.OK(t, proxy.Process.Signal(os.Interrupt))
	must.OK(t, proxy.Wait())
	n := counts(s.verified())
	if asked := int(calls.Load()); asked == 0 || n["requested"] != asked || n["completed"]+n["failed"] != asked {
		t.Errorf("%d calls made %v", asked, n)
	}
	t.Log(strings.TrimSpace(direct[strings.LastIndex(direct, "Total"):]))
}
