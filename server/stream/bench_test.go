package stream

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gorilla/websocket"

	"attestd/chain"
	"attestd/server/limit"
)

// BenchmarkBroadcast is what one message to 1,000 clients costs the monitor, all queues being
// empty.
func BenchmarkBroadcast(b *testing.B) {
	h := NewHub(limit.Size{}, func(bool) {}, slog.New(slog.DiscardHandler))
	clients := make([]*client, 1000)
	for i := range clients {
		clients[i] = newClient(Subscriber{})
		h.clients[clients[i]] = struct{}{}
	}
	e := benchEvent()
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		h.Broadcast(e)
		if i%maxQueued == maxQueued-1 {
			b.StopTimer()
			for _, c := range clients {
				for len(c.queue) > 0 {
					c.bytes.Add(-(<-c.queue).size)
				}
			}
			b.StartTimer()
		}
	}
}

// BenchmarkFanOut is one message to 1,000 sockets, from broadcast to the last reader, as fast as
// all of them read.
func BenchmarkFanOut(b *testing.B) {
	const clients = 1000
	h := NewHub(limit.Size{}, func(bool) {}, slog.New(slog.DiscardHandler))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _ = h.Serve(w, r, Subscriber{}, nil) }))
	defer srv.Close()
	e := benchEvent()
	size := int64(len(appendEvent(nil, &e))) + 4 // a frame's header
	var received atomic.Int64
	arrived := make(chan struct{}, 1)
	var readers sync.WaitGroup
	for range clients {
		conn, _, err := websocket.DefaultDialer.Dial(strings.Replace(srv.URL, "http", "ws", 1), nil)
		if err != nil {
			b.Fatal(err)
		}
		readers.Go(func() {
			defer conn.Close()
			_, _ = io.Copy(counting{&received, arrived}, onlyReader{conn.NetConn()})
		})
	}
	b.ResetTimer()
	for i := range b.N {
		h.Broadcast(e)
		// so that no client falls behind for good
		for i%64 == 63 && received.Load() < int64(i+1)*clients*size {
			<-arrived
		}
	}
	for received.Load() < int64(b.N)*clients*size {
		<-arrived
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)*clients/b.Elapsed().Seconds(), "messages/s")
	h.Close()
	readers.Wait()
}

type onlyReader struct{ net.Conn }

func (r onlyReader) WriteTo(w io.Writer) (n int64, err error) {
	buf := make([]byte, 16<<10)
	for {
		k, err := r.Read(buf)
		n += int64(k)
		_, _ = w.Write(buf[:k])
		if err != nil {
			return n, err
		}
	}
}

type counting struct {
	n       *atomic.Int64
	arrived chan struct{}
}

func (c counting) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	select {
	case c.arrived <- struct{}{}:
	default:
	}
	return len(p), nil
}

func benchEvent() chain.Event {
	return chain.Event{
		Chain: 1,
		Record: chain.Record{
			Timestamp: "2026-01-02T03:04:05.678Z",
			Payload:   []byte(`{"agentId":"agent-1","companyId":"acme","actionType":"deploy","payload":"` + strings.Repeat("x", 200) + `"}`),
		},
		Verdict: chain.Verdict{Valid: true, Length: 1},
	}
}
