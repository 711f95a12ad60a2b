package mcptest

import (
	"bufio"
	"path/filepath"
	"strings"
	"testing"

	"attestd/internal/must"
)

// In revision 2025-03-26 a line may be an array of messages. The calls in it are recorded one by
// one, and it goes on as it is.
func TestBatch(t *testing.T) {
	t.Parallel()
	s := serve(t)
	folder := t.TempDir()
	cmd := s.proxy(folder, filepath.Join(folder, "state"), tools(t), "--server", "tools")
	in, err := cmd.StdinPipe()
	must.OK(t, err)
	out, err := cmd.StdoutPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	answers := bufio.NewReader(out)
	send := func(line string) {
		_, err := in.Write([]byte(line + "\n"))
		must.OK(t, err)
	}
	receive := func(texts ...string) {
		t.Helper()
		line, err := answers.ReadString('\n')
		must.OK(t, err)
		for _, text := range texts {
			if !strings.Contains(line, text) {
				t.Errorf("no %s in %s", text, line)
			}
		}
	}
	send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`)
	receive(`"protocolVersion":"2025-03-26"`)
	send(`[{"jsonrpc":"2.0","method":"notifications/initialized"}]`)
	send(`[ {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"one"}}},` +
		`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"fail","arguments":{"text":"two"}}},{"jsonrpc":"2.0","id":3,"method":"ping"}]`)
	receive(`[{`, `"one"`, `"two"`, `"id":3`)
	must.OK(t, in.Close())
	must.OK(t, cmd.Wait())
	unchanged(t, folder)
	if n := counts(s.verified()); n["requested"] != 2 || n["completed"] != 1 || n["failed"] != 1 {
		t.Errorf("%v", n)
	}
}
