package test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"attestd/internal/must"
)

// From SIGTERM on a server with --drain-delay tells load balancers that it is stopping, and still
// serves every request. A second signal ends it at once.
func TestServesWhileDraining(t *testing.T) {
	t.Parallel()
	s := serve(t, filepath.Join(t.TempDir(), "attestd.db"), "--drain-delay", "10m")
	c := s.register(t, "acme")
	c.call(t, 200, "GET", "/readyz", "", nil)
	must.OK(t, s.signal())
	deadline := time.Now().Add(30 * time.Second)
	for {
		code, answer, err := c.send("GET", "/readyz", "")
		must.OK(t, err)
		if code == 503 && strings.Contains(string(answer), `"code":"STOPPING"`) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after the signal: %d %s", code, answer)
		}
	}
	c.call(t, 201, "POST", "/v1/attest", `{"agentId":"bot","actionType":"x","payload":1}`, nil)
	c.call(t, 200, "GET", "/v1/health", "", nil)
	must.OK(t, s.signal())
	if err := s.wait(); err == nil {
		t.Error("the second signal ended it as if it were a clean stop")
	}
}
