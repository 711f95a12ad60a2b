package server

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"

	"attestd/store"
)

// Whose request it is, a handler asks call.by, with the kinds of callers that it is for. Nothing
// else of this package looks a credential up, or goes by who presumably calls but limits, the log
// and refusals.
func TestHandlersAskByForTheirCaller(t *testing.T) {
	t.Parallel()
	only := map[string][]string{ // where a field or a method of a name may stand
		"presumed":           {"account.go", "call.go", "callers.go", "credential.go", "errors.go", "handle.go", "linger.go"},
		"lookUp":             {"callers.go", "credential.go"},
		"lookUpToken":        {"credential.go"},
		"certifiedAgent":     {"clientcert.go", "credential.go"},
		"AuthenticateBound":  {"credential.go"},
		"Authenticate":       {"clientauth.go", "credential.go"},
		"AuthenticateClient": {},
		"ClientKeys":         {},
		"Enrolment":          {"agentkeys.go", "credential.go"}, // the former of a request
		"Certified":          {"clientcert.go"},
	}
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	seen, asked := map[string]bool{}, 0
	for _, file := range files {
		name := file.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		positions := token.NewFileSet()
		parsed, err := parser.ParseFile(positions, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			s, is := n.(*ast.SelectorExpr)
			if !is {
				return true
			}
			if s.Sel.Name == "by" {
				asked++
			}
			if places, guarded := only[s.Sel.Name]; guarded {
				seen[s.Sel.Name] = true
				if !slices.Contains(places, name) {
					t.Errorf("%v: %s: a handler gets its caller from call.by", positions.Position(s.Pos()), s.Sel.Name)
				}
			}
			return true
		})
	}
	for name, places := range only {
		if !seen[name] && len(places) > 0 {
			t.Errorf("nothing is called %s any more", name)
		}
	}
	if asked < 8 {
		t.Errorf("by is asked at %d places", asked)
	}
}

// A route that names no caller is closed to everybody, and each route names one.
func TestRoutesNameTheirCallers(t *testing.T) {
	t.Parallel()
	for _, rt := range routes(new(resources)) {
		if rt.needs.who == 0 {
			t.Errorf("%s %s names no caller", rt.method, rt.path)
		}
	}
	company := &store.Company{ID: "acme"}
	callers := map[string]store.Caller{
		"nobody": {}, "a reader": {Company: company, Role: store.Reader}, "a writer": {Company: company, Role: store.Writer},
		"an admin": {Company: company, Role: store.Admin}, "a client": {Company: company, Role: store.Admin, Client: "cc_1"},
		"an agent": {Company: company, Role: store.ActsAsAgent, Agent: "bot"}, "a person's agent": {Company: company, Role: store.ActsAsAgent, Agent: "bot", Delegation: "{}", Client: "cc_1"},
		"an enrolment": {Company: company, Role: store.Enrolling, Agent: "bot"}, "a role of nobody": {Company: company, Role: "owner", Client: "cc_1"},
	}
	for name, by := range callers {
		is := kindsOf(by)
		if name == "a role of nobody" {
			if is != 0 {
				t.Errorf("%s is %b", name, is)
			}
			continue
		}
		if is == 0 || is == nobody && name != "nobody" || is != nobody && name == "nobody" {
			t.Errorf("%s is %b", name, is)
		}
	}
}
