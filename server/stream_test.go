package server

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"attestd/chain"
	"attestd/store"
)

// streamHandler serves a hub; ?chain=N narrows a client to one company.
func streamHandler(h *hub) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var only *store.Company
		if n, err := strconv.ParseInt(r.FormValue("chain"), 10, 64); err == nil {
			only = &store.Company{Chain: n}
		}
		if err := h.serve(w, r, only, http.Header{"X-Request-Id": {"a"}}); err != nil {
			e := classify(err)
			for name := range e.Header {
				w.Header().Set(name, e.Header.Get(name))
			}
			w.WriteHeader(e.Status)
			_ = json.NewEncoder(w).Encode(errorBody{Error: e.Message})
		}
	})
}

// startHub runs a hub behind a listener on loopback, and returns its address.
func startHub(t *testing.T, listen func(bool)) (h *hub, url string) {
	t.Helper()
	h = newHub(listen, slog.New(slog.DiscardHandler))
	srv := httptest.NewServer(streamHandler(h))
	t.Cleanup(func() {
		h.close()
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
	var m struct{ Record struct{ Index int64 } }
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	_, b, err := conn.ReadMessage()
	if err != nil {
		return 0, err
	}
	err = json.Unmarshal(b, &m)
	return m.Record.Index, err
}

func wantClose(t *testing.T, err error, code int) {
	t.Helper()
	var closed *websocket.CloseError
	if !errors.As(err, &closed) || closed.Code != code {
		t.Errorf("connection ended with %v, want close code %d", err, code)
	}
}

func TestParseStreamMode(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]StreamMode{"open": StreamOpen, "authenticated": StreamAuthenticated, "off": StreamOff} {
		if got, err := ParseStreamMode(in); err != nil || got != want {
			t.Errorf("ParseStreamMode(%q) = %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "Open", "on"} {
		if _, err := ParseStreamMode(in); err == nil {
			t.Errorf("ParseStreamMode(%q) gave no error", in)
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

// Each client gets every record committed after its handshake, in order, however many wait to be written.
func TestStreamOrder(t *testing.T) {
	t.Parallel()
	h, url := startHub(t, func(bool) {})
	var clients []*websocket.Conn
	for range 3 {
		clients = append(clients, join(t, url))
	}
	for i := range int64(maxQueued) {
		h.broadcast(event(1, i, int(i)*100)) // some fit into one write together, some are larger than that
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
		h.broadcast(event(1+i%2, i, 0))
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

// A client that does not read is closed with 1013; until then it gets what was sent, without a gap, and the others everything.
func TestSlowClient(t *testing.T) {
	t.Parallel()
	h, url := startHub(t, func(bool) {})
	quick, slow := join(t, url), join(t, url)
	sent := int64(0)
	for ; h.clientCount() == 2; sent++ {
		if sent == 10_000 {
			t.Fatal("the slow client was never dropped")
		}
		h.broadcast(event(1, sent, 64<<10))
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
	h.broadcast(event(1, sent, 0))
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
		h.close()
	}()
	for _, conn := range clients {
		_, err := read(conn)
		wantClose(t, err, websocket.CloseGoingAway)
	}
	<-closed
	h.broadcast(event(1, 0, 0)) // reaches nobody and harms nothing
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
	h.broadcast(event(1, 5, 0))
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

// However joins and leaves cross, the last word is right and no word is said twice.
func TestListenIsSerialised(t *testing.T) {
	t.Parallel()
	on, calls := false, 0 // guarded by the hub's own order; the race detector checks it
	h := newHub(func(now bool) {
		if now == on {
			t.Errorf("told %v twice", now)
		}
		on = now
		calls++
	}, slog.New(slog.DiscardHandler))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 {
				c := newClient(&store.Company{Chain: 2})
				h.add(c)
				h.broadcast(event(1, 0, 0)) // runs beside both
				h.remove(c)
			}
		})
	}
	wg.Wait()
	if on || calls < 2 {
		t.Errorf("at last %v after %d calls", on, calls)
	}
}

func TestHandshake(t *testing.T) {
	t.Parallel()
	h, url := startHub(t, func(bool) {})
	host := strings.TrimPrefix(url, "ws://")
	for _, tt := range []struct {
		name    string
		change  http.Header // "" takes away
		status  int
		message string
	}{
		{"good", nil, 101, ""},
		{"our own page", http.Header{"Origin": {"http://" + host}}, 101, ""},
		{"foreign page", http.Header{"Origin": {"http://evil.example"}}, 403, "Origin not allowed"},
		{"no upgrade", http.Header{"Upgrade": {""}, "Connection": {""}}, 426, "Not a WebSocket handshake: this address"},
		{"another protocol", http.Header{"Upgrade": {"h2c"}}, 426, "Not a WebSocket handshake: this address"},
		{"old version", http.Header{"Sec-Websocket-Version": {"8"}}, 426, "Not a WebSocket handshake: Sec-WebSocket-Version must be 13"},
		{"no key", http.Header{"Sec-Websocket-Key": {""}}, 400, "Not a WebSocket handshake: 'Sec-WebSocket-Key'"},
	} {
		conn, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Host = host
		r.Header = http.Header{
			"Connection": {"keep-alive, Upgrade"}, "Upgrade": {"websocket"},
			"Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"AQIDBAUGBwgJCgsMDQ4PEA=="},
		}
		for name, v := range tt.change {
			r.Header[name] = v
			if v[0] == "" {
				r.Header.Del(name)
			}
		}
		status, header, body := exchange(t, conn, r, tt.status)
		if status != tt.status {
			t.Errorf("%s: status %d, want %d", tt.name, status, tt.status)
			continue
		}
		switch status {
		case http.StatusSwitchingProtocols:
			if header.Get("X-Request-Id") != "a" {
				t.Errorf("%s: the handler's headers are missing: %v", tt.name, header)
			}
		case http.StatusUpgradeRequired:
			if header.Get("Upgrade") != "websocket" {
				t.Errorf("%s: headers %v do not say what to upgrade to", tt.name, header)
			}
			fallthrough
		default:
			var answer map[string]string
			if err := json.Unmarshal(body, &answer); err != nil || !strings.HasPrefix(answer["error"], tt.message) {
				t.Errorf("%s: answer %s, want the error %q", tt.name, body, tt.message)
			}
		}
	}
	h.close()
}

// exchange writes a request and reads its answer, and the body unless the connection is no longer HTTP.
func exchange(t *testing.T, conn net.Conn, r *http.Request, want int) (int, http.Header, []byte) {
	t.Helper()
	defer conn.Close()
	if err := r.Write(conn); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var body []byte
	if want != http.StatusSwitchingProtocols {
		if body, err = io.ReadAll(res.Body); err != nil {
			t.Fatal(err)
		}
	}
	return res.StatusCode, res.Header, body
}

func TestOwnOrigin(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		origins []string
		host    string
		proto   string // X-Forwarded-Proto
		want    bool
	}{
		{nil, "a.example", "", true},
		{[]string{"http://a.example"}, "a.example", "", true},
		{[]string{"http://A.example"}, "a.EXAMPLE", "", true},
		{[]string{"http://a.example:8080"}, "a.example:8080", "", true},
		{[]string{"http://[::1]:8080"}, "[::1]:8080", "", true},
		{[]string{"https://a.example"}, "a.example", "https", true},
		{[]string{"https://a.example"}, "a.example", "", true}, // TLS ends at a proxy that says nothing
		{[]string{"https://a.example"}, "a.example:443", "https", true},
		{[]string{"http://a.example"}, "a.example:80", "", true},
		{[]string{"http://a.example"}, "a.example", "https", false}, // anyone on the way could have written that page
		{[]string{"http://b.example"}, "a.example", "", false},
		{[]string{"http://a.example.b.example"}, "a.example", "", false},
		{[]string{"http://a.example:8081"}, "a.example:8080", "", false},
		{[]string{"http://a.example:443"}, "a.example", "", false},
		{[]string{"http://a.example", "http://b.example"}, "a.example", "", false},
		{[]string{"null"}, "a.example", "", false},
		{[]string{""}, "", "", false},
		{[]string{"http://"}, "", "", false},
		{[]string{"ftp://a.example"}, "a.example", "", false},
		{[]string{"http://a.example/"}, "a.example", "", false},
		{[]string{"http://b.example@a.example"}, "a.example", "", false},
		{[]string{"chrome-extension://a.example"}, "a.example", "", false},
	} {
		r := &http.Request{Host: tt.host, Header: http.Header{"Origin": tt.origins, "X-Forwarded-Proto": {tt.proto}}}
		if len(tt.origins) == 0 {
			r.Header.Del("Origin")
		}
		if got := ownOrigin(r); got != tt.want {
			t.Errorf("Origin %q, Host %q, proto %q: %v", tt.origins, tt.host, tt.proto, got)
		}
	}
}

func TestBearerProtocol(t *testing.T) {
	t.Parallel()
	_, url := startHub(t, func(bool) {})
	for _, tt := range []struct {
		offered    []string // lines
		credential string
		ok         bool
	}{
		{nil, "", false},
		{[]string{"attestd.bearer, svc_a-b_c"}, "svc_a-b_c", true},
		{[]string{"attestd.bearer,svc_a"}, "svc_a", true},
		{[]string{"attestd.bearer", "svc_a"}, "svc_a", true},
		{[]string{"chat, attestd.bearer, svc_a, more"}, "svc_a", true},
		{[]string{"attestd.bearer"}, "", true},
		{[]string{"chat, svc_a"}, "", false},
		{[]string{"attestd.bearers, svc_a"}, "", false},
	} {
		r := &http.Request{Header: http.Header{"Sec-Websocket-Protocol": tt.offered}}
		if credential, ok := bearerProtocol(r); credential != tt.credential || ok != tt.ok {
			t.Errorf("%q: %q, %v; want %q, %v", tt.offered, credential, ok, tt.credential, tt.ok)
		}
		// Browsers drop a connection that does not select one of the protocols offered; the credential is never sent back.
		conn, _, err := websocket.DefaultDialer.DialContext(t.Context(), url, r.Header)
		if err != nil {
			t.Fatal(err)
		}
		if selected := conn.Subprotocol(); (selected == bearerScheme) != tt.ok || !tt.ok && selected != "" {
			t.Errorf("%q: %q selected", tt.offered, selected)
		}
		_ = conn.Close()
	}
}
