package test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"attestd/internal/approver"
	"attestd/internal/must"
	"attestd/store/storetest"
)

// A call of an MCP server waits in attestd mcp until a person has decided it: what is approved runs
// once, and the same call again asks again.
func TestProxyWaitsForApproval(t *testing.T) {
	othersRun(t)
	s := serve(t, storetest.New(t), "--rate-limits", "off")
	c := s.register(t, "acme")
	c.call(t, 200, "PUT", "/v1/policies/all", `{"cedar":"permit (principal, action, resource);"}`, nil)
	c.call(t, 200, "PUT", "/v1/policies/ask", `{"cedar":"forbid (principal, action, resource == Tool::\"files/rm\") unless { context.approved };"}`, nil)
	alice := approver.New(t, s.URL, c.key, "alice")
	attestd, err := binary(t)
	must.OK(t, err)
	server := `while read -r line; do id=${line#*'"id":'}; echo '{"jsonrpc":"2.0","id":'"${id%%,*}"',"result":{"content":[{"type":"text","text":"done"}]}}'; done`
	cmd := exec.CommandContext(t.Context(), attestd, "mcp", "--agent", "bot", "--server", "files", "--require", "policy", "--state", t.TempDir(), "--", "sh", "-c", server)
	cmd.Env = append(os.Environ(), "ATTESTD_URL="+s.URL, "ATTESTD_KEY="+c.key)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must.OK(t, err)
	out, err := cmd.StdoutPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	answers := bufio.NewReader(out)
	var asked []string
	for i, attempt := range []struct{ verdict, answer string }{
		{"approve", `"text":"done"`}, {"deny", "is denied: not twice"}, {"approve", `"text":"done"`},
	} {
		fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"rm","arguments":{"path":"a"}}}`+"\n", i)
		id := alice.Pending(t, asked...)
		asked = append(asked, id)
		alice.Decide(t, id, attempt.verdict, "not twice")
		if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, attempt.answer) {
			t.Fatalf("the client is answered %s, %v; want %s", line, err, attempt.answer)
		}
	}
	must.OK(t, in.Close())
	must.OK(t, cmd.Wait())
	var got []string
	for _, r := range c.decided(t) {
		if r.ActionType != "mcp.message" {
			got = append(got, strings.TrimSpace(r.ActionType+" "+r.Decision.Verdict+" "+r.Decision.Approval))
		}
	}
	want := []string{
		"tool.requested ask " + asked[0], "tool.requested allow " + asked[0], "tool.completed",
		"tool.requested ask " + asked[1], "tool.denied",
		"tool.requested ask " + asked[2], "tool.requested allow " + asked[2], "tool.completed",
	}
	slices.Sort(got) // outcomes are sent in the background
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("recorded\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// decidedAction is what a record of the actions says of a decision.
type decidedAction struct {
	ActionType string
	Decision   struct{ Verdict, Approval string }
}

// decided returns the actions of the company, in their order.
func (c *client) decided(t *testing.T) (all []decidedAction) {
	t.Helper()
	var chain struct {
		Records []struct{ Payload decidedAction }
	}
	c.call(t, 200, "GET", "/v1/chain", "", &chain)
	for _, r := range chain.Records {
		all = append(all, r.Payload)
	}
	return all
}
