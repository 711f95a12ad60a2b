package decide_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"attestd/chain/evidence"
	"attestd/internal/must"
	"attestd/service/decide"
)

// Decisions in files are made again with the policies that the files hold. Who has every key of a
// company can put another verdict on record, or another policy that made it, and is found.
func TestDecisionsAreMadeAgain(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../chain/evidence/testdata/decisions.json")
	must.OK(t, err)
	var list []struct {
		Name, File  string
		Code, Again evidence.Code
	}
	must.OK(t, json.Unmarshal(text, &list))
	made := make(map[string]int64)
	for _, c := range list {
		trust := evidence.Trust{Decider: new(decide.Decider)}
		var v evidence.Verdict
		if src := evidence.Reader(strings.NewReader(c.File)); evidence.IsSession(src) {
			v = evidence.CheckSession(src, trust)
		} else {
			v = evidence.Check([]byte(c.File), trust)
		}
		if v.Code != c.Again {
			t.Errorf("%s: %+v, want %s", c.Name, v, c.Again)
		}
		if v.Decisions != nil {
			made[c.Name] = v.Decisions.Again
		}
		if c.Name == "genuine" && !strings.Contains(strings.Join(v.Checked, "\n"), "decided again by the 2 policies in force, revision 5: deny by no-force") {
			t.Errorf("%q", v.Checked)
		}
	}
	for name, want := range map[string]int64{
		"genuine": 1, "genuine, with all changes": 1, "genuine, the last policy deleted": 1, "genuine, before there was a policy": 1,
		"the policies left out as a whole": 0, "refused by its passport": 0,
		"a session over a change": 2, "a session without the policies": 0,
		"asked": 1, "asked, of what cannot be approved": 1, "allowed with an approval": 1,
	} {
		if is, has := made[name]; is != want || !has {
			t.Errorf("%s: %d made again, want %d", name, is, want)
		}
	}
}

// Policies that are tried on the past count what was approved as allowed, where they ask again.
func TestApprovedIsAllowedAgain(t *testing.T) {
	t.Parallel()
	const asks = `permit (principal, action, resource) when { context.approved };`
	const approval = `"approval":"apr_AQAAAAAAAAAAAAAAAAAAAA",`
	for _, c := range []struct {
		was, approval, policy, becomes string
	}{
		{"allow", approval, asks, "allow"},
		{"allow", "", asks, "ask"},
		{"ask", approval, asks, "ask"},
		{"allow", approval, `forbid (principal, action, resource);`, "deny"},
		{"ask", approval, `permit (principal, action, resource);`, "allow"},
	} {
		set, err := decide.Compile([]decide.Policy{{ID: "p", Text: c.policy}})
		must.OK(t, err)
		past, err := decide.ReadPast("", []byte(`{"actionType":"tool.requested","agentId":"bot","companyId":"acme","decision":{`+c.approval+
			`"by":["p"],"context":{"door":"attest","time":"2026-11-21T09:00:00.000Z"},"policies":"`+set.Hash()+`","revision":1,"verdict":"`+c.was+
			`"},"payload":{"tool":"Bash","input":{}}}`))
		must.OK(t, err)
		if made, differs := set.Again(past, nil); made.Verdict != c.becomes || differs != (c.was != c.becomes) {
			t.Errorf("%+v: %s, differs %v", c, made.Verdict, differs)
		}
	}
}
