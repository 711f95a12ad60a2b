package attack

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"attestd/internal/harness"
)

// hiddenCalls returns lines in which some parsers find a call of the tool "evil", and others do
// not.
func hiddenCalls() []string {
	const call = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"evil"}}`
	var lines []string
	for _, end := range []string{"\r", "\v", "\f", "\x1c", "\x1e", "\u0085", "\u2028", "\u2029", "\x00", " "} {
		lines = append(lines, `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":`+end+call+end+`}}`, `{}`+end+call+end,
			end+call, call+end)
	}
	for _, end := range []string{"\u0085", "\u2028", "\u2029"} {
		lines = append(lines, `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"`+end+`","b":`+call+`,"c":"`+end+`"}}`)
	}
	return append(lines, "\ufeff"+call, strings.Replace(call, `"id":2`, `"id":true`, 1),
		strings.Replace(call, `"tools/call"`, `["tools/call"]`, 1),
		strings.Replace(call, `"method"`, `"method":"ping","method"`, 1), strings.Replace(call, `"method"`, `"Method"`, 1))
}

// hidingAnswers are responses to call 1 that parsers understand differently.
var hidingAnswers = []string{
	`{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","content":[{"type":"text","text":"TOLD"}]}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":"TOLD"}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"t"},"structuredContent":{"a":"TOLD"}}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"content":["TOLD"]},"error":{"code":1,"message":"x"}}`,
	`{"jsonrpc":"2.0","id":1,"result":{},"Result":{"content":["TOLD"]}}`,
	`{"jsonrpc":"2.0","id":1,"method":"ping","result":{"content":["TOLD"]}}`,
	`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x","content":"TOLD"}}`,
	`{"jsonrpc":"2.0","id":true,"result":{"content":["TOLD"]}}`,
	`{"jsonrpc":"2.0","id":"0x1","result":{"content":["TOLD"]}}`,
	`{"jsonrpc":"2.0","id":"1","result":{"content":["TOLD"]}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"content":["TOLD"],"n":NaN}}`,
	"{}\r" + `{"jsonrpc":"2.0","id":1,"result":{"content":["TOLD"]}}`,
	`{"jsonrpc":"2.0","id":1,"result":{}} {"jsonrpc":"2.0","id":1,"result":{"content":["TOLD"]}}`,
}

// lineEnds matches what any parser accepts as the end of a line.
var lineEnds = regexp.MustCompile("[\n\r\v\f\x00\x1c-\x1e\u0085\u2028\u2029]+")

// mcp runs a client and a server that try to hide messages from the proxy between them.
func mcp(ctx context.Context, r *run) error {
	s, _, err := r.Lab.ServeNew(ctx, "--rate-limits", "off")
	if err != nil {
		return err
	}
	defer func() { _ = s.Stop() }()
	c := &harness.Client{Addr: s.Addr}
	defer c.Close()
	key, err := c.Register("acme")
	if err != nil {
		return err
	}
	folder, err := r.Lab.Folder()
	if err != nil {
		return err
	}
	arrived := filepath.Join(folder, "arrived")
	proxy := func(input string, server ...string) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, harness.Patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, r.Lab.Binary(),
			append([]string{"mcp", "--agent", "bot", "--state", filepath.Join(folder, "state"), "--"}, server...)...)
		cmd.Env = append(os.Environ(), "ATTESTD_URL=http://"+s.Addr, "ATTESTD_KEY="+key)
		cmd.Stdin = strings.NewReader(input)
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("attestd mcp: %w", err)
		}
		return string(out), nil
	}
	records := func() (string, error) {
		a, err := c.Do(harness.Request{Method: "GET", Path: "/v1/chain?limit=1000", Key: key})
		return string(a.Body), err
	}
	hidden, asked := hiddenCalls(), 0
	for _, line := range hidden {
		if _, err := proxy(line+"\n", "sh", "-c", `cat > "$0"`, arrived); err != nil {
			return err
		}
		text, err := os.ReadFile(arrived)
		if err != nil {
			return err
		}
		recorded, err := records()
		if err != nil {
			return err
		}
		calls := 0
		for _, piece := range lineEnds.Split(string(text), -1) {
			var m struct {
				Method any
			}
			if json.Unmarshal([]byte(piece), &m) == nil && strings.Contains(fmt.Sprint(m.Method), "tools/call") {
				calls++
			}
		}
		before := asked
		if asked = strings.Count(recorded, `"tool.requested"`); calls > asked-before {
			r.Errorf("the server finds %d calls in %q, and %d are recorded", calls, line, asked-before)
		}
	}
	for i, told := range hidingAnswers {
		mark := fmt.Sprintf("TOLD-%d-", i)
		out, err := proxy(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`+"\n",
			"sh", "-c", `IFS= read -r line; printf '%s\n' "$0"; cat > /dev/null`, strings.ReplaceAll(told, "TOLD", mark))
		if err != nil {
			return err
		}
		recorded, err := records()
		if err != nil {
			return err
		}
		if strings.Contains(out, mark) && !strings.Contains(recorded, mark) {
			r.Errorf("the client is told what no record has: %s", told)
		}
	}
	r.Count(len(hidden), "lines with a hidden call")
	r.Count(len(hidingAnswers), "answers that hide something")
	return mcpHTTP(ctx, r, s, key, func() (string, error) {
		var all strings.Builder
		for from := 0; ; from += 500 {
			a, err := c.Do(harness.Request{Method: "GET", Path: fmt.Sprintf("/v1/chain?limit=500&from=%d", from), Key: key})
			if err != nil || !strings.Contains(string(a.Body), `"actionType"`) {
				return all.String(), err
			}
			all.Write(a.Body)
		}
	})
}
