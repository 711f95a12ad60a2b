//go:build unix

package mcptest

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// Client, proxy or server is killed at any moment of a flood of calls over HTTP, in either way to
// fail. No call that the server has received is unrecorded, none is recorded twice, and none has
// two outcomes.
func TestHTTPKilledAtAnyPoint(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	t.Parallel()
	s := serve(t)
	state := filepath.Join(t.TempDir(), "state")
	var asked atomic.Int64
	var seen []byte
	rounds := 6
	if testenv.Long() {
		rounds = 51
	}
	for n := range rounds {
		log := logFile(t)
		server := httpTools(t, log, true)
		proxy := s.listening("127.0.0.1:0", state, server.addr, "--fail", []string{"open", "closed"}[n/3%2])
		transport := &http.Transport{MaxIdleConnsPerHost: 16}
		client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
		ctx, breakOff := context.WithCancel(t.Context())
		last, answered, killed := rand.Int64N(150), atomic.Int64{}, make(chan struct{})
		kill := sync.OnceFunc(func() {
			switch n % 3 {
			case 0:
				proxy.kill()
			case 1:
				server.kill()
			case 2:
				breakOff() // as when its process ends
			}
			close(killed)
		})
		var calling sync.WaitGroup
		for range 16 {
			calling.Go(func() {
				for {
					select {
					case <-killed:
						return
					default:
					}
					id := asked.Add(1)
					body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"call %d."}}}`, id, id)
					req, err := http.NewRequestWithContext(ctx, http.MethodPost, proxy.addr, strings.NewReader(body))
					if err != nil {
						t.Error(err)
						return
					}
					req.Header = http.Header{"Content-Type": {"application/json"},
						"Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {"2025-11-25"}}
					resp, err := client.Do(req)
					if err != nil {
						kill() // unless that is why
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					if answered.Add(1) >= last {
						kill()
					}
				}
			})
		}
		calling.Wait()
		breakOff()
		transport.CloseIdleConnections()
		if n%3 != 0 {
			must.OK(t, proxy.Process.Signal(os.Interrupt))
			must.OK(t, proxy.Wait())
		}
		server.kill()
		seen = append(seen, received(t, log)...)
	}
	// the next start sends what is left
	after := s.listening("127.0.0.1:0", state, "http://127.0.0.1:1/mcp")
	must.OK(t, after.Process.Signal(os.Interrupt))
	must.OK(t, after.Wait())
	times, outcomes := map[string]int{}, map[string]int{}
	for _, c := range s.verified() {
		if c.Action == "tool.requested" {
			times[c.Input.Text]++
		} else {
			outcomes[c.SessionID+" "+c.CallID]++
		}
	}
	calls := regexp.MustCompile(`call \d+\.`).FindAllString(string(seen), -1)
	for _, call := range calls {
		if times[call] != 1 {
			t.Errorf("%s is recorded %d times", call, times[call])
		}
	}
	for call, n := range outcomes {
		if n != 1 {
			t.Errorf("%s has %d outcomes", call, n)
		}
	}
	if len(calls) == 0 {
		t.Error("the server has received no call")
	}
	t.Logf("%d calls, %d at the server, %d recorded, %d with an outcome", asked.Load(), len(calls), len(times), len(outcomes))
}
