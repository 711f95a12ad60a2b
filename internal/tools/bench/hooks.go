package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// hooks measures the answers to hooks, and the program that agents run for them.
func (b *bench) hooks(ctx context.Context) error {
	return errors.Join(b.hookAnswers(ctx), b.hookProgram(ctx))
}

// hookAnswers measures how long a coding agent waits for the response to its hook before each call:
// alone, with others, and with a passport lookup.
func (b *bench) hookAnswers(ctx context.Context) (err error) {
	server, t, err := b.serveTenant(ctx, "hooks.db")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	for _, setup := range []struct{ path, body string }{
		{"/v1/agents/register", `{"agentId":"claude-code"}`},
		{"/v1/agents/claude-code/passport", `{"scopes":["tool:Read","tool:Bash"]}`},
	} {
		if _, err := ask(ctx, server.addr, request("POST", setup.path, t.key, jsonType, setup.body), 201, nil); err != nil {
			return err
		}
	}
	for _, asks := range []struct {
		name, query string
		clients     int
	}{
		{"before a call", "", 1},
		{"before a call that needs a passport", "?require=passport", 1},
		{"before a call", "", 16},
	} {
		column := fmt.Sprintf("%d agents", asks.clients)
		b.say("hooks, %s, %s", asks.name, column)
		clients, err := connect(ctx, server.addr, asks.clients)
		if err != nil {
			return err
		}
		s := &side{child: server, status: 200, clients: clients, request: func(n int) []byte {
			return request("POST", "/v1/hooks/claude-code"+asks.query, t.key, jsonType, hookEvent(time.Now().UnixNano(), n))
		}}
		r, err := s.load(ctx, pick(b.quick, 300*time.Millisecond, 3*time.Second), 0)
		hangUp(clients)
		if err != nil {
			return fmt.Errorf("hooks, %s: %w", column, err)
		}
		slices.Sort(r.latencies)
		b.report.add("hooks", column, "answer "+asks.name+", p50", millis(percentile(r.latencies, 50)), milli, atMost(5))
	}
	return nil
}

// hookEvent returns what Claude Code sends before a call, with a unique ID.
func hookEvent(run int64, n int) string {
	return fmt.Sprintf(`{"session_id":"139669a7-0e88-4f3b-af3a-3f7cdcac4207","transcript_path":"/home/u/.claude/projects/x/139669a7.jsonl","cwd":"/home/u/x",`+
		`"prompt_id":"9e6a7f9c-d8db-4149-a806-7302ecd70833","permission_mode":"default","hook_event_name":"PreToolUse","tool_name":"Bash",`+
		`"tool_input":{"command":"go test ./... 2>&1 | tail -40","description":"Run the tests"},"tool_use_id":"toolu_%d_%d"}`, run, n)
}
