package mcptest

//lint:file-ignore SA1019 Sampling is deprecated since 2026-07-28, and goes through the proxy all the same.

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// events counts the requests and notifications that a client received.
type events struct{ progress, changed, asked, sampled atomic.Int64 }

func (e *events) client() *mcp.Client {
	return mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			e.asked.Add(1)
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
		},
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			e.sampled.Add(1)
			return &mcp.CreateMessageResult{Model: "m", Role: "assistant", Content: &mcp.TextContent{Text: "hello"}}, nil
		},
		ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { e.progress.Add(1) },
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { e.changed.Add(1) },
	})
}

// await waits for what comes in addition to answers: notices of progress and, if it should, of a
// change.
func (e *events) await(t *testing.T, progress int64, change bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); e.progress.Load() < progress || change && e.changed.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("progress %d, changes %d", e.progress.Load(), e.changed.Load())
		}
	}
}

// givesUp calls the tool that hangs, and gives up when the log of the server has the call.
func (p *proxied) givesUp(t *testing.T, log string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer cancel()
		for ctx.Err() == nil {
			if text, err := os.ReadFile(log); err == nil && count(text, `"name":"hang"`) > 0 {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	if _, err := p.CallTool(ctx, &mcp.CallToolParams{Name: "hang", Arguments: map[string]any{"text": ""}}); err == nil {
		t.Error("a call that hangs was answered")
	}
}

// says calls a tool and demands what it answers.
func (p *proxied) says(t *testing.T, tool, input, want string) {
	t.Helper()
	params := &mcp.CallToolParams{Name: tool, Arguments: map[string]any{"text": input}}
	if tool == "progress" {
		params.SetProgressToken("p1")
	}
	r, err := p.CallTool(t.Context(), params)
	if err != nil {
		t.Errorf("%s: %v", tool, err)
		return
	}
	if got := r.Content[0].(*mcp.TextContent).Text; got != want {
		t.Errorf("%s: %.200q, want %.200q", tool, got, want)
	}
}

// Each revision of the protocol goes through the proxy unchanged: 200 calls at once while attestd
// is killed and comes back, messages of 8 MiB, progress, cancellation, elicitation, sampling,
// changes of the list, errors of both kinds. Afterwards the chain has every call once, with its
// outcome.
func TestRevisions(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			if revision != "2025-11-25" {
				testenv.Needs(t, testenv.Slow) // this one shows most of it
			}
			s := serve(t)
			var e events
			p := s.connect(e.client(), revision, "", "--agent", "bot", "--server", "tools")
			if got := p.InitializeResult().ProtocolVersion; got != revision {
				t.Fatal("the session speaks", got)
			}
			var calls sync.WaitGroup
			for n := range 200 {
				calls.Go(func() { p.says(t, "echo", fmt.Sprint("parallel ", n), fmt.Sprint("parallel ", n)) })
				if n == 50 {
					s.kill()
				}
			}
			p.says(t, "echo", "away", "away")
			calls.Wait()
			s.back()

			big := strings.Repeat("0123456789abcdef", 8<<16)
			p.says(t, "echo", big, big)
			p.says(t, "fail", "no way", "no way")
			p.says(t, "progress", "", "done")
			p.says(t, "ask", "", "the user said Ada")
			p.says(t, "sample", "", "hello")
			p.says(t, "grow", "", "grown1")
			if _, err := p.CallTool(t.Context(), &mcp.CallToolParams{Name: "absent"}); err == nil {
				t.Error("a tool that is not there was called")
			}
			p.givesUp(t, filepath.Join(p.folder, "server.in"))
			p.says(t, "echo", "last", "last")
			if list, err := p.ListTools(t.Context(), nil); err != nil || len(list.Tools) != 9 {
				t.Errorf("%v tools, %v", list, err)
			}
			e.await(t, 5, revision < "2026")
			must.OK(t, p.Close())
			if e.progress.Load() != 5 || e.asked.Load() != 1 || e.sampled.Load() != 1 {
				t.Errorf("progress %d, elicitation %d, sampling %d", e.progress.Load(), e.asked.Load(), e.sampled.Load())
			}

			sent, got := unchanged(t, p.folder)
			if revision < "2026" && (e.changed.Load() == 0 || count(got, "notifications/tools/list_changed") == 0) {
				t.Error("no list_changed")
			}
			asked, input := count(sent, `"method":"tools/call"`), count(got, `"resultType":"input_required"`)
			if asked != 210+input {
				t.Errorf("%d calls, %d answers that need input", asked, input)
			}
			list := s.verified()
			n := counts(list)
			if n["requested"] != asked || n["completed"]+n["failed"] != asked-input || n["failed"] != 3 || n["pending"] != input || len(list) != 2*asked {
				t.Errorf("%d calls and %d answers that need input made %v", asked, input, n)
			}
			second := s.otherMessages()
			if second["server notifications/progress"] != 5 {
				t.Errorf("beside calls there are %v", second)
			}
			if revision < "2026" && (second["server sampling/createMessage"] != 1 || second["client sampling/createMessage"] != 1 || second["client elicitation/create"] != 1) {
				t.Errorf("beside calls there are %v", second)
			}
			for _, c := range list {
				if c.Agent != "bot" || c.Server != "tools" || c.SessionID == "" || c.CallID == "" {
					t.Errorf("%+v", c)
				}
			}
		})
	}
}

// A server that dies leaves its open calls failed in the records, and its exit status is the
// proxy's.
func TestServerDies(t *testing.T) {
	t.Parallel()
	s := serve(t)
	p := s.connect(new(events).client(), "2025-11-25", "")
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() {
			if _, err := p.CallTool(t.Context(), &mcp.CallToolParams{Name: "hang", Arguments: map[string]any{"text": ""}}); err == nil {
				t.Error("a call was answered")
			}
		})
	}
	for { // the server has them all before the one of which it dies
		got, err := os.ReadFile(filepath.Join(p.folder, "server.in"))
		if err == nil && count(got, `"name":"hang"`) == 20 {
			break
		}
		must.OK(t, t.Context().Err())
		time.Sleep(time.Millisecond)
	}
	calls.Go(func() {
		_, _ = p.CallTool(t.Context(), &mcp.CallToolParams{Name: "die", Arguments: map[string]any{"text": ""}})
	})
	calls.Wait()
	_ = p.Wait()
	_ = p.Close()
	if got := p.cmd.ProcessState.ExitCode(); got != 3 {
		t.Errorf("exit status %d", got)
	}
	sent, _ := unchanged(t, p.folder)
	asked := count(sent, `"method":"tools/call"`)
	list := s.verified()
	if n := counts(list); asked != 21 || n["requested"] != 21 || n["failed"] != 21 {
		t.Errorf("%d calls made %v", asked, n)
	}
	for _, c := range list {
		if c.Action == "tool.failed" && c.Error != "the server ended before it answered" {
			t.Errorf("%+v", c)
		}
	}
}
