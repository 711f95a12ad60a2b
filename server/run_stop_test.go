package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/websocket"

	"attestd/crypto/cred"
	"attestd/internal/must"
	"attestd/internal/testenv"
)

// A stop in the middle of appends answers what was queued, closes the stream with 1001, and what
// was answered is there afterwards.
func TestStopWhileAppending(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	l := acme.listen(t)
	streamed := make(chan error, 1)
	go func() {
		for {
			if _, _, err := l.conn.ReadMessage(); err != nil {
				streamed <- err
				return
			}
		}
	}()

	const clients, before = 8, 100
	acknowledged := make(chan string, 1<<16) // hashes
	enough := make(chan struct{})
	var once sync.Once
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for {
				r := acme.request(t, "POST /v1/attest", `{"agentId":"bot","actionType":"x","payload":1}`)
				res, err := s.client.Do(r)
				if err != nil {
					return // the connection is gone
				}
				body, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if res.StatusCode != http.StatusCreated || err != nil {
					t.Errorf("while stopping: status %d, error %v: %s", res.StatusCode, err, body)
					return
				}
				var record struct{ Hash string }
				must.OK(t, json.Unmarshal(body, &record))
				acknowledged <- record.Hash
				if len(acknowledged) >= before {
					once.Do(func() { close(enough) })
				}
			}
		})
	}
	<-enough
	s.stop()
	wg.Wait()
	close(acknowledged)
	if err := <-streamed; !websocket.IsCloseError(err, websocket.CloseGoingAway) {
		t.Errorf("the stream ended with %v, want 1001", err)
	}

	s = startOn(t, s.path, cred.Domain{})
	acme.service = s
	chain := string(acme.do(t, "GET /v1/chain", "").status(200).raw)
	n := 0
	for hash := range acknowledged {
		if n++; !strings.Contains(chain, hash) {
			t.Errorf("an acknowledged record is missing: %s", hash)
		}
	}
	t.Logf("%d acknowledged", n)
}
