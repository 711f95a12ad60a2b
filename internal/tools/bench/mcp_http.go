package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// serveTool is an MCP server over HTTP in this process that responds at once.
func serveTool() (server *http.Server, address string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		_, rest, _ := strings.Cut(string(body), `"id":`)
		id, _, _ := strings.Cut(rest, ",")
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"done"}]}}`, id)
	})}
	go func() { _ = server.Serve(listener) }() // until Close
	return server, "http://" + listener.Addr().String() + "/mcp", nil
}

// httpTool calls a tool over HTTP, of a server or of a proxy.
type httpTool struct {
	address string
	client  *http.Client
}

func newHTTPTool(address string) *httpTool {
	return &httpTool{address, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}, Timeout: time.Minute}}
}

// call makes n concurrent calls and returns when all have responses.
func (t *httpTool) call(n int) error {
	var calls errgroup.Group
	for id := range n {
		calls.Go(func() error {
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"transfer","arguments":%s}}`, id, callerPayload)
			req, err := http.NewRequest(http.MethodPost, t.address, strings.NewReader(body))
			if err != nil {
				return err
			}
			req.Header = http.Header{"Content-Type": {"application/json"},
				"Accept": {"application/json, text/event-stream"}}
			resp, err := t.client.Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			answer, err := io.ReadAll(resp.Body)
			if err == nil && !strings.Contains(string(answer), `"done"`) {
				err = fmt.Errorf("the call was answered with HTTP %d %.200s", resp.StatusCode, answer)
			}
			return err
		})
	}
	return calls.Wait()
}

// mcpHTTP measures what attestd mcp adds to a call over HTTP, as mcp does over standard input and
// output.
func (b *bench) mcpHTTP(ctx context.Context) (err error) {
	server, t, err := b.serveTenant(ctx, "mcp-http.db")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	upstream, address, err := serveTool()
	if err != nil {
		return err
	}
	defer upstream.Close()
	for _, fail := range []string{"open", "closed"} {
		proxy := exec.Command(b.small(), "mcp", "--fail", fail, "--state", filepath.Join(b.dir, "mcp-http-"+fail),
			"--listen", "127.0.0.1:0", "--upstream", address)
		proxy.Env = append(os.Environ(), "ATTESTD_URL=http://"+server.addr, "ATTESTD_KEY="+t.key)
		stderr, err := proxy.StderrPipe()
		if err != nil {
			return err
		}
		if err := proxy.Start(); err != nil {
			return err
		}
		line, err := bufio.NewReader(stderr).ReadString('\n')
		_, at, ok := strings.Cut(strings.TrimSpace(line), " on ")
		if err == nil && !ok {
			err = fmt.Errorf("the proxy did not start: %s", line)
		}
		if err == nil {
			go func() { _, _ = io.Copy(b.stderr, stderr) }()
			err = b.compareTools(ctx, "mcp over http", "fail "+fail, proxy.Process.Pid, newHTTPTool(address),
				newHTTPTool(at))
		}
		err = errors.Join(err, proxy.Process.Signal(os.Interrupt), proxy.Wait())
		if err != nil {
			return err
		}
	}
	return nil
}
