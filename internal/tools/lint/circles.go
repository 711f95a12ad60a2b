package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// maxCircle is how many files of a package may use one another in a circle. A package of more files
// than that may have no circle of more than half of them: it would be a hall without walls.
const maxCircle = 25

// circles finds the packages of the module in a folder with larger circles.
func circles(folder string) (findings []finding, err error) {
	if _, err := os.Stat(filepath.Join(folder, "go.mod")); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	list := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Module", "./...")
	list.Dir = folder
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	type goPackage struct {
		ImportPath, Dir, Export string
		GoFiles                 []string
		Module                  *struct{ Main bool }
	}
	exports := map[string]string{}
	var ours []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if exports[p.ImportPath] = p.Export; p.Module != nil && p.Module.Main {
			ours = append(ours, p)
		}
	}
	for _, p := range ours {
		uses, err := usesOf(p.Dir, p.GoFiles, exports)
		if err != nil {
			return nil, fmt.Errorf("package %s: %w", p.ImportPath, err)
		}
		n, files := largestCircle(uses), len(p.GoFiles)
		if n > maxCircle || files > maxCircle && 2*n > files {
			findings = append(findings, finding{file: p.ImportPath, line: 1,
				what: fmt.Sprintf("%d of %d files use one another in a circle; at most %d, and half of them", n, files, maxCircle)})
		}
	}
	return findings, nil
}

// usesOf returns which files of a package use what others declare.
func usesOf(dir string, names []string, exports map[string]string) (map[string]map[string]bool, error) {
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		f, err := parser.ParseFile(fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	compiled := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	p, err := (&types.Config{Importer: compiled}).Check(dir, fset, files, info)
	if err != nil {
		return nil, err
	}
	uses := map[string]map[string]bool{}
	for _, name := range names {
		uses[name] = map[string]bool{}
	}
	for id, what := range info.Uses {
		// a method or field of a type belongs to the file that declares it
		if what.Pkg() != p || what.Parent() != p.Scope() && what.Parent() != nil {
			continue
		}
		from, to := filepath.Base(fset.Position(id.Pos()).Filename), filepath.Base(fset.Position(what.Pos()).Filename)
		if from != to && strings.HasSuffix(to, ".go") {
			uses[from][to] = true
		}
	}
	return uses, nil
}

// largestCircle is the number of nodes of the largest strongly connected component of a graph, 0
// where no two nodes reach each other.
func largestCircle(uses map[string]map[string]bool) (largest int) {
	reached := map[string]map[string]bool{}
	for from := range uses {
		seen := map[string]bool{}
		for next := []string{from}; len(next) > 0; {
			at := next[len(next)-1]
			next = next[:len(next)-1]
			for to := range uses[at] {
				if !seen[to] {
					seen[to], next = true, append(next, to)
				}
			}
		}
		reached[from] = seen
	}
	for a, seen := range reached {
		n := 0
		for b := range seen {
			if a == b || reached[b][a] {
				n++
			}
		}
		largest = max(largest, n)
	}
	return largest
}
