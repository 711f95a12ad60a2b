package server_test

import (
	"os"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/store/storetest"
)

// A server whose disk has less room than --disk-floor is not ready, and goes on writing.
func TestNotReadyBelowTheDiskFloor(t *testing.T) {
	storetest.AboutFile(t)
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t, func(c *server.Config) { c.DiskFloor = 1 << 60 })
	s.anyone().do(t, "GET /readyz", "").gets(503, `{"error":"…","code":"DISK_LOW","requestId":"…"}`)
	s.company(t, "acme").attestMany(t, 1)
}

// What /readyz says to anybody names no company, agent, file or folder, whatever is wrong.
func TestReadinessHasNoIdentities(t *testing.T) {
	storetest.AboutFile(t)
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme-of-secrets")
	acme.agent(t, "bot-of-secrets")
	second := storetest.Heads(s.path)
	must.OK(t, os.Remove(second))
	must.OK(t, os.Mkdir(second, 0o700))
	acme.attestMany(t, 1)
	var texts []string
	eventually(t, "the head file is behind", func() bool {
		r := s.anyone().do(t, "GET /readyz", "").status(200)
		texts = append(texts, string(r.raw))
		return r.str("status") == "degraded"
	})
	must.OK(t, os.Rename(s.path, s.path+".moved"))
	texts = append(texts, string(s.anyone().do(t, "GET /readyz", "").status(503).raw))
	must.OK(t, os.Rename(s.path+".moved", s.path))
	for _, text := range texts {
		if strings.Contains(text, "of-secrets") || strings.Contains(text, "attestd.db") || strings.ContainsAny(text, `/\\`) {
			t.Errorf("said: %s", text)
		}
	}
}
