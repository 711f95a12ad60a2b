//go:build linux

package claude

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"attestd/internal/approver"
)

// Of calls that need an approval, Claude Code makes exactly the one that a person has approved: a
// second one with the same arguments asks anew, one that is denied is not made, and neither is one
// about which nobody decides. The model reads why.
func TestApprovals(t *testing.T) {
	for name, flags := range map[string][]string{"HTTP": nil, "command": {"--command"}} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, rules, append(flags, "--require", "policy")...)
			d.ask("PUT", "/v1/policies/all", `{"cedar":"permit (principal, action, resource);"}`)
			d.ask("PUT", "/v1/policies/touch", `{"cedar":"forbid (principal, action, resource) when { context.programs.contains(\"touch\") } unless { context.approved };"}`)
			d.impatient("10s", "10")
			alice := approver.New(t, "http://127.0.0.1:8080", d.admin, "alice")
			mark := filepath.Join(d.project, "mark")
			m := newModel(t, []call{bash("touch mark")}, []call{bash("touch mark")}, []call{bash("touch mark")}, []call{bash("echo done")})
			asked := []string{}
			m.before = func(turn int) {
				switch turn {
				case 0, 1: // approved, then denied
					go func() {
						id := alice.Pending(t, asked...)
						asked = append(asked, id)
						alice.Decide(t, id, []string{"approve", "deny"}[turn], "as I like it")
					}()
				}
				if turn == 1 {
					d.ran(mark)
				}
			}
			d.claude(m)
			if _, err := os.Stat(mark); err == nil {
				t.Error("a call was made that nobody has approved")
			}
			for turn, want := range []string{"", "is denied: as I like it", "is pending, repeat the call", ""} {
				if told := m.of(turn, 0); told.failed != (want != "") || !strings.Contains(told.text, want) {
					t.Errorf("in turn %d the model is told %+v, want %q", turn, told, want)
				}
			}
			d.recorded("agent.watched", "session.ended",
				"tool.requested toolu_0_0", "tool.requested toolu_0_0", "tool.completed toolu_0_0",
				"tool.requested toolu_1_0", "tool.denied toolu_1_0", "tool.requested toolu_2_0", "tool.denied toolu_2_0",
				"tool.requested toolu_3_0", "tool.completed toolu_3_0")
			chain := string(d.ask("GET", "/v1/chain", ""))
			if allowed := regexp.MustCompile(`"decision":\{"approval":"` + asked[0] + `"[^}]*\}[^}]*"verdict":"allow"`); len(allowed.FindAllString(chain, -1)) != 1 {
				t.Errorf("the approval %s is not on record once: %s", asked[0], chain)
			}
		})
	}
}

// impatient has the hooks before calls wait for an approval no longer than that.
func (d *desk) impatient(command, http string) {
	d.t.Helper()
	text, err := os.ReadFile(d.settings())
	if err != nil {
		d.t.Fatal(err)
	}
	changed := strings.NewReplacer("--timeout 315s", "--timeout 315s --ask-wait "+command, "askWait=55", "askWait="+http).Replace(string(text))
	if changed == string(text) {
		d.t.Fatalf("these hooks wait for no approval: %s", text)
	}
	if err := os.WriteFile(d.settings(), []byte(changed), 0o600); err != nil {
		d.t.Fatal(err)
	}
}
