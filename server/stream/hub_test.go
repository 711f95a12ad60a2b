package stream

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"attestd/chain"
	"attestd/server/limit"
)

// subscriber reads from the query who a client of a test is: ?chain=1 is a company with a
// credential.
func subscriber(r *http.Request) Subscriber {
	s := Subscriber{Credential: r.FormValue("credential")}
	s.Chain, _ = strconv.ParseInt(r.FormValue("chain"), 10, 64)
	s.Holder = limit.Holder{Company: s.Chain, Known: s.Chain != 0}
	s.Holder.Address, _ = netip.ParseAddr(r.FormValue("address"))
	if d, err := time.ParseDuration(r.FormValue("expires")); err == nil {
		s.Expires = time.Now().Add(d).Round(0) // from a database it has no monotonic clock either
	}
	return s
}

// streamHandler serves a hub.
func streamHandler(h *Hub) http.Handler { return streamHandlerOf(h, subscriber) }

func streamHandlerOf(h *Hub, who func(*http.Request) Subscriber) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := h.Serve(w, r, who(r), http.Header{"X-Request-Id": {"a"}})
		if refused := (*Refusal)(nil); errors.As(err, &refused) {
			maps.Copy(w.Header(), refused.Header)
			w.WriteHeader(refused.Status)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": refused.Message})
		} else if err != nil {
			panic(err)
		}
	})
}

// startHub runs a hub behind a listener on loopback, and returns its address.
func startHub(t *testing.T, listen func(bool)) (h *Hub, url string) {
	t.Helper()
	return startHubOf(t, listen, subscriber)
}

func startHubOf(t *testing.T, listen func(bool), who func(*http.Request) Subscriber) (h *Hub, url string) {
	t.Helper()
	h = NewHub(limit.Size{Most: 8, Share: 3, Reserved: 2}, listen, slog.New(slog.DiscardHandler))
	srv := httptest.NewServer(streamHandlerOf(h, who))
	t.Cleanup(func() {
		h.Close()
		srv.Close()
	})
	return h, "ws" + strings.TrimPrefix(srv.URL, "http")
}

func join(t *testing.T, url string) *websocket.Conn {
	t.Helper()
	conn, _, err := websocket.DefaultDialer.DialContext(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// event is record i of a chain, with a payload of about size bytes.
func event(chainID, i int64, size int) chain.Event {
	return chain.Event{
		Chain:   chainID,
		Record:  chain.Record{Index: i, Timestamp: "2026-01-02T03:04:05.678Z", Payload: []byte(`"` + strings.Repeat("x", size) + `"`)},
		Verdict: chain.Verdict{Valid: true, Length: i + 1},
	}
}

// next reads a message and returns the index of its record.
func next(t *testing.T, conn *websocket.Conn) int64 {
	t.Helper()
	i, err := read(conn)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func read(conn *websocket.Conn) (int64, error) {
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	_, b, err := conn.ReadMessage()
	if err != nil {
		return 0, err
	}
	// no decoding: a client that is cut has closeGrace for all that it was sent
	_, from, _ := bytes.Cut(b[:min(len(b), 64)], []byte(`"index":`))
	index, _, _ := bytes.Cut(from, []byte(","))
	return strconv.ParseInt(string(index), 10, 64)
}

func wantClose(t *testing.T, err error, code int) {
	t.Helper()
	var closed *websocket.CloseError
	if !errors.As(err, &closed) || closed.Code != code {
		t.Errorf("connection ended with %v, want close code %d", err, code)
	}
}

func TestParseMode(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]Mode{"open": Open, "authenticated": Authenticated, "off": Off} {
		if got, err := ParseMode(in); err != nil || got != want {
			t.Errorf("ParseMode(%q) = %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "Open", "on"} {
		if _, err := ParseMode(in); err == nil {
			t.Errorf("ParseMode(%q) gave no error", in)
		}
	}
}

func TestEventMessage(t *testing.T) {
	t.Parallel()
	record := chain.Record{Index: 7, Timestamp: "2026-01-02T03:04:05.678Z", Payload: []byte(`{"payload": 1.0}`)}
	shown := string(record.AppendJSON(nil))
	root := chain.Hash{0xab, 0xcd}
	for _, tt := range []struct {
		verdict chain.Verdict
		want    string
	}{
		{chain.Verdict{Valid: true, Root: root}, `,"valid":true,"merkleRoot":"abcd` + strings.Repeat("0", 60) + `"}`},
		{chain.Verdict{FailedAt: 0, Reason: "hash"}, `,"valid":false,"failedAtIndex":0}`},
		{chain.Verdict{FailedAt: 41}, `,"valid":false,"failedAtIndex":41}`},
	} {
		want := `{"type":"record","record":` + shown + tt.want
		if got := string(appendEvent(nil, &chain.Event{Record: record, Verdict: tt.verdict})); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// Each client gets every record committed after its handshake, in order, however many wait to be
// written.
func TestStreamOrder(t *testing.T) {
	t.Parallel()
	h, url := startHub(t, func(bool) {})
	var clients []*websocket.Conn
	for range 3 {
		clients = append(clients, join(t, url))
	}
	for i := range int64(maxQueued) {
		// some fit into one write together, some are larger than that
		h.Broadcast(event(1, i, int(i)*100))
	}
	for _, conn := range clients {
		for want := range int64(maxQueued) {
			if i := next(t, conn); i != want {
				t.Fatalf("got record %d, want %d", i, want)
			}
		}
	}
}

func TestStreamFilter(t *testing.T) {
	t.Parallel()
	h, url := startHub(t, func(bool) {})
	all, one, two := join(t, url), join(t, url+"?chain=1"), join(t, url+"?chain=2")
	for i := range int64(10) {
		h.Broadcast(event(1+i%2, i, 0))
	}
	for i := range int64(10) {
		if got := next(t, all); got != i {
			t.Errorf("client of all: record %d, want %d", got, i)
		}
		if got := next(t, []*websocket.Conn{one, two}[i%2]); got != i {
			t.Errorf("client of chain %d: record %d, want %d", 1+i%2, got, i)
		}
	}
}

// A client that does not read is closed with 1013; until then it gets what was sent, without a gap,
// and the others everything.
func TestSlowClient(t *testing.T) {
	t.Parallel()
	h, url := startHub(t, func(bool) {})
	quick, slow := join(t, url), join(t, url)
	sent := int64(0)
	for ; h.clientCount() == 2; sent++ {
		if sent == 10_000 {
			t.Fatal("the slow client was never dropped")
		}
		h.Broadcast(event(1, sent, 64<<10))
		if i := next(t, quick); i != sent {
			t.Fatalf("the quick client got record %d, want %d", i, sent)
		}
	}
	for want := int64(0); ; want++ {
		i, err := read(slow)
		if err != nil {
			wantClose(t, err, websocket.CloseTryAgainLater)
			break
		}
		if i != want || i >= sent {
			t.Fatalf("the slow client got record %d, want %d", i, want)
		}
	}
	h.Broadcast(event(1, sent, 0))
	if i := next(t, quick); i != sent {
		t.Errorf("afterwards the quick client got record %d, want %d", i, sent)
	}
}

func TestStreamShutdown(t *testing.T) {
	t.Parallel()
	h, url := startHub(t, func(bool) {})
	clients := []*websocket.Conn{join(t, url), join(t, url), join(t, url)}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		h.Close()
	}()
	for _, conn := range clients {
		_, err := read(conn)
		wantClose(t, err, websocket.CloseGoingAway)
	}
	<-closed
	h.Broadcast(event(1, 0, 0)) // reaches no client and harms nothing
	_, res, err := websocket.DefaultDialer.DialContext(t.Context(), url, nil)
	if err == nil || res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a client after the shutdown: %v", err)
	}
}

// What a client sends is read and ignored, within reason.
func TestStreamIgnoresMessages(t *testing.T) {
	t.Parallel()
	h, url := startHub(t, func(bool) {})
	conn := join(t, url)
	for range 100 {
		if err := conn.WriteMessage(websocket.TextMessage, []byte(`{"type":"subscribe"}`)); err != nil {
			t.Fatal(err)
		}
	}
	h.Broadcast(event(1, 5, 0))
	if i := next(t, conn); i != 5 {
		t.Errorf("record %d", i)
	}
	if err := conn.WriteMessage(websocket.BinaryMessage, make([]byte, maxIncoming+1)); err != nil {
		t.Fatal(err)
	}
	_, err := read(conn)
	wantClose(t, err, websocket.CloseMessageTooBig)
}

func TestListenFollowsClients(t *testing.T) {
	t.Parallel()
	told := make(chan bool, 10)
	_, url := startHub(t, func(on bool) { told <- on })
	for range 2 {
		first := join(t, url)
		if on := <-told; !on {
			t.Fatal("told false when the first client came")
		}
		second := join(t, url)
		_ = first.Close() // without a word
		_ = second.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Minute))
		_, err := read(second)
		wantClose(t, err, websocket.CloseNormalClosure)
		if on := <-told; on {
			t.Fatal("told true again")
		}
	}
}

// However joins and leaves interleave, the last call is right and no call is repeated.
func TestListenIsSerialised(t *testing.T) {
	t.Parallel()
	on, calls := false, 0 // guarded by the hub's own order; the race detector checks it
	h := NewHub(limit.Size{}, func(now bool) {
		if now == on {
			t.Errorf("said %v twice", now)
		}
		on = now
		calls++
	}, slog.New(slog.DiscardHandler))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 {
				c := newClient(Subscriber{Chain: 2})
				h.add(c)
				h.Broadcast(event(1, 0, 0)) // runs concurrently with both
				h.remove(c)
			}
		})
	}
	wg.Wait()
	if on || calls < 2 {
		t.Errorf("at last %v after %d calls", on, calls)
	}
}
