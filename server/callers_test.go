package server

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A handler gets its caller from Call.By, with the kinds of callers that it allows. Nothing else of
// these packages looks a credential up, and only limits, the log and refusals use the presumed
// caller.
func TestHandlersAskByForTheirCaller(t *testing.T) {
	t.Parallel()
	only := map[string][]string{ // where a field or a method of this name may be used
		"presumed":           {"account.go", "call.go", "callers.go", "credential.go", "handle.go", "linger.go"},
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
	var files []string
	for _, folder := range []string{".", "httpapi", "api"} {
		found, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	seen, asked := map[string]bool{}, 0
	for _, file := range files {
		name := filepath.Base(file)
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		positions := token.NewFileSet()
		parsed, err := parser.ParseFile(positions, file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			s, is := n.(*ast.SelectorExpr)
			if !is {
				return true
			}
			if s.Sel.Name == "By" {
				asked++
			}
			if places, guarded := only[s.Sel.Name]; guarded {
				seen[s.Sel.Name] = true
				if !slices.Contains(places, name) {
					t.Errorf("%v: %s: a handler gets its caller from Call.By", positions.Position(s.Pos()), s.Sel.Name)
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
		t.Errorf("By is asked at %d places", asked)
	}
}

// A route that names no caller is closed to everybody, and each route names one.
func TestRoutesNameTheirCallers(t *testing.T) {
	t.Parallel()
	for _, rt := range routes(new(resources)) {
		if rt.Needs.Who == 0 {
			t.Errorf("%s %s names no caller", rt.Method, rt.Path)
		}
	}
}
