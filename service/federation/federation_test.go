package federation_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"attestd/crypto/idtoken"
	"attestd/internal/must"
	"attestd/service/federation"
)

func claimsOf(t testing.TB, text string) idtoken.Claims {
	t.Helper()
	claims, err := idtoken.ParseClaims([]byte(text))
	must.OK(t, err)
	return claims
}

func parse(t testing.TB, rules string) *federation.Rules {
	t.Helper()
	r, err := federation.Parse([]byte(rules))
	must.OK(t, err)
	return r
}

// rule is a list of one rule with some claims to match.
func rule(match, agentID string) string {
	return fmt.Sprintf(`[{"match":{%s},"agentId":%q}]`, match, agentID)
}

// What the refusal of a rule shows as an example, and what the page and the reference show, are
// rules that let in a workload as GitHub names it now.
func TestExamplesOfSubjectsMatch(t *testing.T) {
	t.Parallel()
	token, err := os.ReadFile("testdata/github.json")
	must.OK(t, err)
	_, refused := federation.Parse([]byte(rule(`"ref":"refs/heads/main"`, "a")))
	if refused == nil {
		t.Fatal("a rule without an owner is accepted")
	}
	texts := map[string]string{"the refusal": refused.Error()}
	for _, page := range []string{"../../docs/identity/workloads.md", "../../web/openapi.yaml"} {
		text, err := os.ReadFile(page)
		must.OK(t, err)
		texts[page] = string(text)
	}
	example := regexp.MustCompile(`repo:octo-org@[^\s"\x60,…]*:ref:refs/heads/main`)
	for where, text := range texts {
		found := example.FindAllString(text, -1)
		if len(found) == 0 {
			t.Errorf("%s has no example of a subject with numbers", where)
		}
		for _, subject := range found {
			if _, err := parse(t, rule(fmt.Sprintf(`"sub":%q`, subject), "a")).Match(claimsOf(t, string(token)), false); err != nil {
				t.Errorf("%s: %s: %v", where, subject, err)
			}
		}
	}
}

// Claims as the issuers write them get the agent that a safe rule names, and none by a rule for
// another workload of the same issuer.
func TestRealClaims(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ issuer, match, agentID, want string }{
		{"github", `"sub":"repo:octo-org@65/octo-repo@74:ref:refs/heads/main"`, "ci", "ci"},
		{"github", `"sub":"repo:octo-org@65/octo-repo@74:ref:refs/heads/main"`, "ci-{sub}", "unfit"},
		{"github", `"sub":"repo:octo-org@65/*@*:ref:refs/heads/main"`, "ci", "ci"},
		{"github", `"sub":"repo:octo-org@65/*@74:ref:refs/heads/main"`, "ci", "ci"},
		// who took the name
		{"github", `"sub":"repo:octo-org@66/*@*:ref:refs/heads/main"`, "ci", ""},
		{"github", `"sub":"repo:octo-org@65/octo-repo@75:ref:refs/heads/main"`, "ci", ""},
		{"github", `"sub":"repo:octo-org/octo-repo:ref:refs/heads/main"`, "ci", ""},
		{"github", `"sub":"repo:octo-org/*:ref:refs/heads/main"`, "ci", ""},
		{"github-names", `"sub":"repo:octo-org/octo-repo:ref:refs/heads/main"`, "ci", "ci"},
		{"github-names", `"sub":"repo:octo-org/*:ref:refs/heads/main"`, "ci", "ci"},
		{"github-names", `"sub":"repo:octo-org@65/*@*:ref:refs/heads/main"`, "ci", ""},
		{"github", `"repository":"octo-org/octo-repo","ref":"refs/heads/main","event_name":"push"`, "ci-{repository}", "ci-octo-org__octo-repo"},
		{"github", `"repository":"octo-org/*","ref":"refs/heads/main","ref_protected":"true"`, "{repository}", "octo-org__octo-repo"},
		{"github", `"repository_id":"74","workflow_ref":"octo-org/octo-repo/.github/workflows/deploy.yml@refs/heads/main"`, "deploy-{repository_id}", "deploy-74"},
		{"github", `"sub":"repo:octo-org@65/*@*:environment:production"`, "ci", ""},
		{"github", `"repository":"octo-org/octo-repo","ref":"refs/tags/*"`, "ci", ""},
		{"github", `"repository":"octo-org/octo-repo","ref_protected":true`, "ci", ""},
		{"github", `"repository":"octo-org/octo-repo","head_ref":"*"`, "ci", ""},
		{"gitlab", `"project_path":"my-group/my-project","ref_type":"branch","ref":"feature-branch-1"`, "gl-{project_path}", "gl-my-group__my-project"},
		{"gitlab", `"project_id":"20","ref_protected":"true"`, "gl", ""},
		{"gitlab", `"project_id":"20","runner_id":1`, "gl-{runner_id}", "gl-1"},
		{"gitlab", `"project_id":"20","user_identities":"*"`, "gl", ""},
		{"gitlab", `"sub":"project_path:my-group/*:ref_type:branch:ref:feature-*"`, "gl", "gl"},
		{"kubernetes", `"sub":"system:serviceaccount:payments:biller"`, "biller", "biller"},
		{"kubernetes", `"sub":"system:serviceaccount:payments:*","/kubernetes.io/namespace":"payments","/kubernetes.io/serviceaccount/name":"*"`,
			"k8s-{/kubernetes.io/namespace}.{/kubernetes.io/serviceaccount/name}", "k8s-payments.biller"},
		{"kubernetes", `"/kubernetes.io/serviceaccount/uid":"14ee3fa4-a7e2-420f-9f9a-dbc4507c3798"`, "biller", "biller"},
		{"kubernetes", `"sub":"system:serviceaccount:payments:other"`, "biller", ""},
		{"spire", `"sub":"spiffe://example.org/ns/payments/sa/biller"`, "biller", "biller"},
		{"spire", `"sub":"spiffe://example.org/ns/*/sa/biller"`, "biller", "biller"},
		{"spire", `"sub":"spiffe://example.org/ns/*"`, "biller", ""}, // a * is one part
	} {
		text, err := os.ReadFile("testdata/" + test.issuer + ".json")
		must.OK(t, err)
		grant, err := parse(t, rule(test.match, test.agentID)).Match(claimsOf(t, string(text)), false)
		var refusal *federation.Refusal
		switch {
		case test.want == "" && errors.As(err, &refusal) && strings.Contains(refusal.Message, "no rule"):
		case test.want == "unfit" && errors.As(err, &refusal) && strings.Contains(refusal.Message, "the claim sub cannot"):
		case err == nil && grant.AgentID == test.want:
		default:
			t.Errorf("%s: %s gives %+v, %v", test.issuer, test.match, grant, err)
		}
	}
}

// What is no rule, or lets in anyone with an account at the issuer, is refused with its place.
func TestRefusedRules(t *testing.T) {
	t.Parallel()
	good := `"sub":"x"`
	many := func(n int, one func(int) string) string {
		var all []string
		for i := range n {
			all = append(all, one(i))
		}
		return strings.Join(all, ",")
	}
	for name, test := range map[string]struct{ rules, pointer, want string }{
		"none":                    {`[]`, "", "1 to 50"},
		"an object":               {`{}`, "", "1 to 50"},
		"51":                      {"[" + many(51, func(int) string { return `{"match":{"sub":"x"},"agentId":"a"}` }) + "]", "", "at most 50"},
		"long":                    {`[` + strings.Repeat(" ", 33000) + `]`, "", "bytes"},
		"a text":                  {`["x"]`, "/0", "object"},
		"duplicate":               {`[{"match":{"sub":"x"},"match":{"sub":"y"},"agentId":"a"}]`, "", "1 to 50"},
		"misspelt":                {`[{"match":{"sub":"x"},"agentId":"a","tll":5}]`, "/0", "tll"},
		"second":                  {`[{"match":{"sub":"x"},"agentId":"a"},{"match":{"sub":"x"}}]`, "/1/agentId", "string"},
		"no match":                {`[{"agentId":"a"}]`, "/0/match", "1 to 16"},
		"empty match":             {rule("", "a"), "/0/match", "1 to 16"},
		"17 claims":               {rule(many(17, func(i int) string { return fmt.Sprintf(`"c%d":"x"`, i) }), "a"), "/0/match", "1 to 16"},
		"list":                    {rule(good+`,"aud":["x"]`, "a"), "/0/match/aud", "string, true, false"},
		"null":                    {rule(good+`,"x":null`, "a"), "/0/match/x", "string, true, false"},
		"fraction":                {rule(good+`,"x":1.5`, "a"), "/0/match/x", "string, true, false"},
		"great number":            {rule(good+`,"x":9007199254740993`, "a"), "/0/match/x", "2⁵³"},
		"empty value":             {rule(`"sub":""`, "a"), "/0/match/sub", "bytes"},
		"empty name":              {rule(good+`,"":"x"`, "a"), "/0/match/", "bytes"},
		"short pointer":           {rule(`"/sub":"x"`, "a"), "/0/match/~1sub", "pointer"},
		"**":                      {rule(`"sub":"repo:octo-org/**"`, "a"), "/0/match/sub", "separator"},
		"many *":                  {rule(`"sub":"a:b:`+strings.Repeat("*-", 9)+`"`, "a"), "/0/match/sub", "at most 8"},
		"no subject":              {rule(`"ref":"refs/heads/main"`, "a"), "/0/match", "only the workload"},
		"owner alone":             {rule(`"repository_owner":"octo-org"`, "a"), "/0/match", "only the workload"},
		"called workflow":         {rule(`"job_workflow_ref":"octo-org/w/.github/workflows/x.yml@refs/heads/main"`, "a"), "/0/match", "only the workload"},
		"client alone":            {rule(`"client_id":"cc_1","azp":"cc_1"`, "a"), "/0/match", "only the workload"},
		"environment alone":       {rule(`"environment":"production"`, "a"), "/0/match", "only the workload"},
		"namespace alone":         {rule(`"/kubernetes.io/namespace":"payments"`, "a"), "/0/match", "only the workload"},
		"audience alone":          {rule(`"aud":"x","iss":"y"`, "a"), "/0/match", "only the workload"},
		"subject *":               {rule(`"sub":"*"`, "a"), "/0/match", "only the workload"},
		"any repository":          {rule(`"sub":"repo:*"`, "a"), "/0/match", "only the workload"},
		"any owner":               {rule(`"sub":"repo:*/app:ref:refs/heads/main"`, "a"), "/0/match", "only the workload"},
		"owner beginning":         {rule(`"sub":"repo:octo-*/app:ref:refs/heads/main"`, "a"), "/0/match", "only the workload"},
		"any number of the owner": {rule(`"sub":"repo:octo-org@*/app:ref:refs/heads/main"`, "a"), "/0/match", "only the workload"},
		"number begins, in sub":   {rule(`"sub":"repo:octo-org@6*/app@74:ref:refs/heads/main"`, "a"), "/0/match", "only the workload"},
		"any name of the number":  {rule(`"sub":"repo:*@65/app@74:ref:refs/heads/main"`, "a"), "/0/match", "only the workload"},
		"empty owner":             {rule(`"sub":"repo:/*:ref:refs/heads/main"`, "a"), "/0/match", "only the workload"},
		"repository *":            {rule(`"repository":"*/app"`, "a"), "/0/match", "only the workload"},
		"repository begins":       {rule(`"repository":"octo-*"`, "a"), "/0/match", "only the workload"},
		"number begins":           {rule(`"repository_id":"7*"`, "a"), "/0/match", "only the workload"},
		"any namespace":           {rule(`"sub":"system:serviceaccount:*:default"`, "a"), "/0/match", "only the workload"},
		"namespace begins":        {rule(`"sub":"system:serviceaccount:pay*:default"`, "a"), "/0/match", "only the workload"},
		"any trust domain":        {rule(`"sub":"spiffe://*/x"`, "a"), "/0/match", "only the workload"},
		"whole domain":            {rule(`"sub":"spiffe://example.org/*"`, "a"), "/0/match", "only the workload"},
		"host of an email":        {rule(`"sub":"*@example.com"`, "a"), "/0/match", "only the workload"},
		"subject a number":        {rule(`"sub":5`, "a"), "/0/match", "only the workload"},
		"subject true":            {rule(`"repository_id":true`, "a"), "/0/match", "only the workload"},
		"name in capitals":        {rule(`"Sub":"x"`, "a"), "/0/match", "only the workload"},
		"name that looks":         {rule(`"ѕub":"x"`, "a"), "/0/match", "only the workload"},
		"agent absent":            {`[{"match":{"sub":"x"}}]`, "/0/agentId", "string"},
		"agent empty":             {rule(good, ""), "/0/agentId", "bytes"},
		"agent a path":            {rule(good, "a/b"), "/0/agentId", "characters"},
		"agent dots":              {rule(good, ".."), "/0/agentId", "characters"},
		"agent long":              {rule(good, strings.Repeat("a", 129)), "/0/agentId", "characters"},
		"claim unmatched":         {rule(good, "a-{ref}"), "/0/agentId", "claims of match"},
		"claim open":              {rule(good, "a-{sub"), "/0/agentId", "without a }"},
		"claim closed":            {rule(good, "a-sub}"), "/0/agentId", "without a {"},
		"claims adjacent":         {rule(good+`,"ref":"y"`, "{sub}{ref}"), "/0/agentId", "between two"},
		"scope":                   {`[{"match":{"sub":"x"},"agentId":"a","scope":"admin"}]`, "/0/scope", "agent"},
		"ttl 0":                   {`[{"match":{"sub":"x"},"agentId":"a","ttl":0}]`, "/0/ttl", "1 to 3600"},
		"ttl 3601":                {`[{"match":{"sub":"x"},"agentId":"a","ttl":3601}]`, "/0/ttl", "1 to 3600"},
		"ttl a text":              {`[{"match":{"sub":"x"},"agentId":"a","ttl":"60"}]`, "/0/ttl", "1 to 3600"},
		"person a text":           {`[{"match":{"client_id":"cc_1"},"agentId":"a","person":"true"}]`, "/0/person", "true or false"},
		"person, any client":      {`[{"match":{"sub":"x"},"agentId":"a","person":true}]`, "/0/match", "client_id without"},
		"person, client begins":   {`[{"match":{"client_id":"cc_*"},"agentId":"a","person":true}]`, "/0/match", "client_id without"},
		"person, client escaped":  {`[{"match":{"client_id":"cc_\u002a"},"agentId":"a","person":true}]`, "/0/match", "client_id without"},
		"person, client a number": {`[{"match":{"client_id":1},"agentId":"a","person":true}]`, "/0/match", "client_id without"},
		"client, and no person":   {`[{"match":{"client_id":"cc_1"},"agentId":"a","person":false}]`, "/0/match", "only the workload"},
		"register a text":         {`[{"match":{"sub":"x"},"agentId":"a","register":"true"}]`, "/0/register", "true or false"},
	} {
		_, err := federation.Parse([]byte(test.rules))
		var refused *federation.Error
		if !errors.As(err, &refused) || refused.Pointer != test.pointer || !strings.Contains(refused.Message, test.want) {
			t.Errorf("%s: %v, want %q at %q", name, err, test.want, test.pointer)
		}
	}
}

// What a * matches, and that a value matches its own type alone.
func TestMatching(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		match, claims string
		want          bool
	}{
		{`"x":"a*c"`, `"x":"abc"`, true},
		{`"x":"a*c"`, `"x":"ac"`, false},
		{`"x":"*"`, `"x":""`, false},
		{`"x":"*"`, `"x":"A-z0.9_~+"`, true},
		{`"x":"a*"`, `"x":"a/b"`, false},
		{`"x":"a*"`, `"x":"a:b"`, false},
		{`"x":"a*"`, `"x":"a@b"`, false},
		{`"x":"a*"`, `"x":"a b"`, false},
		{`"x":"a*"`, `"x":"a%2fb"`, false},
		{`"x":"a*"`, `"x":"a\u2215b"`, false}, // a slash that looks alike
		{`"x":"a*"`, `"x":"ab\n"`, false},
		{`"x":"a*"`, `"x":"aé"`, false},
		{`"x":"a*"`, `"x":"za"`, false},
		{`"x":"a*"`, `"x":"A1"`, false},
		{`"x":"a*b"`, `"x":"axb\u0000"`, false},
		{`"x":"a*b*c"`, `"x":"aXbXbYc"`, true},
		{`"x":"a.c"`, `"x":"abc"`, false},
		{`"x":"a|b"`, `"x":"a"`, false},
		{`"x":"(?i)a"`, `"x":"A"`, false},
		{`"x":"a\\Ec"`, `"x":"a\\Ec"`, true},
		{`"x":"caf\u00e9"`, `"x":"café"`, true},
		{`"x":"café"`, `"x":"cafe\u0301"`, false}, // no normal form is made
		{`"x":"true"`, `"x":true`, false},
		{`"x":true`, `"x":true`, true},
		{`"x":true`, `"x":"true"`, false},
		{`"x":true`, `"x":1`, false},
		{`"x":7`, `"x":7`, true},
		{`"x":7`, `"x":7.0`, false},
		{`"x":7`, `"x":"7"`, false},
		{`"x":"*"`, `"x":["a"]`, false},
		{`"x":"*"`, `"x":{"a":"b"}`, false},
		{`"x":"*"`, `"x":null`, false},
		{`"x":"*"`, `"y":"a"`, false},
		{`"x":"*"`, `"X":"a"`, false},
		{`"/x/y":"a"`, `"x":{"y":"a"}`, true},
		{`"/x/y":"a"`, `"x":[{"y":"a"}]`, false},
		{`"/x/y":"a"`, `"x/y":"a"`, false},
		{`"/x/y":"a"`, `"/x/y":"a"`, false},
		{`"x/y":"a"`, `"x":{"y":"a"}`, false},
		{`"x":"a","y":"b"`, `"x":"a","y":"c"`, false},
		{`"x":"a","y":"b"`, `"x":"a","y":"b"`, true},
	} {
		_, err := parse(t, rule(`"sub":"s",`+test.match, "a")).Match(claimsOf(t, `{"sub":"s",`+test.claims+`}`), false)
		if (err == nil) != test.want {
			t.Errorf("%s on %s: %v", test.match, test.claims, err)
		}
	}
}

// The first rule that matches counts, with what it says.
func TestFirstRule(t *testing.T) {
	t.Parallel()
	r := parse(t, `[{"match":{"sub":"a:b:*","x":"1"},"agentId":"one","ttl":60},{"match":{"sub":"a:b:c"},"agentId":"two","register":true,"scope":"agent"},
		{"match":{"sub":"a:b:*"},"agentId":"three"}]`)
	for claims, want := range map[string]federation.Grant{
		`{"sub":"a:b:c","x":"1"}`: {Rule: 0, AgentID: "one", TTL: 60},
		`{"sub":"a:b:c"}`:         {Rule: 1, AgentID: "two", TTL: 3600, Register: true},
		`{"sub":"a:b:d"}`:         {Rule: 2, AgentID: "three", TTL: 3600},
	} {
		if got, err := r.Match(claimsOf(t, claims), false); err != nil || got != want {
			t.Errorf("%s: %+v, %v", claims, got, err)
		}
	}
}

// A rule is for persons or for workloads, and never for both.
func TestRulesForPersons(t *testing.T) {
	t.Parallel()
	r := parse(t, `[{"match":{"sub":"*","client_id":"cc_1"},"agentId":"one","person":true},{"match":{"sub":"a:b:c"},"agentId":"two","person":null},
		{"match":{"client_id":"cc_2","sub":"a:b:c"},"agentId":"three","person":true}]`)
	if !r.HavePersons() || parse(t, rule(`"sub":"x"`, "a")).HavePersons() || !strings.Contains(r.String(), `"person":true`) || strings.Contains(r.String(), `"person":false`) {
		t.Errorf("%s", r)
	}
	for _, test := range []struct {
		claims string
		person bool
		want   string
	}{
		{`{"sub":"x","client_id":"cc_1"}`, true, "one"},
		{`{"sub":"x","client_id":"cc_1"}`, false, ""},
		{`{"sub":"x","client_id":"cc_2"}`, true, ""},
		{`{"sub":"a:b:c","client_id":"cc_2"}`, true, "three"},
		{`{"sub":"a:b:c","client_id":"cc_2"}`, false, "two"},
		{`{"sub":"a:b:c"}`, true, ""},
	} {
		if got, err := r.Match(claimsOf(t, test.claims), test.person); got.AgentID != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s, %t: %+v, %v", test.claims, test.person, got, err)
		}
	}
}

// An agent's ID is made of claims whole and in one way, or not at all.
func TestAgentIDs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ agentID, x, y, want string }{
		{"{x}", "a", "", "a"},
		{"ci-{x}", "a/b/c", "", "ci-a__b__c"},
		{"{x}.{y}", "a-b", "c.d", "a-b.c.d"},
		{"{x}.{y}", "a.b", "c", ""}, // or a and b.c would be the same agent
		{"{x}_{y}", "a/b", "c", ""},
		{"{x}--{y}", "a-b", "c", ""},
		{"{x}", "a__b", "", ""}, // which is a/b
		{"{x}", "a_/b", "", ""},
		{"{x}", "a/_b", "", ""},
		{"{x}", "a b", "", ""},
		{"{x}", "a:b", "", ""},
		{"{x}", "é", "", ""},
		{"{x}", "..", "", ""},
		{"{x}", "../x", "", "..__x"},
		{"{x}", "", "", ""},
		{"{x}", "{y}", "", ""},
		{"{x}", strings.Repeat("a", 128), "", strings.Repeat("a", 128)},
		{"{x}", strings.Repeat("a", 129), "", ""}, // never cut off
		{"ci-{x}", strings.Repeat("a", 126), "", ""},
	} {
		claims, err := json.Marshal(map[string]string{"sub": "s", "x": test.x, "y": test.y})
		must.OK(t, err)
		match := fmt.Sprintf(`"sub":"s","x":%q`, test.x)
		if test.x == "" {
			match = `"sub":"s","x":"*"`
		}
		if strings.Contains(test.agentID, "{y}") {
			match += `,"y":"*"`
		}
		grant, err := parse(t, rule(match, test.agentID)).Match(claimsOf(t, string(claims)), false)
		var refusal *federation.Refusal
		if test.want == "" && !errors.As(err, &refusal) || test.want != "" && (err != nil || grant.AgentID != test.want) {
			t.Errorf("%s of %q and %q: %+v, %v", test.agentID, test.x, test.y, grant, err)
		}
	}
}

// Rules have one form, which says the same.
func TestForm(t *testing.T) {
	t.Parallel()
	r := parse(t, ` [ {"agentId":"a-{sub}","match":{"sub":"\u0078","n":7,"b":true,"/q\/r":"\"<"},"ttl":null} ] `)
	const want = `[{"agentId":"a-{sub}","match":{"/q/r":"\"<","b":true,"n":7,"sub":"x"},"register":false,"scope":"agent","ttl":3600}]`
	if r.String() != want || parse(t, want).String() != want {
		t.Errorf("%s", r)
	}
}

// FuzzAgentIDs holds that two pairs of values never have one agent's ID.
func FuzzAgentIDs(f *testing.F) {
	f.Add("{x}.{y}", "a.b", "c", "a", "b.c")
	f.Add("ci-{x}", "a/b", "", "a__b", "")
	f.Add("{x}_{y}", "a/b", "c", "a", "b_c")
	f.Fuzz(func(t *testing.T, agentID, x1, y1, x2, y2 string) {
		text, err := json.Marshal(agentID)
		must.OK(t, err)
		if x1 == x2 && y1 == y2 || !strings.Contains(agentID, "{x}") || !strings.Contains(agentID, "{y}") {
			return
		}
		ids := map[string]bool{}
		for _, pair := range [][2]string{{x1, y1}, {x2, y2}} {
			claims, err := json.Marshal(map[string]string{"sub": "s", "x": pair[0], "y": pair[1]})
			must.OK(t, err)
			r, err := federation.Parse([]byte(`[{"match":` + string(claims) + `,"agentId":` + string(text) + `}]`))
			if err != nil {
				return
			}
			parsed, err := idtoken.ParseClaims(claims)
			must.OK(t, err)
			grant, err := r.Match(parsed, false)
			if err != nil {
				return
			}
			if ids[grant.AgentID] {
				t.Fatalf("%q, %q and %q, %q are both %q by %q", x1, y1, x2, y2, grant.AgentID, agentID)
			}
			ids[grant.AgentID] = true
		}
	})
}

// FuzzParse holds that nothing panics, and what is accepted has one form.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`[{"match":{"sub":"repo:octo-org/*:x"},"agentId":"ci-{sub}","ttl":5,"register":true}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := federation.Parse(text)
		if err != nil {
			return
		}
		again, err := federation.Parse([]byte(r.String()))
		if err != nil || again.String() != r.String() || !json.Valid([]byte(r.String())) {
			t.Fatalf("%s is %s and then %v, %v", text, r, again, err)
		}
	})
}
