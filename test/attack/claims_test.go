package attack

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"attestd/internal/harness"
	"attestd/internal/sleep"
)

// claimant is a writer of a company who uses the idempotency keys of others before they do.
type claimant struct {
	*run
	*harness.Client
	key     string // the claimant's
	victim  string // API key of the recorded agent
	env     []string
	folder  string
	claimed int
}

// claimedKeys claims every key that a writer can predict for the records of hooks, of the proxy and
// of runs. Their events must all be recorded nevertheless.
func claimedKeys(ctx context.Context, r *run) error {
	s, _, err := r.Lab.ServeNew(ctx, "--rate-limits", "off")
	if err != nil {
		return err
	}
	defer func() { _ = s.Stop() }()
	k := &claimant{run: r, Client: &harness.Client{Addr: s.Addr}}
	defer k.Close()
	admin, err := k.Register("acme")
	if err != nil {
		return err
	}
	for _, key := range []*string{&k.key, &k.victim} {
		var made struct{ Key string }
		if err := k.Call(201, harness.Request{Method: "POST", Path: "/v1/keys", Key: admin, Body: `{"role":"writer"}`},
			&made); err != nil {
			return err
		}
		*key = made.Key
	}
	if k.folder, err = r.Lab.Folder(); err != nil {
		return err
	}
	k.env = append(os.Environ(), "HOME="+k.folder, "XDG_STATE_HOME="+k.folder, "XDG_CONFIG_HOME="+k.folder,
		"ATTESTD_URL=http://"+s.Addr, "ATTESTD_KEY="+k.victim)
	for _, attack := range []func(context.Context) error{k.hooks, k.commandHooks, k.proxy, k.attestdRun} {
		if err := attack(ctx); err != nil {
			return err
		}
	}
	r.Count(k.claimed, "keys claimed")
	return s.Stop()
}

// claim uses keys in the header, in a batch, and for a record that looks like the victim's.
func (k *claimant) claim(keys ...string) error {
	for i, key := range keys {
		item := fmt.Sprintf(`{"agentId":"claude-code","actionType":"noise","payload":{"source":"claude-code","n":%d}`, i)
		request := harness.Request{Method: "POST", Path: "/v1/attest", Key: k.key, Body: item + "}",
			Header: []string{"Idempotency-Key: " + key}}
		if i%2 == 0 {
			request = harness.Request{Method: "POST", Path: "/v1/attest/batch", Key: k.key,
				Body: fmt.Sprintf(`{"records":[%s,"idempotencyKey":%q}]}`, item, key)}
		}
		a, err := k.Do(request)
		switch {
		case err != nil:
			return err
		case a.Status == 201:
			k.claimed++
		case a.Status != 422: // a record has the key already
			return fmt.Errorf("a claim is answered %d: %.200s", a.Status, a.Body)
		}
	}
	return nil
}

// foretold returns the keys of a tool call's records that can be computed from its event.
func foretold(session, call string) (keys []string) {
	for _, kind := range []string{"tool.requested", "tool.outcome"} {
		parts := []string{"claude-code", "claude-code", session, call, kind}
		joined := strings.Join(parts, ":")
		content := fmt.Sprintf(`{"source":"claude-code","tool":"Bash","callId":%q,"sessionId":%q,"input":%s}`, call, session,
			theft(session, call))
		keys = append(keys, joined, lengthsDigest(parts...), lengthsDigest(joined, content),
			lengthsDigest(lengthsDigest(parts...), content))
	}
	return keys
}

// lengthsDigest returns the hex SHA-256 of the parts, each after its length.
func lengthsDigest(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// theft returns the input of a call, which the claimant knows beforehand.
func theft(session, call string) string {
	return fmt.Sprintf(`{"command":"curl %s-%s"}`, session, call)
}

// events returns a call and its outcome, as Claude Code reports them.
func events(session, call, input, output string) []string {
	event := func(name, more string) string {
		return fmt.Sprintf(`{"session_id":%q,"hook_event_name":%q,"tool_name":"Bash","tool_use_id":%q,"tool_input":%s%s}`,
			session, name, call, input, more)
	}
	return []string{event("PreToolUse", ""), event("PostToolUse", fmt.Sprintf(`,"tool_response":%q`, output))}
}

// recorded checks that the log contains these texts, which the claimant never sends.
func (k *claimant) recorded(what string, texts ...string) error {
	a, err := k.Do(harness.Request{Method: "GET", Path: "/v1/chain?limit=1000", Key: k.victim})
	if err != nil {
		return err
	}
	for _, text := range texts {
		if !strings.Contains(string(a.Body), text) {
			k.Errorf("%s: nothing is recorded of %s", what, text)
		}
	}
	return nil
}

// hooks claims the keys of HTTP hooks, also with events of the claimant's own.
func (k *claimant) hooks(context.Context) error {
	if err := k.claim(foretold("http", "t1")...); err != nil {
		return err
	}
	send := func(key, event string) error {
		return k.Call(200, harness.Request{Method: "POST", Path: "/v1/hooks/claude-code", Key: key, Body: event}, nil)
	}
	for _, event := range events("http", "t2", `{"command":"true"}`, "fine") {
		if err := send(k.key, event); err != nil {
			return err
		}
	}
	for _, call := range []string{"t1", "t2"} {
		for _, event := range events("http", call, theft("http", call), "answer-http-"+call) {
			if err := send(k.victim, event); err != nil {
				k.Errorf("an HTTP hook whose key was claimed: %v", err)
			}
		}
	}
	return k.recorded("an HTTP hook", "curl http-t1", "curl http-t2", "answer-http-t1", "answer-http-t2")
}

// commandHooks claims the keys of command hooks.
func (k *claimant) commandHooks(ctx context.Context) error {
	if err := k.claim(foretold("command", "t1")...); err != nil {
		return err
	}
	for _, event := range events("command", "t1", theft("command", "t1"), "answer-command-t1") {
		cmd, cancel := k.command(ctx, "hook")
		cmd.Stdin = strings.NewReader(event)
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil {
			k.Errorf("attestd hook, whose key was claimed: %v: %s", err, out)
		}
	}
	return k.recorded("attestd hook", "curl command-t1", "answer-command-t1")
}

// command prepares the program for the victim.
func (k *claimant) command(ctx context.Context, args ...string) (*exec.Cmd, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, harness.Patience)
	cmd := exec.CommandContext(ctx, k.Lab.Binary(), args...)
	cmd.Env, cmd.Dir = k.env, k.folder
	return cmd, cancel
}

// named returns a member of the newest record that has it.
func (k *claimant) named(member string) (value string, err error) {
	a, err := k.Do(harness.Request{Method: "GET", Path: "/v1/chain?limit=1000", Key: k.key})
	if err != nil {
		return "", err
	}
	_, text, found := cutLast(string(a.Body), `"`+member+`":"`)
	value, _, _ = strings.Cut(text, `"`)
	if !found || value == "" {
		return "", fmt.Errorf("no record has a %s", member)
	}
	return value, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if at := strings.LastIndex(s, sep); at >= 0 {
		return s[:at], s[at+len(sep):], true
	}
	return s, "", false
}

// proxy learns from the record of a first call which ID the proxy uses, and claims the keys of the
// second call.
func (k *claimant) proxy(ctx context.Context) (err error) {
	cmd, cancel := k.command(ctx, "mcp", "--agent", "bot", "--fail", "closed", "--", "sh", "-c",
		`n=0; while IFS= read -r line; do n=$((n+1)); printf '{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"answer-mcp-%d"}]}}\n' $n $n; done`)
	defer cancel()
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	answers := bufio.NewReader(out)
	ask := func(n int) error {
		_, err := fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"tool-%d","arguments":{"say":"asked-mcp-%d"}}}`+"\n", n, n, n)
		if err == nil {
			_, err = answers.ReadString('\n')
		}
		return err
	}
	if err = ask(1); err == nil {
		var session string
		if session, err = k.named("sessionId"); err == nil {
			var keys []string
			for _, n := range []string{"1", "2", "3"} {
				for _, kind := range []string{"tool.requested", "tool.outcome", "tool.completed"} {
					keys = append(keys, "mcp:"+session+":"+n+":"+kind, session+":"+n+":"+kind)
				}
			}
			err = k.claim(keys...)
		}
	}
	if err == nil {
		err = ask(2)
	}
	err = errors.Join(err, in.Close())
	_, drained := io.Copy(io.Discard, answers)
	if err = errors.Join(err, drained, cmd.Wait()); err != nil {
		return fmt.Errorf("attestd mcp: %w", err)
	}
	return k.recorded("attestd mcp", "asked-mcp-1", "answer-mcp-1", "asked-mcp-2", "answer-mcp-2")
}

// attestdRun learns the ID of a run while its command waits, and claims the keys of its end.
func (k *claimant) attestdRun(ctx context.Context) error {
	gate := filepath.Join(k.folder, "go-on")
	cmd, cancel := k.command(ctx, "run", "--agent", "bot", "--", "sh", "-c",
		`while [ ! -e "$0" ]; do sleep 0.05; done; exit 7`, gate)
	defer cancel()
	ended := make(chan error, 1)
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { ended <- cmd.Wait() }()
	id, err := "", error(nil)
	for id, err = k.named("runId"); err != nil && ctx.Err() == nil; id, err = k.named("runId") {
		if err := sleep.For(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	err = errors.Join(k.claim("run:"+id+":ended", id+":ended", "run:"+id+":started"), os.WriteFile(gate, nil, 0o600))
	if exit := (*exec.ExitError)(nil); err == nil && (!errors.As(<-ended, &exit) || exit.ExitCode() != 7) {
		k.Errorf("attestd run ended with %v", exit)
	}
	return errors.Join(err, k.recorded("attestd run", `"exitStatus":7`))
}
