package test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/store/storetest"
)

// From the first write that a full disk refuses, the server is not ready on every request, although
// a small page would still fit. When there is space it is ready again without a caller's write, and
// its log reports each change once.
func TestNotReadyOnAFullDisk(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	disk := smallDisk(t)
	s := serve(t, filepath.Join(disk, "attestd.db"), "--rate-limits", "off")
	c := s.register(t, "acme")
	c.call(t, 201, "POST", "/v1/agents/register", `{"agentId":"bot"}`, nil)
	known := appendUntil(t, c, nil, 201, 5)
	pace := time.NewTicker(100 * time.Millisecond)
	defer pace.Stop()
	for range 2 {
		c.call(t, 200, "GET", "/readyz", "", nil)
		fillUp(t, disk)
		known = appendUntil(t, c, known, 503, 1)
		for range 15 { // beyond one probe
			<-pace.C
			if answer := c.call(t, 503, "GET", "/readyz", "", nil); !strings.Contains(string(answer), `"code":"NOT_DONE"`) {
				t.Fatalf("/readyz: %s", answer)
			}
		}
		hasAll(t, c, known)
		makeRoom(t, disk)
		for deadline := time.Now().Add(30 * time.Second); ; {
			<-pace.C
			code, answer, err := c.send("GET", "/readyz", "")
			must.OK(t, err)
			if code == 200 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("with room on the disk: %d %s", code, answer)
			}
		}
		known = appendUntil(t, c, known, 201, 5)
	}
	hasAll(t, c, known)
	must.OK(t, s.interrupt())
	log := s.log.String()
	if strings.Count(log, "the database cannot be written; not ready until it can") != 2 || strings.Count(log, "the database can be written again") != 2 {
		t.Errorf("the log says: %s", tail(log, 4000))
	}
}
