package mcptest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"attestd/internal/must"
)

// serveHTTPTools serves the tools over streamable HTTP, prints the address, and appends each body
// that it gets to a file, as a line.
func serveHTTPTools(log string, stateless bool) int {
	out, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	tools := toolServer()
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return tools }, &mcp.StreamableHTTPOptions{
		Stateless: stateless, EventStore: mcp.NewMemoryEventStore(nil), MaxRequestBodyBytes: 64 << 20,
	})
	fmt.Println(listener.Addr())
	err = http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if len(body) > 0 {
			_, _ = out.Write(append(bytes.Clone(body), '\n'))
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		handler.ServeHTTP(w, r)
	}))
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// program is a program that prints its address.
type program struct {
	*exec.Cmd
	addr string
	read chan struct{} // closed when everything that it prints is read
}

// startProgram starts a program and waits for the line with its address, after this prefix, on
// standard output or, as attestd does, on standard error.
func startProgram(t *testing.T, cmd *exec.Cmd, prefix string, answer io.Writer) *program {
	t.Helper()
	read, write, err := os.Pipe()
	must.OK(t, err)
	cmd.Stdout, cmd.Stderr = write, write
	must.OK(t, cmd.Start())
	write.Close()
	lines := bufio.NewReader(read)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("%v: %v", cmd.Args, err)
		}
		if at := strings.Index(line, prefix); at >= 0 {
			p := &program{cmd, strings.TrimSpace(line[at+len(prefix):]), make(chan struct{})}
			_, _ = io.WriteString(answer, line)
			go func() {
				defer close(p.read)
				_, _ = io.Copy(answer, lines)
				read.Close()
			}()
			t.Cleanup(p.kill)
			return p
		}
	}
}

// kill kills the program and waits for its end. Killing it again does nothing.
func (p *program) kill() {
	_ = p.Process.Kill() // it may have ended
	_ = p.Wait()
}

// httpTools starts the test's own server.
func httpTools(t *testing.T, log string, stateless bool) *program {
	t.Helper()
	self, err := os.Executable()
	must.OK(t, err)
	kind := "stateful"
	if stateless {
		kind = "stateless"
	}
	cmd := exec.Command(self, log, kind)
	cmd.Env = asRole("http")
	return startProgram(t, cmd, "127.0.0.1:", testLog{t}).at("http://127.0.0.1:", "/mcp")
}

// at completes the address.
func (p *program) at(before, after string) *program {
	p.addr = before + p.addr + after
	return p
}

// listening starts attestd mcp in front of a server.
func (s *service) listening(listen, state, upstream string, flags ...string) *program {
	s.t.Helper()
	args := []string{"mcp", "--listen", listen, "--upstream", upstream, "--agent", "bot", "--server", "tools", "--state", state}
	cmd := exec.Command(lab.Binary(), append(args, flags...)...)
	cmd.Env = append(cmd.Environ(), "ATTESTD_URL=http://"+s.addr, "ATTESTD_KEY="+s.key)
	return startProgram(s.t, cmd, " on ", testLog{s.t})
}

// listeningWith is listening with further variables, and says what the proxy has printed.
func (s *service) listeningWith(texts io.Writer, environment []string, upstream string, flags ...string) *program {
	s.t.Helper()
	args := []string{"mcp", "--listen", "127.0.0.1:0", "--upstream", upstream, "--state", filepath.Join(s.t.TempDir(), "state")}
	cmd := exec.Command(lab.Binary(), append(args, flags...)...)
	cmd.Env = append(append(cmd.Environ(), "ATTESTD_URL=http://"+s.addr, "ATTESTD_KEY="+s.key), environment...)
	return startProgram(s.t, cmd, " on ", texts)
}

func dialHTTP(t *testing.T, c *mcp.Client, address, revision string) *mcp.ClientSession {
	t.Helper()
	session, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: address},
		&mcp.ClientSessionOptions{ProtocolVersion: revision})
	must.OK(t, err)
	return session
}

// received returns what our server has received.
func received(t *testing.T, log string) []byte {
	t.Helper()
	text, err := os.ReadFile(log)
	must.OK(t, err)
	return text
}

func logFile(t *testing.T) string { return filepath.Join(t.TempDir(), "received") }

// freePort is a port for a program that cannot choose one itself.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	must.OK(t, err)
	return port
}
