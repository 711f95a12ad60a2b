package stream

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"attestd/server/internal/pipes"
	"attestd/server/limit"
)

// streamed runs a test in a bubble, where time stops while any goroutine has work, with a hub
// behind pipes, where nothing is written before it is read.
func streamed(t *testing.T, test func(t *testing.T, h *Hub, join func(query ...string) *websocket.Conn)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := NewHub(limit.Size{}, func(bool) {}, slog.New(slog.DiscardHandler))
		ln := pipes.New()
		srv := &http.Server{Handler: streamHandler(h)}
		go func() { _ = srv.Serve(ln) }()
		dialer := websocket.Dialer{NetDialContext: ln.Dial}
		test(t, h, func(query ...string) *websocket.Conn {
			conn, _, err := dialer.Dial("ws://attestd/v1/ws?"+strings.Join(query, "&"), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			return conn
		})
		h.Close()
		_ = srv.Close()
	})
}

// clientCount is the number of those that are still sent records.
func (h *Hub) clientCount() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.clients)
}

func TestSilentClientIsDisconnected(t *testing.T) {
	streamed(t, func(t *testing.T, h *Hub, join func(query ...string) *websocket.Conn) {
		conn := join()
		joined := time.Now()
		_, _ = io.Copy(io.Discard, conn.NetConn()) // reads the ping, answers nothing
		if after := time.Since(joined); after != 2*pingEvery {
			t.Errorf("cut after %v, want two pings (%v)", after, 2*pingEvery)
		}
		synctest.Wait()
		if h.clientCount() != 0 {
			t.Error("the hub still knows the client")
		}
	})
}

func TestAnsweringClientStays(t *testing.T) {
	streamed(t, func(t *testing.T, h *Hub, join func(query ...string) *websocket.Conn) {
		conn := join()
		time.AfterFunc(24*time.Hour, func() { h.Broadcast(event(1, 3, 0)) })
		_, m, err := conn.ReadMessage() // answers pings meanwhile
		if err != nil {
			t.Fatal(err)
		}
		e := event(1, 3, 0)
		if string(m) != string(appendEvent(nil, &e)) {
			t.Errorf("got %s", m)
		}
	})
}

// A client may be as far behind as its queue is long, and no further; then it gets an error.
func TestClientQueueIsBounded(t *testing.T) {
	streamed(t, func(t *testing.T, h *Hub, join func(query ...string) *websocket.Conn) {
		conn := join()
		for i := range int64(maxQueued + 1) { // one is being written
			h.Broadcast(event(1, i, 0))
			synctest.Wait()
		}
		if h.clientCount() != 1 {
			t.Fatal("dropped too early")
		}
		h.Broadcast(event(1, maxQueued+1, 0))
		if h.clientCount() != 0 {
			t.Fatal("not dropped")
		}
		if i := next(t, conn); i != 0 {
			t.Errorf("record %d came first", i)
		}
		_, err := read(conn)
		wantClose(t, err, websocket.CloseTryAgainLater)
	})
}

// Large messages are bounded by what they hold, though one alone may be of any size.
func TestQueueIsBoundedInBytes(t *testing.T) {
	streamed(t, func(t *testing.T, h *Hub, join func(query ...string) *websocket.Conn) {
		join()
		h.Broadcast(event(1, 0, maxQueuedBytes))
		synctest.Wait()
		h.Broadcast(event(1, 1, maxQueuedBytes))
		if h.clientCount() != 1 {
			t.Fatal("a message was refused because it is large")
		}
		h.Broadcast(event(1, 2, 0))
		if h.clientCount() != 0 {
			t.Error("not dropped")
		}
	})
}

func TestStuckWriteIsDisconnected(t *testing.T) {
	streamed(t, func(t *testing.T, h *Hub, join func(query ...string) *websocket.Conn) {
		join()
		h.Broadcast(event(1, 0, 0))
		time.Sleep(writeWait - 1)
		synctest.Wait()
		if h.clientCount() != 1 {
			t.Fatal("cut too early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if h.clientCount() != 0 {
			t.Error("still there")
		}
	})
}

// The answer to a ping must not shorten the time that a write under way has.
func TestPingLeavesWriteAlone(t *testing.T) {
	streamed(t, func(t *testing.T, h *Hub, join func(query ...string) *websocket.Conn) {
		conn := join()
		h.Broadcast(event(1, 0, 0)) // is written alone, and waited with
		synctest.Wait()
		for i := range int64(2) { // are written together, and are more than one read returns
			h.Broadcast(event(1, 1+i, 6000))
		}
		if i := next(t, conn); i != 0 {
			t.Fatalf("record %d came first", i)
		}
		synctest.Wait()
		if err := conn.WriteControl(websocket.PingMessage, nil, time.Time{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(writeWait - 1)
		for want := int64(1); want < 3; want++ {
			if i := next(t, conn); i != want {
				t.Errorf("record %d, want %d", i, want)
			}
		}
	})
}

// Whatever clients do or do not do, a shutdown waits for them no longer than closeGrace.
func TestShutdownDoesNotWaitForClients(t *testing.T) {
	streamed(t, func(t *testing.T, h *Hub, join func(query ...string) *websocket.Conn) {
		join() // never reads
		join()
		h.Broadcast(event(1, 0, 0))
		begun := time.Now()
		h.Close()
		if took := time.Since(begun); took != closeGrace {
			t.Errorf("took %v, want %v", took, closeGrace)
		}
	})
}
