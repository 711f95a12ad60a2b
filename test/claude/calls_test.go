//go:build linux

package claude

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"attestd/internal/testenv"
)

// rules are a user's own, which the hooks must leave alone.
const rules = `{"permissions":{"allow":["Bash(echo:*)","Bash(exit:*)","Bash(touch:*)","Bash(printenv:*)","Read"],"deny":["Bash(curl:*)"]},"env":{"FROM_SETTINGS":"1"}}`

// all is a turn or two with every fate of a call: done, failed, denied by a rule, denied in two
// ways because no user could be asked, never possible, and two at once.
var all = [][]call{
	{bash("printenv FROM_SETTINGS")},
	{bash("exit 3")},
	{bash("curl http://127.0.0.1:1")},
	{bash("mkdir a; rmdir a")},
	{bash("echo $FROM_SETTINGS")},
	{{"Bash", map[string]any{"bad": 1}}},
	{{"NoSuchTool", map[string]any{}}},
	{bash("echo a"), {"Read", map[string]any{"file_path": "/nonexistent"}}},
}

var allRecorded = []string{
	"agent.watched", "session.ended",
	"tool.requested toolu_0_0", "tool.completed toolu_0_0",
	"tool.requested toolu_1_0", "tool.failed toolu_1_0",
	"tool.requested toolu_2_0", "tool.denied toolu_2_0",
	"tool.requested toolu_3_0", "tool.permission-requested", "tool.denied toolu_3_0",
	// the agent says only that "a variable in this command can't be checked before it runs"
	"tool.requested toolu_4_0", "tool.permission-requested", "tool.ended toolu_4_0",
	"tool.requested toolu_5_0", "tool.failed toolu_5_0",
	"tool.requested toolu_6_0", "tool.failed toolu_6_0",
	"tool.requested toolu_7_0", "tool.completed toolu_7_0",
	"tool.requested toolu_7_1", "tool.failed toolu_7_1",
}

// Every call of Claude Code is in the chain once, with what it was and what came of it, and its
// user's own rules hold as before.
func TestHTTPHooks(t *testing.T) { everyCall(t) }

// The same by command hooks.
func TestCommandHooks(t *testing.T) { everyCall(t, "--command") }

func everyCall(t *testing.T, flags ...string) {
	d := newDesk(t, rules, flags...)
	m := newModel(t, all...)
	d.claude(m)
	whole := d.recorded(allRecorded...)
	for name, want := range map[string]string{
		"tool.requested toolu_0_0": `"input":{"command":"printenv FROM_SETTINGS","description":"a test"}`,
		"tool.completed toolu_0_0": `"stdout":"1"`,
		"tool.failed toolu_1_0":    `"error":"Exit code 3"`,
		"tool.denied toolu_2_0":    `"reason":"Permission to use Bash with command curl http://127.0.0.1:1 has been denied."`,
	} {
		if !strings.Contains(whole[name], want) || !strings.Contains(whole[name], `"source":"claude-code","tool":"Bash"`) {
			t.Errorf("%s: %s", name, whole[name])
		}
	}
	if told := m.of(2, 0); !told.failed || !strings.Contains(told.text, "has been denied") {
		t.Errorf("the rule of the user does not hold: %+v", told)
	}
}

// A subagent in the background is over when it stops, and not when it is launched. One in the
// foreground stops before its call has an outcome.
func TestSubagents(t *testing.T) {
	for name, flags := range map[string][]string{"HTTP": nil, "command": {"--command"}} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, strings.Replace(rules, `"Read"`, `"Read","Bash(sleep:*)"`, 1), flags...)
			agent := func(background bool) call {
				return call{"Agent", map[string]any{"description": "a test", "prompt": subagentWork, "subagent_type": "general-purpose", "run_in_background": background}}
			}
			d.claude(newModel(t, []call{agent(true)}, []call{bash("sleep 2")}, []call{agent(false)}))
			whole := d.recorded("agent.watched", "session.ended", "tool.subagent-ended", "tool.subagent-ended",
				"tool.requested toolu_0_0", "tool.pending toolu_0_0", "tool.ended toolu_0_0",
				"tool.requested toolu_1_0", "tool.completed toolu_1_0", "tool.requested toolu_2_0", "tool.completed toolu_2_0")
			for name, want := range map[string]string{"tool.ended toolu_0_0": `"tool":"Agent"`, "tool.subagent-ended": `"agentType":"general-purpose","subagentId":"`} {
				if !strings.Contains(whole[name], want) || !strings.Contains(whole[name], `"output":"done"`) {
					t.Errorf("%s: %s", name, whole[name])
				}
			}
		})
	}
}

// With require=passport a tool is called only while a passport covers it; the model reads why not.
func TestPassport(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	for name, flags := range map[string][]string{"HTTP": nil, "command": {"--command"}} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, rules, append(flags, "--require", "passport")...)
			mark := filepath.Join(d.project, "mark")
			m := newModel(t, []call{bash("touch mark")}, []call{bash("echo b")}, []call{{"Read", map[string]any{"file_path": d.settings()}}})
			m.before = func(turn int) {
				if turn == 1 {
					d.ask("POST", "/v1/agents/claude-code/passport", `{"scopes":["tool:Bash"]}`)
				}
			}
			d.claude(m)
			if _, err := os.Stat(mark); err == nil {
				t.Error("a tool was called without a passport")
			}
			for _, turn := range []int{0, 2} {
				if told := m.of(turn, 0); !told.failed || !strings.Contains(told.text, "no valid passport") {
					t.Errorf("the model is told %+v", told)
				}
			}
			if told := m.of(1, 0); told.failed || told.text != "b" {
				t.Errorf("the model is told %+v", told)
			}
			d.recorded("agent.watched", "session.ended", "tool.requested toolu_0_0", "tool.denied toolu_0_0",
				"tool.requested toolu_1_0", "tool.completed toolu_1_0", "tool.requested toolu_2_0", "tool.denied toolu_2_0")
		})
	}
}

// While the server is away, calls go on or are refused, as the user has chosen. Command hooks keep
// what they could not send, and every call is in the chain once.
func TestCallsWithoutServer(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	for name, c := range map[string]struct {
		flags    []string
		runs     bool
		recorded []string // of the turn without a server
	}{
		"HTTP, open":      {nil, true, nil},
		"HTTP, closed":    {[]string{"--fail", "closed"}, false, nil},
		"command, open":   {[]string{"--command"}, true, []string{"tool.requested toolu_1_0", "tool.completed toolu_1_0"}},
		"command, closed": {[]string{"--command", "--fail", "closed"}, false, []string{"tool.requested toolu_1_0", "tool.denied toolu_1_0"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, rules, c.flags...)
			m := newModel(t, []call{bash("echo a")}, []call{bash("touch mark")}, []call{bash("echo c")})
			m.before = func(turn int) {
				switch turn {
				case 1:
					end(d.server)
				case 2:
					d.serve()
				}
			}
			d.claude(m)
			if _, err := os.Stat(filepath.Join(d.project, "mark")); (err == nil) != c.runs {
				t.Errorf("without a server the call runs: %v; the model is told %+v", err == nil, m.of(1, 0))
			}
			if told := m.of(2, 0); told.failed {
				t.Errorf("with the server back: %+v", told)
			}
			d.recorded(append(c.recorded, "agent.watched", "session.ended", "tool.requested toolu_0_0", "tool.completed toolu_0_0", "tool.requested toolu_2_0", "tool.completed toolu_2_0")...)
		})
	}
}

// --check shows the records of a call that the hooks report; --remove takes the hooks away, and the
// agent works as it did before.
func TestCheckAndRemove(t *testing.T) {
	for name, flags := range map[string][]string{"HTTP": nil, "command": {"--command"}} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, rules, flags...)
			output := d.attestd("", "init", "claude-code", "--check")
			for _, want := range []string{"version    Claude Code 2.1.330\n", "PostToolUse: the call is allowed\n", "tool.requested by claude-code: ", "tool.completed by claude-code: "} {
				if !strings.Contains(output, want) {
					t.Errorf("no %q in %s", want, output)
				}
			}
			all := []string{"agent.watched", "tool.requested attestd-check", "tool.completed attestd-check"}
			d.recorded(all...)
			d.claude(newModel(t, []call{bash("touch mark")}))
			d.ran(filepath.Join(d.project, "mark"))
			all = append(all, "tool.requested toolu_0_0", "tool.completed toolu_0_0", "session.ended")
			d.recorded(all...)
			output = d.attestd("", "init", "claude-code", "--remove")
			if text, err := os.ReadFile(d.settings()); err != nil || strings.Contains(string(text), "attestd") || !strings.Contains(string(text), "Bash(curl:*)") {
				t.Errorf("%v: %s\n%s", err, text, output)
			}
			d.shell("claude", newModel(t, []call{bash("touch mark")}))
			d.ran(filepath.Join(d.project, "mark"))
			d.recorded(all...)
		})
	}
}
