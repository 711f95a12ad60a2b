package mcpproxy

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// messages returns one line for each record of another message than a call, sorted, without the
// session.
func (r *recorder) messages(t testing.TB) (list []string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.records {
		if a.ActionType != "mcp.message" {
			continue
		}
		var v struct {
			Source, Server, SessionID, From, Method, Name, RequestID, Error string
			Messages                                                        int
			Content                                                         *struct {
				SHA256 string
				Bytes  int
			}
		}
		d := json.NewDecoder(strings.NewReader(string(a.Payload.(json.RawMessage))))
		d.DisallowUnknownFields()
		if err := d.Decode(&v); err != nil || v.Source != "mcp" || v.Server == "" || v.SessionID == "" {
			t.Fatalf("%s: %v", a.Payload, err)
		}
		line := v.From + " " + v.Method
		for _, more := range []string{v.Name, v.RequestID, v.Error} {
			if more != "" {
				line += " " + more
			}
		}
		if v.Messages > 0 {
			line += fmt.Sprintf(" ×%d", v.Messages)
		}
		if v.Content != nil {
			line += fmt.Sprintf(" %d %s", v.Content.Bytes, v.Content.SHA256)
		}
		list = append(list, line)
	}
	slices.Sort(list)
	return list
}

// hashed is how a record shows content: its size and its hash.
func hashed(content string) string {
	return fmt.Sprintf("%d %x", len(content), sha256.Sum256([]byte(content)))
}

// exchanged is a conversation without calls: what each side says, one after the other.
var exchanged = []struct{ client, server []string }{
	{
		client: []string{`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"https://h/a?access_token=ghp_0123456789abcdefghijABCDEFGHIJ012345"}}`},
		server: []string{
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1,"progressToken":7}}`,
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":2,"progressToken":7}}`,
			`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"x","level":"info"}}`,
			`{"jsonrpc":"2.0","id":"s1","method":"sampling/createMessage","params":{"maxTokens":9}}`,
			`{"jsonrpc":"2.0","id":2,"method":"elicitation/create","params":{"message":"who?"}}`,
			`{"jsonrpc":"2.0","id":3,"method":"ping"}`,
			`{"jsonrpc":"2.0","id":1,"result":{"contents":[]}}`,
		},
	},
	{client: []string{`{"jsonrpc":"2.0","id":"s1","result":{"role":"assistant"}}`}},
	{client: []string{`{"jsonrpc":"2.0","id":2,"error":{"code":-1,"message":"no"}}`}},
	{client: []string{`{"jsonrpc":"2.0","id":3,"result":{}}`}},
	{
		client: []string{`{"jsonrpc":"2.0","id":"p","method":"prompts/get","params":{"name":"greet"}}`},
		server: []string{`{"jsonrpc":"2.0","id":"p","error":{"code":-32602,"message":"unknown prompt"}}`},
	},
}

// wantMessages is the record of exchanged.
func wantMessages() []string {
	one, two := hashed(`{"progress":1,"progressToken":7}`), hashed(`{"progress":2,"progressToken":7}`)
	first, second := sha256.Sum256([]byte(`{"progress":1,"progressToken":7}`)), sha256.Sum256([]byte(`{"progress":2,"progressToken":7}`))
	both := sha256.Sum256(fmt.Appendf(nil, "%x\n%x\n", first, second))
	var sizes [2]int
	_, _ = fmt.Sscan(one, &sizes[0])
	_, _ = fmt.Sscan(two, &sizes[1])
	want := []string{
		"client elicitation/create 2 no (code -1)",
		"client prompts/get greet p unknown prompt (code -32602)",
		"client resources/read https://h/a?[masked 53] 1 " + hashed(`{"contents":[]}`),
		"client sampling/createMessage s1 " + hashed(`{"role":"assistant"}`),
		"server elicitation/create 2 " + hashed(`{"message":"who?"}`),
		"server notifications/message " + hashed(`{"data":"x","level":"info"}`),
		fmt.Sprintf("server notifications/progress ×2 %d %x", sizes[0]+sizes[1], both),
		"server sampling/createMessage s1 " + hashed(`{"maxTokens":9}`),
	}
	slices.Sort(want)
	return want
}

// Other messages than calls are recorded by their hash, whichever way client and server talk: what
// is read, what the server asks and is answered, and what it says.
func TestOtherMessagesAreRecorded(t *testing.T) {
	t.Parallel()
	overStandardInput := func(t *testing.T, c Config) *recorder {
		s := start(t, c)
		for _, step := range exchanged {
			for _, line := range step.client {
				s.ask(line)
			}
			for _, line := range step.server {
				s.reply(line)
			}
		}
		_ = s.end()
		return s.record
	}
	overHTTP := func(t *testing.T, c Config) *recorder {
		step := 0
		g := startGateway(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			sent := exchanged[step].server
			if step++; len(sent) == 0 {
				w.WriteHeader(http.StatusAccepted)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			for _, line := range sent {
				fmt.Fprintf(w, "data: %s\n\n", line)
			}
		}), func(of *GatewayConfig) { of.CallsOnly = c.CallsOnly })
		for _, step := range exchanged {
			resp := g.post(step.client[0], "Mcp-Session-Id", "one")
			_, _ = io.Copy(io.Discard, resp.Body)
		}
		g.end()
		return g.record
	}
	for face, run := range map[string]func(*testing.T, Config) *recorder{"standard input": overStandardInput, "HTTP": overHTTP} {
		t.Run(face, func(t *testing.T) {
			t.Parallel()
			equal(t, run(t, Config{}).messages(t), wantMessages())
			if got := run(t, Config{CallsOnly: true}).messages(t); len(got) > 0 {
				t.Errorf("with calls only there are records of %q", got)
			}
		})
	}
}

// A request for content that is not answered says so.
func TestReadWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	s.ask(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///a"}}`)
	s.ask(`{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"file:///b"}}`)
	send(t, s.server, `{"jsonrpc":"2.0","id":2,"result":{"a":1},"result":{"a":2}}`)
	gets(t, s.toClient, `{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"attestd withheld the server's response: it has a duplicate member"}}`)
	_ = s.end()
	withheld := s.record.messages(t)[1]
	if !strings.HasPrefix(withheld, "client resources/read file:///b 2 attestd withheld the server's response: it has a duplicate member ") {
		t.Errorf("the withheld answer is recorded as %s", withheld)
	}
	equal(t, s.record.messages(t)[:1], []string{"client resources/read file:///a 1 the server ended before it answered"})
}

// A read that only a lenient server finds is recorded, and one of which two parsers could find
// another name is refused.
func TestReadsOfLenientServers(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Warn: func(string) {}})
	s.ask(`{"jsonrpc":"2.0","id":1,"method":"Resources/Read","params":{"uri":"file:///a"}}`)
	s.reply(`{"jsonrpc":"2.0","id":1,"result":{"contents":[]}}`)
	for n, params := range []string{`{"uri":"file:///a","uri":"file:///b"}`, `{"uri":"file:///a","URI":"file:///b"}`} {
		send(t, s.client, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/read","params":%s}`, n+2, params))
		if answer, err := s.toClient.ReadString('\n'); err != nil || !strings.Contains(answer, flawDuplicate) {
			t.Errorf("%s: %s, %v", params, answer, err)
		}
	}
	_ = s.end()
	equal(t, s.record.messages(t), []string{"client Resources/Read file:///a 1 " + hashed(`{"contents":[]}`)})
}

// A server that talks without end makes few records, and none of what it says is missing in them.
func TestChattyServerMakesFewRecords(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	go func() { _, _ = io.Copy(io.Discard, s.toClient) }()
	const requests, methods = 500, 100
	for n := range requests {
		send(t, s.server, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ask/%d","params":{}}`, n, n%methods))
		send(t, s.server, fmt.Sprintf(`{"jsonrpc":"2.0","method":"tell/%d","params":{}}`, n%methods))
	}
	s.server.Close()
	if err := <-s.done; err != nil {
		t.Fatal(err)
	}
	records, total := s.record.messages(t), 0
	for _, line := range records {
		n := 1
		if _, count, counted := strings.Cut(line, "×"); counted {
			_, _ = fmt.Sscan(count, &n)
		}
		total += n
	}
	if total != 2*requests || len(records) > maxMessages+maxMethods+1 {
		t.Errorf("%d records of %d messages, of %d", len(records), total, 2*requests)
	}
}
