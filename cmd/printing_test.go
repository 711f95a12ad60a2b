package cmd

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// Commands print only through package printable, which escapes terminal control sequences.
func TestCommandsPrintEscaped(t *testing.T) {
	t.Parallel()
	forbidden := map[string][]string{
		"fmt": {"Print", "Printf", "Println", "Fprint", "Fprintf", "Fprintln"}, "json": {"NewEncoder"}, "cmd": {"Print", "Printf", "Println", "PrintErr", "PrintErrf", "PrintErrln"}, "log": {"Print", "Printf", "Println"},
	}
	files, err := filepath.Glob("*.go")
	below, err2 := filepath.Glob("*/*.go")
	if files = append(files, below...); err != nil || err2 != nil || len(below) < 30 || len(files) < 90 {
		t.Fatal(files, err, err2)
	}
	for _, name := range files {
		// manuals makes files of a release
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "manuals/") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if of, ok := s.X.(*ast.Ident); ok {
					for _, member := range forbidden[of.Name] {
						if s.Sel.Name == member {
							t.Errorf("%s: %s.%s", set.Position(s.Pos()), of.Name, member)
						}
					}
				}
			}
			return true
		})
	}
}
