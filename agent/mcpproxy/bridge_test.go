package mcpproxy

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// A client that uses standard input and output gets the session, resumed streams and errors of HTTP
// as lines. Each line has one answer.
func TestBridge(t *testing.T) {
	deleted := make(chan string, 1)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		session, last := r.Header.Get("Mcp-Session-Id"), r.Header.Get("Last-Event-Id")
		w.Header().Set("Content-Type", "application/json")
		switch text := string(body); {
		case r.Method == http.MethodDelete:
			deleted <- session
		case r.Method == http.MethodGet && last == "":
			w.WriteHeader(http.StatusMethodNotAllowed)
		case r.Method == http.MethodGet:
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "id: e2\ndata: {\"id\":2,\"result\":{\"resumed\":\""+last+"\"}}\n\n")
		case strings.Contains(text, "initialize\""):
			w.Header().Set("Mcp-Session-Id", "s1")
			_, _ = io.WriteString(w, "{\"id\":0,\r\n \"result\":{\"protocolVersion\":\"2025-11-25\"}}\n")
		case session != "s1" || r.Header.Get("Mcp-Protocol-Version") != "2025-11-25":
			t.Errorf("%s has the headers %v", text, r.Header)
		case strings.Contains(text, "notifications/"):
			w.WriteHeader(http.StatusAccepted)
		case strings.Contains(text, "resumed"):
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "id: e1\nretry: 1\ndata:\n\n")
		case strings.Contains(text, "empty"):
			w.Header().Set("Content-Type", "text/event-stream")
		default:
			http.Error(w, "try later", http.StatusServiceUnavailable)
		}
	}))
	defer upstream.Close()
	remote, err := NewRemote(upstream.URL, false)
	if err != nil {
		t.Fatal(err)
	}
	r := new(recorder)
	in, client := io.Pipe()
	toClient, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- New(Config{Agent: "bot", Server: "s", Recorder: r}).ServeRemote(t.Context(), remote, in, out)
	}()
	lines := bufio.NewReader(toClient)
	send(t, client, `{"id":0,"method":"initialize","params":{}}`)
	gets(t, lines, `{"id":0,   "result":{"protocolVersion":"2025-11-25"}}`)
	send(t, client, `{"method":"notifications/initialized"}`)
	for _, c := range [][2]string{
		{`{"id":2,"method":"tools/call","params":{"name":"resumed"}}`, `{"id":2,"result":{"resumed":"e1"}}`},
		{`{"id":3,"method":"tools/call","params":{"name":"empty"}}`, `{"jsonrpc":"2.0","id":3,"error":{"code":-32000,"message":"the server ended its response before it answered"}}`},
		{`{"id":4,"method":"tools/call","params":{"name":"busy"}}`, `{"jsonrpc":"2.0","id":4,"error":{"code":-32000,"message":"the server answered HTTP 503","data":"try later\n"}}`},
	} {
		send(t, client, c[0])
		gets(t, lines, c[1])
	}
	client.Close()
	if session := <-deleted; session != "s1" {
		t.Error(session)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	equal(t, r.lines(t, true), []string{
		"completed resumed 2", "failed busy 4 the server answered HTTP 503 (code -32000)",
		"failed empty 3 the server ended its response before it answered (code -32000)", "requested busy 4", "requested empty 3", "requested resumed 2",
	})
}

// A request of 2026-07-28 carries its method and name in headers, and its cancellation ends it.
func TestBridgeCancels(t *testing.T) {
	arrived, ended := make(chan http.Header, 1), make(chan bool)
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		arrived <- r.Header
		<-r.Context().Done()
		ended <- true
	}))
	defer upstream.Close()
	remote, err := NewRemote(upstream.URL, false)
	if err != nil {
		t.Fatal(err)
	}
	r := new(recorder)
	in, client := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- New(Config{Agent: "bot", Server: "s", Recorder: r}).ServeRemote(t.Context(), remote, in, io.Discard)
	}()
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
	send(t, client, `{"id":1,"method":"tools/call","params":{"name":"\u00fc",`+meta+`}}`)
	h := <-arrived
	got := []string{h.Get("Mcp-Protocol-Version"), h.Get("Mcp-Method"), headerText(h.Get("Mcp-Name"))}
	if !slices.Equal(got, []string{"2026-07-28", "tools/call", "ü"}) {
		t.Errorf("%v", h)
	}
	send(t, client, `{"method":"notifications/cancelled","params":{"requestId":1,`+meta+`}}`)
	<-ended
	client.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	equal(t, r.lines(t, true), []string{"failed ü 1 cancelled by the client", "requested ü 1"})
}

// A client that leaves an open subscription ends at once: the subscription has no last message to
// wait for.
func TestBridgeEndsWithSubscription(t *testing.T) {
	arrived, ended := make(chan bool, 1), make(chan bool, 1)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, ": open\n\n")
		_ = http.NewResponseController(w).Flush()
		arrived <- true
		<-r.Context().Done()
		ended <- true
	}))
	defer upstream.Close()
	remote, err := NewRemote(upstream.URL, false)
	if err != nil {
		t.Fatal(err)
	}
	in, client := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- New(Config{Agent: "bot", Server: "s", Recorder: new(recorder)}).ServeRemote(t.Context(), remote, in, io.Discard)
	}()
	send(t, client, `{"id":1,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`)
	<-arrived
	left := time.Now()
	client.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	<-ended
	if waited := time.Since(left); waited >= endGrace {
		t.Errorf("it ended after %v", waited)
	}
}
