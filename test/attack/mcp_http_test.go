package attack

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"attestd/internal/harness"
)

// frames are forms in which a server sends an answer over HTTP. Parsers of server-sent events end
// lines elsewhere, ignore fields, or join lines otherwise.
var frames = []struct{ kind, form string }{
	{"application/json", "TOLD"},
	{"application/json", "\r\nTOLD\r\n"},
	{"text/plain", "TOLD"},
	{"text/event-stream", "data: TOLD\n\n"},
	{"text/event-stream", "data: TOLD"},
	{"text/event-stream", "data: {}\rdata: TOLD\r\r"},
	{"text/event-stream", ": x\u2028data: TOLD\n\n"},
	{"text/event-stream", "id: x\u0085data: TOLD\ndata: {}\n\n"},
	{"text/event-stream", "event: odd\ndata: TOLD\n\n"},
	{"text/event-stream", "Data: TOLD\ndata:\n\n"},
	{"text/event-stream", "data: [\ndata: TOLD\ndata: ]\n\n"},
	{"text/event-stream", "\ufeffdata: TOLD\n\n"},
}

// hostile is an MCP server over HTTP that answers as configured and stores what it has received.
type hostile struct {
	mu         sync.Mutex
	kind, text string
	received   []string
}

func (h *hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.received = append(h.received, string(body))
	w.Header().Set("Content-Type", h.kind)
	_, _ = io.WriteString(w, h.text) // the client may have gone
}

// isCall reports whether a body is a call for some parser.
func isCall(body string) bool {
	var m struct{ Method any }
	return json.Unmarshal([]byte(strings.TrimPrefix(body, "\ufeff")), &m) == nil &&
		strings.Contains(fmt.Sprint(m.Method), "tools/call")
}

// mcpHTTP lets a client and a server hide messages from the proxy between them, over HTTP. records
// reads the chain.
func mcpHTTP(ctx context.Context, r *run, s *harness.Service, key string, records func() (string, error)) (err error) {
	server := &hostile{kind: "application/json", text: `{"jsonrpc":"2.0","id":2,"result":{}}`}
	upstream := httptest.NewServer(server)
	defer upstream.Close()
	folder, err := r.Lab.Folder()
	if err != nil {
		return err
	}
	// closed, so that each record is on the chain before the call goes on
	cmd := exec.CommandContext(ctx, r.Lab.Binary(), "mcp", "--agent", "bot", "--fail", "closed", "--state", filepath.Join(folder, "state"),
		"--listen", "127.0.0.1:0", "--upstream", upstream.URL+"/mcp")
	cmd.Env = append(os.Environ(), "ATTESTD_URL=http://"+s.Addr, "ATTESTD_KEY="+key)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewReader(stderr)
	line, err := lines.ReadString('\n')
	_, address, ok := strings.Cut(strings.TrimSpace(line), " on ")
	if err != nil || !ok {
		return errors.Join(fmt.Errorf("attestd mcp: %s", line), err, cmd.Process.Kill(), cmd.Wait())
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	post := func(body string) (string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(body))
		if err != nil {
			return "", err
		}
		req.Header = http.Header{"Content-Type": {"application/json"},
			"Accept": {"application/json, text/event-stream"}}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return string(text), err
	}
	before, err := records()
	if err != nil {
		return err
	}
	hidden, calls := hiddenCalls(), 0
	for _, body := range hidden {
		if _, err := post(body); err != nil {
			return err
		}
	}
	for _, body := range server.received {
		if isCall(body) {
			calls++
		}
	}
	after, err := records()
	if err != nil {
		return err
	}
	const requested = `"tool.requested"`
	if n := strings.Count(after, requested) - strings.Count(before, requested); calls > n {
		r.Errorf("over HTTP the server finds %d calls, and %d are recorded", calls, n)
	}
	told := make(map[string]string)
	for i, answer := range hidingAnswers {
		for j, f := range frames {
			mark := fmt.Sprintf("TOLD-http-%d-%d-", i, j)
			server.mu.Lock()
			server.kind, server.text = f.kind, strings.ReplaceAll(strings.ReplaceAll(f.form, "TOLD", answer), "TOLD", mark)
			server.mu.Unlock()
			out, err := post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`)
			if err != nil {
				return err
			}
			if strings.Contains(out, mark) {
				told[mark] = f.form + " of " + answer
			}
		}
	}
	// it sends the last outcomes
	if err := errors.Join(cmd.Process.Signal(os.Interrupt), cmd.Wait()); err != nil {
		return err
	}
	recorded, err := records()
	if err != nil {
		return err
	}
	for mark, form := range told {
		if !strings.Contains(recorded, mark) {
			r.Errorf("the client is told over HTTP what no record has: %q", form)
		}
	}
	r.Count(len(hidden), "bodies with a hidden call")
	r.Count(len(hidingAnswers)*len(frames), "answers over HTTP that hide something")
	return nil
}
