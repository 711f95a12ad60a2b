package mcptest

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"attestd/internal/harness"
	"attestd/internal/must"
	"attestd/sdk/attestd"
)

// service is an attestd with one company.
type service struct {
	t       *testing.T
	proc    *harness.Service
	db      string
	addr    string
	company string
	key     string
	client  *attestd.Client
}

func serve(t *testing.T) *service {
	t.Helper()
	proc, db, err := lab.ServeNew(t.Context(), "--rate-limits", "off", "--base-url", "")
	must.OK(t, err)
	s := &service{t: t, proc: proc, db: db, addr: proc.Addr, company: "acme"}
	t.Cleanup(func() {
		if s.proc.Running() == nil {
			must.OK(t, s.proc.Stop())
		}
	})
	public, err := attestd.New(attestd.Config{URL: "http://" + s.addr})
	must.OK(t, err)
	made, err := public.CreateCompany(t.Context(), attestd.NewCompany{CompanyID: s.company})
	must.OK(t, err)
	s.key = made.APIKey
	s.client = s.with(s.key)
	return s
}

// with is a client with another credential.
func (s *service) with(key string) *attestd.Client {
	c, err := attestd.New(attestd.Config{URL: "http://" + s.addr, Credential: attestd.Key(key)})
	must.OK(s.t, err)
	return c
}

func (s *service) kill() { must.OK(s.t, s.proc.Kill()) }

// back starts it again where it was.
func (s *service) back() {
	s.t.Helper()
	var err error
	s.proc, err = lab.Serve(context.WithoutCancel(s.t.Context()), s.db, "--rate-limits", "off", "--base-url", "", "--listen", s.addr)
	must.OK(s.t, err)
}

// verified is what the chain has of tool calls, after all of it was verified.
func (s *service) verified() (list []call) {
	s.t.Helper()
	if v, err := s.client.VerifyChain(s.t.Context(), attestd.Actions); err != nil || !v.Valid {
		s.t.Fatalf("the chain: %+v, %v", v, err)
	}
	for r, err := range s.client.Records(s.t.Context(), attestd.Range{}) {
		must.OK(s.t, err)
		c := call{Action: r.Payload.ActionType, Agent: r.Payload.AgentID}
		must.OK(s.t, json.Unmarshal(r.Payload.Payload, &c))
		if c.Action != "mcp.message" {
			list = append(list, c)
		}
	}
	return list
}

// otherMessages counts the chain's records of messages other than calls, by their senders and
// methods.
func (s *service) otherMessages() map[string]int {
	s.t.Helper()
	n := map[string]int{}
	for r, err := range s.client.Records(s.t.Context(), attestd.Range{}) {
		must.OK(s.t, err)
		var m struct {
			From, Method string
			Messages     int
		}
		must.OK(s.t, json.Unmarshal(r.Payload.Payload, &m))
		if r.Payload.ActionType == "mcp.message" {
			n[m.From+" "+m.Method] += max(1, m.Messages)
		}
	}
	return n
}

// call is a record of a tool call.
type call struct {
	Action, Agent                                  string `json:"-"`
	Tool, CallID, SessionID, Server, Error, Reason string
	Input                                          textInput
}

// counts says how many records there are of each action.
func counts(list []call) map[string]int {
	n := map[string]int{}
	for _, c := range list {
		n[strings.TrimPrefix(c.Action, "tool.")]++
	}
	return n
}

// proxied is a session through the proxy, with a tee at each side of it.
type proxied struct {
	*mcp.ClientSession
	folder string
	state  string
	cmd    *exec.Cmd
}

// proxy is the command of a proxy in front of a server, with the tees; further flags of attestd mcp
// are in flags.
func (s *service) proxy(folder, state string, server []string, flags ...string) *exec.Cmd {
	self, err := os.Executable()
	must.OK(s.t, err)
	args := []string{filepath.Join(folder, "client"), lab.Binary(), "mcp", "--state", state}
	args = append(append(args, flags...), "--", self, filepath.Join(folder, "server"))
	cmd := exec.Command(self, append(args, server...)...)
	cmd.Env = append(asRole("tee"), "ATTESTD_URL=http://"+s.addr, "ATTESTD_KEY="+s.key)
	cmd.Stderr = testLog{s.t}
	return cmd
}

// tools is the command of the test's own server.
func tools(t *testing.T) []string {
	self, err := os.Executable()
	must.OK(t, err)
	return []string{self, "-"}
}

// connect begins a session of the go-sdk's client in a revision of the protocol.
func (s *service) connect(c *mcp.Client, revision, state string, flags ...string) *proxied {
	s.t.Helper()
	folder := s.t.TempDir()
	if state == "" {
		state = filepath.Join(folder, "state")
	}
	cmd := s.proxy(folder, state, tools(s.t), flags...)
	session, err := c.Connect(s.t.Context(), &mcp.CommandTransport{Command: cmd}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	must.OK(s.t, err)
	return &proxied{session, folder, state, cmd}
}

// separators are characters at which some readers end a line; the proxy hands on their escapes.
var separators = strings.NewReplacer("\u0085", `\u0085`, "\u2028", `\u2028`, "\u2029", `\u2029`)

// unchanged demands that both tees have seen the same bytes, except for separators, and returns
// what the client has sent and got.
func unchanged(t *testing.T, folder string) (sent, got []byte) {
	t.Helper()
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(folder, name))
		must.OK(t, err)
		return text
	}
	sent, got = read("client.in"), read("client.out")
	if at := read("server.in"); separators.Replace(string(sent)) != string(at) {
		t.Errorf("the client sent %d bytes, the server got %d others", len(sent), len(at))
	}
	if at := read("server.out"); separators.Replace(string(at)) != string(got) {
		t.Errorf("the server sent %d bytes, the client got %d others", len(at), len(got))
	}
	return sent, got
}

// count counts the lines of a log with a text.
func count(log []byte, text string) int { return bytes.Count(log, []byte(text)) }

// testLog writes standard error of the processes to the test's log.
type testLog struct{ t *testing.T }

func (l testLog) Write(b []byte) (int, error) {
	if l.t.Context().Err() == nil {
		l.t.Logf("%s", bytes.TrimSpace(b))
	}
	return len(b), nil
}
