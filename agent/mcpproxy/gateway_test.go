package mcpproxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// gateway is a Gateway in front of a server that the test makes.
type gateway struct {
	t      testing.TB
	record *recorder
	*Gateway
	url string
}

// startGateway starts a gateway, whose server answers with the handler.
func startGateway(t testing.TB, server http.Handler, change func(*GatewayConfig)) *gateway {
	t.Helper()
	upstream := httptest.NewServer(server)
	t.Cleanup(upstream.Close)
	remote, err := NewRemote(upstream.URL+"/mcp", false)
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{t: t, record: new(recorder)}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	c := GatewayConfig{
		Config: Config{Agent: "bot", Server: "tools", Warn: func(text string) { t.Log("warning:", text) }}, Remote: remote, Port: port,
		Open: func(string) (Recorder, error) { return g.record, nil },
	}
	if change != nil {
		change(&c)
	}
	g.Gateway = NewGateway(c)
	front := httptest.NewUnstartedServer(g.Handler())
	front.Listener.Close()
	front.Listener = listener
	front.Start()
	g.url = front.URL + "/mcp"
	t.Cleanup(func() {
		g.end()
		front.Close()
	})
	return g
}

// end ends the gateway, so that all is recorded.
func (g *gateway) end() {
	g.t.Helper()
	if err := g.Gateway.Close(); err != nil {
		g.t.Error(err)
	}
}

// post sends a body, and returns the response.
func (g *gateway) post(body string, headers ...string) *http.Response {
	g.t.Helper()
	return g.do(http.MethodPost, body, headers...)
}

func (g *gateway) do(method, body string, headers ...string) *http.Response {
	g.t.Helper()
	req, err := http.NewRequestWithContext(g.t.Context(), method, g.url, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		if req.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func (g *gateway) says(resp *http.Response, status int, want string) {
	g.t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status || string(body) != want {
		g.t.Fatalf("HTTP %d %.500q, %v; want %d %.500q", resp.StatusCode, body, err, status, want)
	}
}

// answers is a server that answers each POST with a body of a type.
func answers(kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, body)
	}
}

const aCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":1}}}`

// sdkServer is a server of the SDK with a tool that echoes, and one that hangs until release is
// closed, and says so to hangs.
func sdkServer(o *mcp.StreamableHTTPOptions, hangs chan<- bool, release <-chan struct{}) http.Handler {
	s := mcp.NewServer(&mcp.Implementation{Name: "tools", Version: "1"}, nil)
	type input struct {
		Text string `json:"text"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, in input) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text}}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "progress"}, func(ctx context.Context, r *mcp.CallToolRequest, _ input) (*mcp.CallToolResult, any, error) {
		// not possible where the response is JSON
		_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1})
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "hang"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ input) (*mcp.CallToolResult, any, error) {
		hangs <- true
		select {
		case <-ctx.Done():
		case <-release:
		}
		return nil, nil, errors.New("released")
	})
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, o)
}

// The SDK's client calls the SDK's server through the gateway in each revision, with sessions and
// without, by JSON and by streams. Each call is recorded with its outcome.
func TestGatewayRevisions(t *testing.T) {
	for _, c := range []struct {
		revision        string
		stateless, json bool
	}{
		{"2025-03-26", false, false},
		{"2025-06-18", false, true},
		{"2025-06-18", true, false},
		{"2025-11-25", false, false},
		{"2025-11-25", true, true},
		{"2026-07-28", true, false},
		{"2026-07-28", true, true},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			t.Parallel()
			hangs, release := make(chan bool, 10), make(chan struct{})
			g := startGateway(t, sdkServer(&mcp.StreamableHTTPOptions{Stateless: c.stateless, JSONResponse: c.json}, hangs, release), nil)
			progress := make(chan bool, 10)
			client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
				ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { progress <- true },
			})
			s, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: g.url},
				&mcp.ClientSessionOptions{ProtocolVersion: c.revision})
			if err != nil {
				t.Fatal(err)
			}
			if got := s.InitializeResult().ProtocolVersion; got != c.revision {
				t.Fatal("the session speaks", got)
			}
			text := "a\u2028b\r\n\u00e9"
			r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": text}})
			if err != nil || r.Content[0].(*mcp.TextContent).Text != text {
				t.Fatalf("%+v, %v", r, err)
			}
			params := &mcp.CallToolParams{Name: "progress", Arguments: map[string]any{"text": ""}}
			params.SetProgressToken("p")
			if _, err := s.CallTool(t.Context(), params); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			go func() { // gives up when the call is at the server
				<-hangs
				cancel()
			}()
			if _, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "hang", Arguments: map[string]any{"text": ""}}); err == nil {
				t.Fatal("a call that hangs was answered")
			}
			if !c.json {
				<-progress
			}
			close(release) // the server ends a session only when its tools have ended
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			g.end()
			n := map[string]int{}
			for _, r := range g.record.all(t) {
				n[r.Action+" "+r.Tool]++
			}
			want := "map[tool.completed echo:1 tool.completed progress:1 tool.failed hang:1 tool.requested echo:1 tool.requested hang:1 tool.requested progress:1]"
			if fmt.Sprint(n) != want {
				t.Errorf("%v, want %s", n, want)
			}
		})
	}
}

// What is forwarded is the client's body and the server's messages, byte for byte.
func TestGatewayForwardsBytes(t *testing.T) {
	body := " {\"id\" : 1,\r\n \"method\":\"tools\\/call\",\"params\":{\"name\":\"x\",\"arguments\":{\"n\":1e400}}}\n"
	got := make(chan string, 1)
	answer := "{ \"id\":1.0,\r\n\"result\":{\"content\":[],\"x\":1.50}}"
	g := startGateway(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		got <- string(text)
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.Header().Set("Mcp-Session-Id", "s1")
		_, _ = io.WriteString(w, answer)
	}), nil)
	resp := g.post(body)
	g.says(resp, 200, answer)
	if text := <-got; text != body {
		t.Errorf("%q", text)
	}
	if resp.Header.Get("Mcp-Session-Id") != "s1" {
		t.Error(resp.Header)
	}
	g.end()
	equal(t, g.record.lines(t, true), []string{"completed x 1", "requested x 1"})
}

// Messages of a stream arrive one by one, with IDs and names, in whatever form the server frames
// them.
func TestGatewayStreams(t *testing.T) {
	next := make(chan string)
	g := startGateway(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		for text := range next {
			_, _ = io.WriteString(w, text)
			w.(http.Flusher).Flush()
		}
	}), nil)
	resp := g.post(aCall)
	in := bufio.NewReader(resp.Body)
	for _, c := range [][2]string{
		{"\ufeff: ping of 12:30\n\n", ":\n\n"},
		{"id: 1\rretry: 10\rdata\r\r", "id: 1\nretry: 10\ndata: \n\n"},
		{"event: message\r\ndata: {\"method\":\r\ndata:\"notifications/x\"}\r\nid: 2\r\n\r\n", "event: message\nid: 2\ndata: {\"method\": \"notifications/x\"}\n\n"},
		{"data: {\"method\":\"n\",\"params\":{\"t\":\"a\u2028b\"}}\n\n", "data: {\"method\":\"n\",\"params\":{\"t\":\"a\\u2028b\"}}\n\n"},
		{"unknown: 1\nevent: a\u0085b\ndata: {\"id\":1,\"result\":{}}\n\n", "data: {\"id\":1,\"result\":{}}\n\n"},
		{"data: x\n\n", "data: " + strings.TrimSpace(string(withheldLine(nil))) + "\n\n"},
		{"event: odd\ndata: {\"id\":1,\"result\":{}}\n\n", "event: odd\ndata: " + unasked + "\n\n"},
	} {
		next <- c[0]
		got := make([]byte, len(c[1]))
		if _, err := io.ReadFull(in, got); err != nil || string(got) != c[1] {
			t.Fatalf("%q became %q, want %q, %v", c[0], got, c[1], err)
		}
	}
	close(next)
	if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
	g.end()
	equal(t, g.record.lines(t, true), []string{"completed x 1", "requested x 1"})
}

func dial(t testing.TB, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}
