package decide_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/service/decide"
)

// opinion asks cedar-wasm about lines of {policies} and {asked}, and prints its answers.
const opinion = `
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
const cedar = createRequire(process.argv[1] + '/')('@cedar-policy/cedar-wasm/nodejs');
const out = [];
let sets = 0;
for (const line of readFileSync(process.argv[2], 'utf8').trimEnd().split('\n')) {
	const { policies, asked } = JSON.parse(line);
	if (policies) {
		const parsed = cedar.preparsePolicySet(String(++sets), { staticPolicies: policies });
		if (parsed.type !== 'success') throw new Error(JSON.stringify(parsed));
		continue;
	}
	const { Principal, Action, Resource, Context, Entities } = asked;
	const answer = cedar.statefulIsAuthorized({ principal: Principal, action: Action, resource: Resource, context: Context,
		entities: Entities, preparsedPolicySetId: String(sets) });
	if (answer.type !== 'success') throw new Error(JSON.stringify(answer) + line);
	const { decision, diagnostics: { reason, errors } } = answer.response;
	out.push(JSON.stringify({ decision, reasons: [...reason].sort(), errors: errors.map((e) => e.policyId).sort() }));
}
process.stdout.write(out.join('\n') + '\n');
`

// large are numbers that JavaScript rounds before cedar-wasm has them.
var large = regexp.MustCompile(`[:\[,]-?[0-9]{16,}`)

// opinionSets are sets that change one policy at a time, as a company's do.
func opinionSets(t *testing.T, n int) *decide.Set {
	t.Helper()
	starter, err := os.ReadFile("../../examples/policies/starter.cedar")
	must.OK(t, err)
	set, err := decide.Compile([]decide.Policy{
		{ID: "starter", Text: string(starter)},
		{ID: "n", Text: fmt.Sprintf(`permit (principal in Group::"g3", action, resource) when { context.arguments.a > %d };
			forbid (principal, action, resource == Tool::"pay") when { context.approved && context.arguments has c };
			forbid (principal in Group::"g2", action, resource == Tool::"pay") when { context.arguments.b > %d } unless { context.approved };`, n-25, n)},
		{ID: "like", Text: fmt.Sprintf(`forbid (principal in Group::"g%d", action, resource) when { context.arguments.a like "*b*" };`, n%3)},
		{ID: "in", Text: `forbid (principal, action in Action::"any", resource) when { context.arguments has a && context.arguments has b && context.arguments.a == context.arguments.b };
			permit (principal == Agent::"bot-1", action, resource in Server::"bank") when { context.time < datetime("2026-11-28T10:00:30Z") };`},
		{ID: "decimal", Text: fmt.Sprintf(`forbid (principal in Group::"g1", action, resource) when { context.arguments.b.greaterThan(decimal("%d.5")) };`, n)},
		{ID: "dropped", Text: `forbid (principal, action, resource) when { context.dropped.contains("/a") || context.hosts.contains("example.com") };`},
	})
	must.OK(t, err)
	return set
}

// The Cedar of its authors comes to the same decisions by the same policies, over the contexts that
// are built here: of 50 sets with the calls of the corpus and odd arguments.
func TestSecondOpinionOnDecisions(t *testing.T) {
	t.Parallel()
	testenv.Needs(t, testenv.NotRaced)
	if _, err := os.Stat("../../test/testdata/node_modules/@cedar-policy/cedar-wasm"); err != nil {
		testenv.Missing(t, "there is no cedar-wasm: npm ci --prefix test/testdata")
	}
	text, err := os.ReadFile("../../examples/policies/testdata/corpus.json")
	must.OK(t, err)
	var corpus []struct {
		Tool, CWD string
		Input     json.RawMessage
	}
	must.OK(t, json.Unmarshal(text, &corpus))
	file := filepath.Join(t.TempDir(), "asked")
	lines, err := os.Create(file)
	must.OK(t, err)
	defer lines.Close()
	encode := json.NewEncoder(lines)
	r := rand.New(rand.NewPCG(42, 2))
	var all []decide.Asked
	rounded := 0
	const sets = 50
	each := 4
	if testenv.Long() {
		each = 100 // 10,000 evaluations
	}
	for n := range sets {
		set := opinionSets(t, n)
		must.OK(t, encode.Encode(map[string]any{"policies": set.Texts()}))
		for made := 0; made < each; {
			req := &decide.Request{Company: "acme", AgentID: fmt.Sprintf("bot-%d", made%3), Groups: []string{fmt.Sprintf("g%d", made%4)}, Action: decide.Call,
				Context: decide.Context{Door: "hook", Time: time.Date(2026, 11, 28, 10, 0, made%60, 0, time.UTC)}}
			if made%4 == 3 {
				req.Server, req.Tool, req.Arguments = "bank", "pay", fmt.Appendf(nil, `{"a":%d,"b":%d}`, r.IntN(50), r.IntN(50))
			} else if made%2 == 0 {
				c := corpus[r.IntN(len(corpus))]
				req.Tool, req.Arguments, req.Folder = c.Tool, c.Input, c.CWD
			} else {
				req.Server, req.Tool, req.Arguments = "bank", "pay", []byte(oddText(r))
			}
			for _, approved := range []bool{false, true} {
				asked, ok := set.Ask(req, approved)
				line, err := json.Marshal(asked.Context)
				must.OK(t, err)
				if !ok || large.Match(line) {
					rounded++
					break
				}
				must.OK(t, encode.Encode(map[string]any{"asked": asked}))
				all = append(all, asked)
				if approved {
					made++
				}
			}
		}
	}
	root, err := filepath.Abs("../../test/testdata")
	must.OK(t, err)
	node := exec.CommandContext(t.Context(), testenv.Path(t, "node"), "--input-type=module", "-e", opinion, root, file)
	out, err := node.StdoutPipe()
	must.OK(t, err)
	node.Stderr = os.Stderr
	must.OK(t, node.Start())
	answers, i, denied, erred := bufio.NewScanner(out), 0, 0, 0
	for ; answers.Scan(); i++ {
		var answer struct {
			Decision        string
			Reasons, Errors []string
		}
		must.OK(t, json.Unmarshal(answers.Bytes(), &answer))
		a := all[i]
		if answer.Decision != a.Decision || !slices.Equal(answer.Reasons, a.Reasons) || !slices.Equal(answer.Errors, a.Errors) {
			line, _ := json.Marshal(a)
			t.Errorf("%+v, and here %s", answer, line)
		}
		if a.Decision == "deny" {
			denied++
		}
		erred += min(1, len(a.Errors))
	}
	must.OK(t, node.Wait())
	t.Logf("%d evaluations, %d denied, %d with errors; %d requests have numbers that JavaScript rounds", i, denied, erred, rounded)
	if i != len(all) || denied == 0 || denied == i || erred == 0 || erred == i {
		t.Errorf("%d answers to %d", i, len(all))
	}
}
