package mcpproxy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"attestd/chain/decision"
	"attestd/sdk/attestd"
)

// recorder stores records in memory.
type recorder struct {
	mu      sync.Mutex
	records []attestd.Attestation
	keys    map[string]bool

	persist func(attestd.Attestation) error // may return an error; nil accepts all
	attest  func(context.Context, attestd.Attestation) error
	made    *decision.Decision                           // of each record
	decide  func(attestd.Attestation) *decision.Decision // in place of made
}

func (r *recorder) Persist(_ context.Context, a attestd.Attestation) error {
	if r.persist != nil {
		if err := r.persist(a); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keys == nil {
		r.keys = map[string]bool{}
	}
	if !r.keys[a.IdempotencyKey] {
		r.keys[a.IdempotencyKey] = true
		r.records = append(r.records, a)
	}
	return nil
}

func (r *recorder) Attest(ctx context.Context, a attestd.Attestation) (*decision.Decision, error) {
	if r.attest != nil {
		if err := r.attest(ctx, a); err != nil {
			return nil, err
		}
	}
	made := r.made
	if r.decide != nil {
		made = r.decide(a)
	}
	return made, r.Persist(ctx, a)
}

// recorded has the members of a record that the tests check.
type recorded struct {
	Action      string
	Tool        string
	Server      string
	CallID      string
	SessionID   string
	TraceParent string
	Input       json.RawMessage
	Output      json.RawMessage
	Error       string
	Reason      string
}

// all are the records except those of other messages than calls.
func (r *recorder) all(t testing.TB) (list []recorded) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.records {
		if a.ActionType == "mcp.message" {
			continue
		}
		v := recorded{Action: a.ActionType}
		if err := json.Unmarshal(a.Payload.(json.RawMessage), &v); err != nil {
			t.Fatal(err)
		}
		list = append(list, v)
	}
	return list
}

// lines returns one short line for each record, optionally sorted.
func (r *recorder) lines(t testing.TB, sorted bool) []string {
	t.Helper()
	var list []string
	for _, v := range r.all(t) {
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s %s %s%s", strings.TrimPrefix(v.Action, "tool."), v.Tool, v.CallID, v.Error, v.Reason)))
	}
	if sorted {
		slices.Sort(list)
	}
	return list
}

// session is a proxy between a client and a server that the test simulates.
type session struct {
	t      testing.TB
	proxy  *Proxy
	record *recorder

	client, server     io.WriteCloser // sending ends
	toClient, toServer *bufio.Reader  // receiving ends
	clientEnd          io.Closer      // closes the client's receiving end
	done               chan error
}

// start starts a session, which ends when the test ends the server.
func start(t testing.TB, c Config) *session {
	t.Helper()
	s := &session{t: t, done: make(chan error, 1)}
	if c.Recorder == nil {
		s.record = new(recorder)
		c.Recorder = s.record
	} else {
		s.record = c.Recorder.(*recorder)
	}
	c.Agent, c.Server = "bot", "files"
	if c.Warn == nil {
		c.Warn = func(text string) { t.Log("warning:", text) }
	}
	s.proxy = New(c)
	fromClient, client := io.Pipe()
	fromServer, server := io.Pipe()
	atServer, toServer := io.Pipe()
	atClient, toClient := io.Pipe()
	s.client, s.server, s.toServer, s.toClient = client, server, bufio.NewReader(atServer), bufio.NewReader(atClient)
	s.clientEnd = atClient
	go func() {
		err := s.proxy.Run(t.Context(), fromClient, toClient, fromServer, toServer)
		toClient.Close()
		fromClient.Close()
		s.done <- err
	}()
	return s
}

// end ends the server, waits for the session, and returns its error.
func (s *session) end() error {
	s.t.Helper()
	s.server.Close()
	go func() { _, _ = io.Copy(io.Discard, s.toClient) }()
	go func() { _, _ = io.Copy(io.Discard, s.toServer) }()
	err := <-s.done
	s.client.Close()
	return err
}

func send(t testing.TB, to io.Writer, line string) {
	t.Helper()
	if _, err := io.WriteString(to, line+"\n"); err != nil {
		t.Error(err)
	}
}

// gets checks the next line on one side.
func gets(t testing.TB, side *bufio.Reader, want string) {
	t.Helper()
	got, err := side.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if got = strings.TrimSuffix(got, "\n"); got != want {
		t.Fatalf("got  %.300s\nwant %.300s", got, want)
	}
}

// ask sends a line from the client and checks that the server gets it.
func (s *session) ask(line string) {
	s.t.Helper()
	send(s.t, s.client, line)
	gets(s.t, s.toServer, line)
}

// reply sends a line from the server and checks that the client gets it.
func (s *session) reply(line string) {
	s.t.Helper()
	send(s.t, s.server, line)
	gets(s.t, s.toClient, line)
}

func equal(t testing.TB, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}
