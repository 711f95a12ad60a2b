package test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// A server that is killed under load at any moment is never behind its own head file, because the
// file is written after the commit. A copy from before the load in place of the database is
// detected each time.
func TestHeadFileIsCurrentAfterKill(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	storetest.AboutFile(t)
	t.Parallel()
	rounds := testenv.Rounds(4, 20)
	chance := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	db := filepath.Join(t.TempDir(), "attestd.db")
	s := serve(t, db, "--rate-limits", "off")
	callers := make([]*client, 4)
	for i := range callers {
		callers[i] = s.register(t, fmt.Sprintf("company-%d", i))
	}
	for round := range rounds {
		before := filepath.Join(t.TempDir(), "before.db")
		_, err := attestd(t, "backup", before, "--db", db)
		must.OK(t, err)
		var left atomic.Int64
		left.Store(int64(len(callers)) + chance.Int64N(200)) // answers before the kill
		var group sync.WaitGroup
		for _, c := range callers {
			for range 4 {
				group.Go(func() {
					for {
						status, _, err := c.at(s).send("POST", "/v1/attest", `{"agentId":"bot","actionType":"count","payload":1}`)
						if err != nil {
							return // it is dead
						}
						if status != 201 {
							t.Errorf("round %d: an append is %d", round, status)
							return
						}
						if left.Add(-1) == 0 {
							_ = s.kill()
						}
					}
				})
			}
		}
		group.Wait()
		if round%5 == 4 {
			refusesBefore(t, db, before)
		}
		s = serve(t, db, "--rate-limits", "off")
		if strings.Contains(s.Start, "behind the head file") {
			t.Fatalf("round %d: %s", round, s.Start)
		}
		callers[0].at(s).call(t, 200, "GET", "/readyz", "", nil)
	}
	must.OK(t, s.interrupt())
}

// refusesBefore serves a copy from before with the head file of a database, which must write
// nothing.
func refusesBefore(t *testing.T, db, before string) {
	t.Helper()
	heads := before + ".heads"
	in, err := os.Open(db + ".heads")
	must.OK(t, err)
	defer in.Close()
	out, err := os.OpenFile(heads, os.O_CREATE|os.O_WRONLY, 0o600)
	must.OK(t, err)
	_, err = io.Copy(out, in)
	must.OK(t, err)
	must.OK(t, out.Close())
	s := serve(t, before)
	if !strings.Contains(s.Start, "behind the head file") {
		t.Errorf("a copy from before the load is served: %s", s.Start)
	}
	s.client(t, "").call(t, 503, "GET", "/readyz", "", nil)
	must.OK(t, s.interrupt())
}
