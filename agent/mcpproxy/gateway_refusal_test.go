package mcpproxy

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Requests of web pages of other origins and for other hosts are refused, and so is what a server
// could read otherwise than the proxy. The server receives none of them.
func TestGatewayRefusesRequests(t *testing.T) {
	g := startGateway(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Error("the server received", r.Method, r.URL) }), nil)
	for _, c := range []struct {
		status       int
		method, body string
		headers      []string
	}{
		{403, "POST", aCall, []string{"Origin", "https://evil.example"}},
		{403, "POST", aCall, []string{"Origin", "null"}},
		{403, "POST", aCall, []string{"Origin", "http://localhost:1"}},
		{403, "GET", "", []string{"Origin", "http://evil.example"}},
		{403, "POST", aCall, []string{"Host", "evil.example:" + g.Port}},
		{403, "POST", aCall, []string{"Host", "localhost"}},
		{405, "PUT", aCall, nil},
		{405, "OPTIONS", "", nil},
		{415, "POST", aCall, []string{"Content-Type", "text/plain"}},
		{415, "POST", aCall, []string{"Content-Type", "application/json; charset=utf-16"}},
		{415, "POST", aCall, []string{"Content-Encoding", "gzip"}},
		{400, "POST", "{", nil},
		{400, "POST", "\ufeff" + aCall, nil},
		{400, "POST", `{"id":1,"method":"tools/call","Method":"ping","params":{"name":"x"}}`, []string{"Mcp-Method", "ping"}},
		{400, "POST", aCall, []string{"Mcp-Method", "ping"}},
		{400, "POST", aCall, []string{"Mcp-Method", "tools/call", "Mcp-Name", "y"}},
		{400, "POST", aCall, []string{"Mcp-Session-Id", "a\u00e9"}},
		{400, "POST", `{"id":true,"method":"ping"}`, nil},
		{400, "POST", "[[" + aCall + "]]", nil},
		{400, "POST", "[]", nil},
		{400, "POST", `{"params":` + aCall + `}`, nil},
	} {
		resp := g.do(c.method, c.body, c.headers...)
		if body, _ := io.ReadAll(resp.Body); resp.StatusCode != c.status {
			t.Errorf("%s %s %v: HTTP %d %s, want %d", c.method, c.body, c.headers, resp.StatusCode, body, c.status)
		}
	}
	for _, path := range []string{"/", "/mcp/", "/mcp?x=1", "/MCP", "/.well-known/oauth-protected-resource/mcp"} {
		resp, err := http.Get(strings.TrimSuffix(g.url, "/mcp") + path)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusNotFound {
			t.Error(path, resp.StatusCode)
		}
	}
	g.end()
	if n := len(g.record.all(t)); n != 0 {
		t.Errorf("%d records", n)
	}
}

// A refused call gets an error result, and the rest of its batch goes on.
func TestGatewayRefusesCalls(t *testing.T) {
	got := make(chan string, 10)
	kind := "application/json"
	g := startGateway(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
		answers(kind, map[string]string{
			"application/json":  `[{"id":2,"result":{}}]`,
			"text/event-stream": "data: {\"id\":2,\"result\":{}}\n\n",
		}[kind])(w, r)
	}), func(c *GatewayConfig) { c.Gate = only("good") })
	refused := `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"attestd refused this call: evil is not allowed"}],"isError":true}}`
	evil, good := `{"id":1,"method":"tools/call","params":{"name":"evil"}}`, `{"id":2, "method":"tools/call","params":{"name":"good"}}`
	g.says(g.post(evil), 200, refused+"\n")
	g.says(g.post("["+evil+", "+good+"]"), 200, `[{"id":2,"result":{}},`+refused+"]")
	kind = "text/event-stream"
	g.says(g.post("["+evil+", "+good+"]"), 200, "event: message\ndata: ["+refused+"]\n\ndata: {\"id\":2,\"result\":{}}\n\n")
	for range 2 {
		if body := <-got; body != "["+good+"]\n" {
			t.Errorf("the server received %q", body)
		}
	}
	g.end()
	equal(t, g.record.lines(t, true), []string{
		"completed good 2", "completed good 2", "denied evil 1 evil is not allowed", "denied evil 1 evil is not allowed",
		"denied evil 1 evil is not allowed", "requested evil 1", "requested evil 1", "requested evil 1", "requested good 2", "requested good 2",
	})
}

// Whatever the server answers in place of a response is recorded as the call's failure, and does
// not reach the client where it could be read in two ways.
func TestGatewayRecordsFailures(t *testing.T) {
	const withheldResult = `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"attestd withheld the server's response: it has a result and an error"}],"isError":true}}`
	const incomplete = `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"the server ended its response before it answered"}}`
	const incompleteEvent = "event: message\ndata: " + incomplete + "\n\n"
	for _, c := range []struct {
		name         string
		status       int
		headers      []string
		body         string
		want         int
		told, failed string
	}{
		{"both", 200, nil, `{"id":1,"result":{"a":"TOLD"},"error":{"code":1,"message":"x"}}`, 200, withheldResult, "attestd withheld the server's response: it has a result and an error"},
		{"not JSON", 200, nil, `{"id":1,"result":TOLD}`, 502, string(withheldLine(nil)), "attestd withheld the server's response: it is not JSON"},
		{"another ID", 200, nil, `{"id":2,"result":{"a":"TOLD"}}`, 200, incomplete, "the server ended its response before it answered"},
		{"a page", 200, []string{"Content-Type", "text/html"}, `TOLD`, 502, "attestd mcp: the server's response is neither JSON nor a stream of events\n", "the server answered HTTP 200"},
		{"an error", 503, []string{"Content-Type", "text/plain"}, `busy`, 503, "busy", "the server answered HTTP 503"},
		{"no credential", 401, []string{"Www-Authenticate", "Bearer"}, `{"error":"TOLD"}`, 401, `{"error":"TOLD"}`, "the server answered HTTP 401"},
		{"redirect", 307, []string{"Location", "https://elsewhere.example/mcp?secret=1"}, "", 502, "attestd mcp: the server could not be reached: the server redirects to https://elsewhere.example/mcp, which the proxy does not follow: name it with --upstream\n", "the server could not be reached: the server redirects to https://elsewhere.example/mcp, which the proxy does not follow: name it with --upstream"},
		{"compressed", 200, []string{"Content-Encoding", "gzip"}, "x", 502, "attestd mcp: the server could not be reached: the server compressed its response although it was asked not to (\"gzip\")\n", "the server could not be reached: the server compressed its response although it was asked not to (\"gzip\")"},
		{"accepted", 202, nil, "", 502, strings.Replace(incomplete, errIncomplete.Error(), notComing, 1), "the server accepted the request, and its answer did not come"},
		{"truncated stream", 200, []string{"Content-Type", "text/event-stream"}, "data: {\"id\":1,\"result\":", 200, "data: " + strings.TrimSpace(string(withheldLine(nil))) + "\n\n" + incompleteEvent, "the server ended its response before it answered"},
		{"stream without an answer", 200, []string{"Content-Type", "text/event-stream"}, "id: 1\ndata:\n\n", 200, "id: 1\ndata: \n\n" + incompleteEvent, "the server ended its response before it answered"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := startGateway(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Cookie")+r.Header.Get("Authorization")+r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("X-Mine") != "1" {
					t.Error(r.Header)
				}
				w.Header().Set("Content-Type", "application/json")
				for i := 0; i < len(c.headers); i += 2 {
					w.Header().Set(c.headers[i], c.headers[i+1])
				}
				w.Header().Set("Set-Cookie", "a=b")
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}), nil)
			resp := g.post(aCall, "Cookie", "a=b", "Authorization", "Bearer mine", "X-Forwarded-For", "::1", "X-Mine", "1")
			if h := resp.Header; h.Get("Www-Authenticate")+h.Get("Set-Cookie")+h.Get("Location") != "" {
				t.Error(h)
			}
			g.says(resp, c.want, c.told)
			g.end()
			list := g.record.all(t)
			if len(list) != 2 || list[1].Action != "tool.failed" || list[1].Error != c.failed {
				t.Fatalf("%+v", list)
			}
			if told := strings.Contains(c.told+c.body, "TOLD"); told && c.name != "another ID" && !strings.Contains(string(list[1].Output), "TOLD") {
				t.Errorf("the record lacks the server's error: %+v", list[1])
			}
		})
	}
}

// In a session requests share their IDs: an ID may be open once, and a response whose stream ended
// may come in a later one. A session that the server ends is over.
func TestGatewaySession(t *testing.T) {
	streams := make(chan chan string, 1)
	g := startGateway(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodDelete {
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		texts := make(chan string)
		streams <- texts
		for text := range texts {
			_, _ = io.WriteString(w, text)
			w.(http.Flusher).Flush()
		}
	}), nil)
	session := []string{"Mcp-Session-Id", "s1"}
	first := g.post(aCall, session...)
	texts := <-streams
	g.says(g.post(aCall, session...), 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request: another open request has its ID"}}`+"\n")
	texts <- "id: e1\ndata:\n\n"
	close(texts)
	g.says(first, 200, "id: e1\ndata: \n\n")
	rest := g.do(http.MethodGet, "", append(session, "Last-Event-ID", "e1")...)
	texts = <-streams
	texts <- "id: e2\ndata: {\"id\":1,\"result\":{}}\n\n"
	close(texts)
	g.says(rest, 200, "id: e2\ndata: {\"id\":1,\"result\":{}}\n\n")

	// without an event ID the response cannot be resumed
	second := g.post(strings.Replace(aCall, `"id":1`, `"id":2`, 1), session...)
	close(<-streams)
	g.says(second, 200, `event: message
data: {"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"the server ended its response before it answered"}}

`)

	// open while the session ends
	third := g.post(strings.Replace(aCall, `"id":1`, `"id":3`, 1), session...)
	texts = <-streams
	if resp := g.do(http.MethodDelete, "", session...); resp.StatusCode != 200 {
		t.Error(resp.StatusCode)
	}
	_, _ = io.Copy(io.Discard, third.Body)
	close(texts)
	other := g.post(aCall, "Mcp-Session-Id", "s2")
	texts = <-streams
	texts <- "data: {\"id\":1,\"result\":{}}\n\n"
	close(texts)
	g.says(other, 200, "data: {\"id\":1,\"result\":{}}\n\n")
	g.end()
	equal(t, g.record.lines(t, true), []string{
		"completed x 1", "completed x 1", "denied x 1 another open request has its ID",
		"failed x 2 the server ended its response before it answered", "failed x 3 the session ended before the server answered",
		"requested x 1", "requested x 1", "requested x 1", "requested x 2", "requested x 3",
	})
	sessions := map[string]int{}
	for _, r := range g.record.all(t) {
		sessions[r.SessionID]++
	}
	if len(sessions) != 2 {
		t.Errorf("%v", sessions)
	}
}

// Without sessions each request has IDs of its own, also while others are open.
func TestGatewayWithoutSessions(t *testing.T) {
	arrived, release := make(chan bool, 2), make(chan bool)
	g := startGateway(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		arrived <- true
		<-release
		answers("application/json", `{"id":1,"result":{}}`)(w, r)
	}), nil)
	done := make(chan bool)
	for range 2 {
		go func() {
			g.says(g.post(aCall), 200, `{"id":1,"result":{}}`)
			done <- true
		}()
	}
	<-arrived
	<-arrived
	close(release)
	<-done
	<-done
	g.end()
	equal(t, g.record.lines(t, true), []string{"completed x 1", "completed x 1", "requested x 1", "requested x 1"})
}

// A client that disconnects ends the request to the server, and a gateway that is closed ends all.
func TestGatewayEndsRequests(t *testing.T) {
	arrived, ended := make(chan bool, 2), make(chan bool, 2)
	g := startGateway(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		arrived <- true
		<-r.Context().Done()
		ended <- true
	}), nil)
	front := strings.TrimPrefix(strings.TrimSuffix(g.url, "/mcp"), "http://")
	for _, tool := range []string{"left", "stopped"} {
		conn := dial(t, front)
		body := `{"id":1,"method":"tools/call","params":{"name":"` + tool + `"}}`
		fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", front, len(body), body)
		<-arrived
		if tool == "left" {
			conn.Close()
			<-ended
		}
	}
	g.end()
	<-ended
	equal(t, g.record.lines(t, true), []string{
		"failed left 1 the client disconnected before the server answered", "failed stopped 1 the proxy was stopped before the server answered",
		"requested left 1", "requested stopped 1",
	})
}

// Messages over the length limit are refused, in either direction, and so is a stream that is one
// endless event.
func TestGatewayBounds(t *testing.T) {
	g := startGateway(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", r.Header.Get("X-Kind"))
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, "data: "+strings.Repeat("x", 500)+"\n"); err != nil {
				return
			}
		}
	}), func(c *GatewayConfig) { c.MaxLine = 10_000 })
	if resp := g.post(strings.Replace(aCall, `"a":1`, `"a":"`+strings.Repeat("x", 10_000)+`"`, 1)); resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Error(resp.StatusCode)
	}
	g.says(g.post(aCall, "X-Kind", "application/json"), 502,
		"attestd mcp: the server's response could not be read: a message is too long: over 10000 bytes\n")
	g.says(g.post(aCall, "X-Kind", "text/event-stream"), 200, `event: message
data: {"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"the server ended its response before it answered"}}

`)
	g.end()
	if n := len(g.record.all(t)); n != 4 {
		t.Errorf("%d records", n)
	}
}

// Sessions that wait for nothing end after an hour, and the oldest of them when there are too many.
func TestGatewayIdleSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		remote, err := NewRemote("http://localhost/mcp", false)
		if err != nil {
			t.Fatal(err)
		}
		g := NewGateway(GatewayConfig{Remote: remote, Open: func(string) (Recorder, error) { return new(recorder), nil }})
		use := func(id string) error {
			s, err := g.enter(id)
			if err == nil {
				g.leave(s)
			}
			return err
		}
		busy, err := g.enter("busy")
		if err != nil {
			t.Fatal(err)
		}
		for n := range maxSessions {
			time.Sleep(time.Millisecond)
			if err := use(fmt.Sprint(n)); err != nil {
				t.Fatal(n, err)
			}
		}
		if g.sessions["0"] != nil || g.sessions["1"] == nil || len(g.sessions) != maxSessions {
			t.Errorf("%d sessions", len(g.sessions))
		}
		time.Sleep(sessionIdle + 2*sweepInterval)
		synctest.Wait()
		if len(g.sessions) != 1 || g.sessions["busy"] != busy {
			t.Errorf("%d sessions", len(g.sessions))
		}
		g.leave(busy)
		g.stop(errStopped)
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A client that goes on after its session has ended idle is signed in the session in which it was,
// which says what it goes on from. What the client has ended does not go on, and of sessions that
// ended idle only so many are remembered.
func TestGatewaySessionGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		remote, err := NewRemote("http://localhost/mcp", false)
		if err != nil {
			t.Fatal(err)
		}
		var opened []string
		g := NewGateway(GatewayConfig{
			Config: Config{Signed: true}, Remote: remote,
			Open: func(id string) (Recorder, error) {
				opened = append(opened, id)
				return new(recorder), nil
			},
		})
		use := func(id string) *gatewaySession {
			s, err := g.enter(id)
			if err != nil {
				t.Fatal(err)
			}
			g.leave(s)
			return s
		}
		use("a")
		time.Sleep(sessionIdle + 2*sweepInterval)
		g.end("a", use("a"), errSessionEnded)
		use("a")
		if len(opened) != 3 || opened[0] != opened[1] || opened[1] == opened[2] {
			t.Errorf("opened %q, want the first twice, and another", opened)
		}
		for n := range 2*maxSessions + 10 {
			time.Sleep(time.Millisecond)
			use(fmt.Sprint(n))
		}
		if g.idle.Len() > maxSessions {
			t.Errorf("%d sessions are remembered", g.idle.Len())
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
}

// An upstream is named by https, or is on this machine.
func TestRemoteAddress(t *testing.T) {
	for address, ok := range map[string]bool{
		"https://mcp.example.com/mcp": true, "http://127.0.0.1:1/mcp": true, "http://localhost": true, "http://[::1]/": true,
		"http://mcp.example.com/mcp": false, "https://user:secret@mcp.example.com": false, "https://mcp.example.com/#x": false,
		"mcp.example.com/mcp": false, "ftp://mcp.example.com": false, "http://127.0.0.1.evil.example/": false, "": false,
	} {
		if _, err := NewRemote(address, false); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
	if _, err := NewRemote("http://mcp.example.com/mcp", true); err != nil {
		t.Error(err)
	}
}

// A call whose connection breaks is sent once, whatever its client says of repeating it: net/http
// repeats a request with an Idempotency-Key by itself, and the second one would run unrecorded.
func TestCallIsSentOnce(t *testing.T) {
	t.Parallel()
	var arrived atomic.Int64
	g := startGateway(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "ping") { // its connection is used again
			answers("application/json", `{"id":0,"result":{}}`)(w, r)
			return
		}
		arrived.Add(1)
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
	}), nil)
	for n, name := range []string{"Idempotency-Key", "X-Idempotency-Key", "X-Other"} {
		g.says(g.post(`{"id":0,"method":"ping"}`), 200, `{"id":0,"result":{}}`)
		if resp := g.post(aCall, name, "k"); resp.StatusCode != http.StatusBadGateway {
			t.Errorf("%s: HTTP %d", name, resp.StatusCode)
		}
		if got := arrived.Load(); got != int64(n+1) {
			t.Errorf("%s: %d calls arrived, want %d", name, got, n+1)
		}
	}
	g.end()
	n := map[string]int{}
	for _, r := range g.record.all(t) {
		n[r.Action]++
	}
	if n["tool.requested"] != 3 || n["tool.failed"] != 3 {
		t.Errorf("%v", n)
	}
}

// Names of headers that CGI and WSGI make into those that the proxy checks do not go on: there
// every character but letters and digits becomes an underscore.
func TestHeadersOfOtherSpelling(t *testing.T) {
	t.Parallel()
	got := make(chan http.Header, 1)
	g := startGateway(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header.Clone()
		answers("application/json", `{"id":1,"result":{}}`)(w, r)
	}), nil)
	conn := dial(t, strings.TrimPrefix(strings.TrimSuffix(g.url, "/mcp"), "http://"))
	names := []string{"Mcp_Method", "MCP_NAME", "mcp.method", "Mcp!Name", "X_Forwarded_For", "Authorization_", "Content_Type", "Transfer_Encoding",
		"Cookie~", "X_Http_Method_Override", "X_Mine", "X-Mine"}
	fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", g.Port, len(aCall))
	for _, name := range names {
		fmt.Fprintf(conn, "%s: other\r\n", name)
	}
	fmt.Fprintf(conn, "\r\n%s", aCall)
	h := <-got
	for name := range h {
		if strings.ContainsAny(name, "_.!~") {
			t.Errorf("the server received %s", name)
		}
	}
	if h.Get("X-Mine") != "other" {
		t.Errorf("%v", h)
	}
	remote, err := NewRemote("https://mcp.example.com/mcp", false)
	if err != nil {
		t.Fatal(err)
	}
	for name, ok := range map[string]bool{"Mcp_Session_Id": false, "content.length": false, "X_Api_Key": true, "Authorization": true} {
		if err := remote.AddHeader(name, "x"); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A credential is sent neither unencrypted to another machine nor in a header of the protocol.
func TestRemoteCredentials(t *testing.T) {
	for _, c := range []struct {
		address, name, value string
		ok                   bool
	}{
		{"https://mcp.example.com/mcp", "Authorization", "Bearer x", true},
		{"http://127.0.0.1/mcp", "X-Api-Key", "x", true},
		{"http://mcp.example.com/mcp", "Authorization", "Bearer x", false},
		{"https://mcp.example.com/mcp", "Host", "x", false},
		{"https://mcp.example.com/mcp", "mcp-session-id", "x", false},
		{"https://mcp.example.com/mcp", "X Y", "x", false},
		{"https://mcp.example.com/mcp", "X", "a\nb", false},
	} {
		r, err := NewRemote(c.address, true)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.AddHeader(c.name, c.value); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// FuzzEvents compares the forwarded form of events with parsers that end lines elsewhere: they all
// find the same data in it.
func FuzzEvents(f *testing.F) {
	f.Add([]byte("id: 1\r\ndata: {}\rdata: []\n\nevent: x\u2028data: 1\ndata:{\"a\":\"\u0085\"}\n\n: c\rdata:2\n\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		in := newEvents(strings.NewReader(string(stream)), 1<<20, nil)
		p := New(Config{})
		for {
			ev, err := in.next()
			if err != nil {
				return
			}
			p.filterEvent(0, &ev, time.Now())
			out := string(ev.bytes())
			if !strings.HasSuffix(out, "\n\n") || strings.Count(out, "\n\n") != 1 || strings.ContainsAny(out, "\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029") {
				t.Fatalf("%q", out)
			}
			again, err := newEvents(bufio.NewReader(strings.NewReader(out)), 1<<20, nil).next()
			if err != nil && !ev.isEmpty() && !ev.comment && out != "\n" {
				t.Fatalf("%q: %v", out, err)
			}
			if strings.TrimSpace(string(again.data)) != strings.TrimSpace(string(ev.data)) {
				t.Fatalf("%q has the data %q, want %q", out, again.data, ev.data)
			}
		}
	})
}
