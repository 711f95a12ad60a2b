package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"attestd/chain/decision"
	"attestd/service/decide"
)

// decidedCalls are the calls that are decided: one of an MCP server, and one of a shell, which
// has to be parsed.
var decidedCalls = []struct {
	name, tool, input string
	cpu               *target
}{
	{"MCP call", `"server":"bank","tool":"transfer"`, `{"amount":150,"to":"eve","note":"for the invoice of November"}`, atMost(60)},
	{"shell command", `"tool":"Bash"`, `{"command":"cd src && git add -A && git commit -m 'fix: the parser takes empty lines' && ` +
		`go test ./... 2>&1 | tail -20","description":"Commit and test"}`, nil},
}

func decidedPayload(tool, input string) string {
	return `{"source":"bench",` + tool + `,"callId":"c1","sessionId":"s","input":` + input + `}`
}

// policiesLike makes n policies as companies have them. They allow each call.
func policiesLike(n int) []decide.Policy {
	list := make([]decide.Policy, n)
	for i := range list {
		text := fmt.Sprintf(`forbid (principal, action == Action::"call", resource == Tool::"tool%d") when { context.arguments.amount > 100 };`, i)
		switch i % 4 {
		case 0:
			text = fmt.Sprintf(`permit (principal in Group::"g%d", action, resource);`, i)
		case 1:
			text = fmt.Sprintf(`forbid (principal, action == Action::"call", resource) when { context.programs.contains("program%d") };`, i)
		case 2:
			text = fmt.Sprintf(`forbid (principal, action, resource) when { context.words.contains("git word%d") && !context.approved };`, i)
		}
		list[i] = decide.Policy{ID: fmt.Sprint("p", i), Text: text}
	}
	list[0].Text = "permit (principal, action, resource);"
	return list
}

// decisions measures a decision over 100 policies in this process, and appends of requests with
// their decisions in turns with appends to a company without policies.
func (b *bench) decisions(ctx context.Context) (err error) {
	const policies = 100
	list := policiesLike(policies)
	if err := b.decisionsAlone(ctx, list); err != nil {
		return err
	}
	server, with, err := b.serveTenant(ctx, "decisions.db")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	without, err := register(ctx, server.addr, "without")
	if err != nil {
		return err
	}
	if err := putPolicies(ctx, server.addr, with, list); err != nil {
		return err
	}
	rounds, each := pick(b.quick, 3, 9), pick(b.quick, 150*time.Millisecond, time.Second)
	for _, call := range decidedCalls {
		var sides [2]*side
		for i, t := range []tenant{with, without} {
			req := request("POST", "/v1/attest", t.key, jsonType,
				`{"agentId":"`+callerAgent+`","actionType":"tool.requested","payload":`+decidedPayload(call.tool, call.input)+`}`)
			sides[i] = &side{child: server, status: 201, request: func(int) []byte { return req }}
		}
		for _, clients := range []int{1, 64} {
			column := fmt.Sprintf("%s, %d clients", call.name, clients)
			b.say("decisions: %s", column)
			c, err := inTurns(ctx, sides[0], sides[1], clients, rounds, each)
			if err != nil {
				return fmt.Errorf("%s: %w", column, err)
			}
			var t *target
			if call.cpu != nil {
				t = atLeast(0.85)
			}
			b.report.add("decisions", column, "records with a decision/s", c.perSecond, perSecond, nil)
			b.report.addRounds("decisions", column, "  ÷ without", c.ratios, t)
			if c.hasCPU {
				b.report.add("decisions", column, "server CPU each", micros(c.cpu), micro, nil)
				b.report.add("decisions", column, "  without", micros(c.bareCPU), micro, nil)
			}
		}
	}
	return nil
}

// putPolicies puts policies in force.
func putPolicies(ctx context.Context, addr string, t tenant, list []decide.Policy) error {
	for _, p := range list {
		body, _ := json.Marshal(map[string]string{"cedar": p.Text}) // text has no error
		if _, err := ask(ctx, addr, request("PUT", "/v1/policies/"+p.ID, t.key, jsonType, string(body)), 200, nil); err != nil {
			return err
		}
	}
	return nil
}

// decisionsAlone measures the processor time of a decision, without the rest of an append.
func (b *bench) decisionsAlone(ctx context.Context, list []decide.Policy) error {
	set, err := decide.Compile(list)
	if err != nil {
		return err
	}
	for _, call := range decidedCalls {
		payload := []byte(decidedPayload(call.tool, call.input))
		at := decision.Context{Door: decide.DoorAttest, Time: "2026-11-28T12:00:00.000Z", Folder: "/srv/shop"}
		least := pick(b.quick, 200*time.Millisecond, 3*time.Second)
		before, hasCPU := cpuTime(os.Getpid())
		began, n := time.Now(), 0
		for ; time.Since(began) < least && ctx.Err() == nil; n++ {
			made := set.Decide(decide.Recorded("acme", callerAgent, "tool.requested", payload, at))
			if made.Verdict != decide.Allow {
				return fmt.Errorf("%s: decided %s by %s", call.name, made.Verdict, strings.Join(made.By, ", "))
			}
		}
		after, _ := cpuTime(os.Getpid())
		if hasCPU && n > 0 {
			b.report.add("decisions", call.name, fmt.Sprintf("a decision over %d policies, CPU", len(list)), micros((after-before)/time.Duration(n)), micro, call.cpu)
		}
	}
	return nil
}
