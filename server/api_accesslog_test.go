package server_test

import (
	"strings"
	"testing"

	"attestd/internal/testenv"
	"attestd/server"
	"attestd/server/httpapi"
	"attestd/server/limit"
)

// The line of a request has its route's pattern, never its path, query, credential or body, and the
// size of the response. What has no line by --access-log has none, but failures always have.
func TestAccessLog(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	for _, tt := range []struct {
		mode          httpapi.AccessLog
		done, refused int // of 30 requests each
		failed        int // of one
	}{
		{httpapi.AccessAll, 30, 30, 1},
		{httpapi.AccessErrors, 0, 30, 1},
		{httpapi.AccessOff, 0, 0, 1},
	} {
		s := start(t, func(c *server.Config) { c.AccessLog = tt.mode })
		acme := s.company(t, "acme")
		for range 30 {
			acme.do(t, "GET /v1/company?secret=hunter2hunter2", "").status(200)
			s.anyone().do(t, "GET /v1/agents/who-is-this", "").status(401)
		}
		s.file(t, `ALTER TABLE agent RENAME TO lost`)
		acme.do(t, "GET /v1/agents/bot", "").status(500)
		s.stop()
		count := map[float64]int{}
		for _, line := range s.log.lines(t) {
			status, _ := line["status"].(float64)
			route, _ := line["route"].(string)
			if line["msg"] != "request" || route == "/v1/companies" {
				continue
			}
			count[status]++
			if size, ok := line["bytes"].(float64); !ok || size < 10 || strings.ContainsAny(route, "?") || line["id"] == nil || line["duration"] == nil {
				t.Errorf("a line of a request: %v", line)
			}
		}
		if count[200] != tt.done || count[401] != tt.refused || count[500] != tt.failed {
			t.Errorf("mode %d: %v lines", tt.mode, count)
		}
		for _, secret := range []string{"hunter2", "who-is-this", acme.credential} {
			if s.log.says(secret) > 0 {
				t.Errorf("mode %d: the log has %q", tt.mode, secret)
			}
		}
	}
}

// Who is refused for what he holds himself is no failure of the server: he could fill its log, and
// wake its operator.
func TestRefusedShareIsNoFailure(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t, func(c *server.Config) {
		c.AccessLog, c.MaxBody = httpapi.AccessOff, 32<<10
		c.Budgets.Bodies = limit.Bodies(256<<10, c.MaxBody) // 64 KiB for each
	})
	acme := s.company(t, "acme")
	const attest = "POST /v1/attest"
	slow := []underway{acme.begin(t, attest, attestation(30<<10)), acme.begin(t, attest, attestation(30<<10))}
	for range 30 {
		acme.do(t, attest, attestation(8<<10)).status(503)
	}
	for _, u := range slow {
		u.finish().status(201)
	}
	s.stop()
	for _, line := range s.log.lines(t) {
		if line["level"] == "ERROR" || line["status"] == 503.0 {
			t.Errorf("the log has %v", line)
		}
	}
}
