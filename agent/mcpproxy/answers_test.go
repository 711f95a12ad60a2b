package mcpproxy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// answerCase is a response of an MCP server over HTTP to a call.
type answerCase struct {
	status     int
	kind, body string // ID is replaced with that of the call
}

// answerCases has each status with each content type and each body.
func answerCases() (list []answerCase) {
	answered := `{"jsonrpc":"2.0","id":ID,"result":{"content":[]}}`
	for _, status := range []int{200, 201, 202, 204, 301, 400, 401, 403, 404, 429, 500, 503} {
		for _, kind := range []string{"", "application/json", "text/event-stream", "text/html", "application/octet-stream"} {
			for _, body := range []string{
				"", answered, "[" + answered + "]", "[" + answered + "," + answered + "]", "data: " + answered + "\n\n", "id: 1\ndata: " + answered + "\n\n",
				"data: " + answered, "data: " + answered + "\n\ndata: " + answered + "\n\n", "data: {}\n\n", "data: x\n\n", ": only a comment\n\n",
				`{"jsonrpc":"2.0","id":"ID","result":{}}`, `{"jsonrpc":"2.0","id":77777,"result":{}}`, `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}`,
				`{"jsonrpc":"2.0","id":ID,"error":{"code":1,"message":"x"}}`, `{"jsonrpc":"2.0","id":ID,"result":{},"error":{"code":1,"message":"x"}}`,
				`{"jsonrpc":"2.0","method":"notifications/x"}`, `{"jsonrpc":"2.0","id":ID,"method":"ping"}`, "[]", "{}", "7", "[[" + answered + "]]",
				"<html>Sign in</html>", "{", "\xff",
			} {
				if status != http.StatusNoContent || body == "" {
					list = append(list, answerCase{status, kind, body})
				}
			}
		}
	}
	return list
}

// answersCases is a server that responds to call n with case n.
func answersCases(cases []answerCase) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			Params struct{ Arguments struct{ N int } }
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		c := cases[m.Params.Arguments.N]
		w.Header()["Content-Type"] = nil
		if c.kind != "" {
			w.Header().Set("Content-Type", c.kind)
		}
		w.WriteHeader(c.status)
		_, _ = io.WriteString(w, strings.ReplaceAll(c.body, "ID", fmt.Sprint(m.Params.Arguments.N+1000)))
	}
}

func callOfCase(n int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"x","arguments":{"n":%d}}}`, n+1000, n)
}

// readAnswers adds the responses in a JSON value to their number by ID; a text with the same digits
// is the same ID.
func readAnswers(t *testing.T, answers map[string]int, text string) {
	t.Helper()
	messages, _, err := readBody([]byte(text))
	if err != nil {
		t.Fatalf("the client read %q: %v", text, err)
	}
	for _, m := range messages {
		if m.outcome {
			answers[strings.Trim(string(m.id), `"`)]++
		}
	}
}

// recordsOfCases checks that each call has two records, the request and one outcome.
func recordsOfCases(t *testing.T, r *recorder, cases []answerCase) {
	t.Helper()
	requested, ended := map[string]int{}, map[string]int{}
	for _, one := range r.all(t) {
		if one.Action == "tool.requested" {
			requested[one.CallID]++
		} else {
			ended[one.CallID]++
		}
	}
	for n, c := range cases {
		if id := fmt.Sprint(n + 1000); requested[id] != 1 || ended[id] != 1 {
			t.Errorf("%+v: %d requests and %d outcomes on record", c, requested[id], ended[id])
		}
	}
}

// Whatever a server over HTTP answers, with which status and of which type, a client over standard
// input and output has exactly one answer to each call, and the call one outcome.
func TestBridgeAnswersEachCallOnce(t *testing.T) {
	t.Parallel()
	cases := answerCases()
	upstream := httptest.NewServer(answersCases(cases))
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
		err := New(Config{Agent: "bot", Server: "s", Recorder: r, Warn: func(string) {}}).ServeRemote(t.Context(), remote, in, out)
		out.Close()
		done <- err
	}()
	answers := make(map[string]int)
	lines := bufio.NewReader(toClient)
	for n, c := range cases {
		send(t, client, callOfCase(n))
		for answers[fmt.Sprint(n+1000)] == 0 {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatalf("%+v: %v", c, err)
			}
			readAnswers(t, answers, line)
		}
	}
	client.Close()
	rest, err := io.ReadAll(lines)
	if err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(string(rest)) {
		readAnswers(t, answers, line)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	for n, c := range cases {
		if got := answers[fmt.Sprint(n+1000)]; got != 1 {
			t.Errorf("%+v has %d answers", c, got)
		}
	}
	recordsOfCases(t, r, cases)
}

// The same holds for a client over HTTP: its answer is an error of HTTP, or a message with the ID
// of the call, in JSON or in a stream.
func TestGatewayAnswersEachCallOnce(t *testing.T) {
	t.Parallel()
	cases := answerCases()
	g := startGateway(t, answersCases(cases), func(c *GatewayConfig) { c.Warn = func(string) {} })
	for n, c := range cases {
		resp := g.post(callOfCase(n))
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		resp.Body.Close()
		answers, id := map[string]int{}, fmt.Sprint(n+1000)
		switch kind := mediaType(resp.Header); {
		case resp.StatusCode >= 400:
			answers[id]++
		case resp.StatusCode != http.StatusOK:
		case kind == jsonType:
			readAnswers(t, answers, string(body))
		case kind == sseType:
			events := newEvents(strings.NewReader(string(body)), 1<<20, nil)
			for ev, err := events.next(); err == nil; ev, err = events.next() {
				if len(ev.data) > 0 {
					readAnswers(t, answers, string(ev.data))
				}
			}
		}
		if answers[id] != 1 {
			t.Errorf("%+v has %d answers: HTTP %d %s", c, answers[id], resp.StatusCode, body)
		}
	}
	g.end()
	recordsOfCases(t, g.record, cases)
}

// A batch over HTTP has an answer to each of its calls in one array.
func TestGatewayAnswersBatches(t *testing.T) {
	t.Parallel()
	batch := `[{"id":1,"method":"tools/call","params":{"name":"x"}},{"id":2,"method":"ping"},{"id":3,"method":"tools/call","params":{"name":"evil"}}]`
	for _, c := range []answerCase{
		{200, "application/json", `[{"id":1,"result":{}},{"id":2,"result":{}}]`}, {200, "application/json", `[{"id":2,"result":{}}]`}, {200, "application/json", `{"id":1,"result":{}}`},
		{200, "application/json", `{"method":"x"}`}, {202, "", ""},
	} {
		g := startGateway(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", c.kind)
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}), func(g *GatewayConfig) { g.Gate, g.Warn = only("x"), func(string) {} })
		body, err := io.ReadAll(g.post(batch).Body)
		if err != nil {
			t.Fatal(err)
		}
		answers := map[string]int{}
		readAnswers(t, answers, string(body))
		for _, id := range []string{"1", "2", "3"} {
			if answers[id] != 1 {
				t.Errorf("%+v: request %s has %d answers: %s", c, id, answers[id], body)
			}
		}
		g.end()
	}
}
