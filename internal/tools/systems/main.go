// Command systems checks that a package and all that it imports compile on every system for which
// there are releases. It checks types, without generating code: that takes seconds instead of
// minutes. Of packages of other modules it checks declarations only.
//
//	go -C internal/tools run ./systems ../..
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: systems FOLDER")
		os.Exit(2)
	}
	failed := false
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, processor := range []string{"amd64", "arm64"} {
			if err := check(os.Args[1], system, processor); err != nil {
				fmt.Fprintf(os.Stderr, "%s/%s: %v\n", system, processor, err)
				failed = true
			}
		}
	}
	if failed {
		os.Exit(1)
	}
}

// imported is a package in the output of go list.
type imported struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string // vendored packages of the standard library
	Module          *struct {
		Main      bool
		GoVersion string
	}
	Error *struct{ Err string }
}

// check returns what the compiler would find in the package of a folder.
func check(folder, system, processor string) error {
	list := exec.Command("go", "list", "-deps", "-e", "-json=ImportPath,Dir,GoFiles,ImportMap,Module,Error", ".")
	list.Dir = folder
	list.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+processor, "CGO_ENABLED=0")
	list.Stderr = os.Stderr
	out, err := list.StdoutPipe()
	if err != nil {
		return err
	}
	if err := list.Start(); err != nil {
		return err
	}
	problems := checkAll(json.NewDecoder(out), processor)
	_, _ = io.Copy(io.Discard, out) // after an error; go list would wait for a reader
	return errors.Join(problems, list.Wait())
}

// checkAll reads packages in the order of their imports, and checks one after the other.
func checkAll(packages *json.Decoder, processor string) error {
	files := token.NewFileSet()
	checked := map[string]*types.Package{"unsafe": types.Unsafe}
	for packages.More() {
		var p imported
		if err := packages.Decode(&p); err != nil {
			return err
		}
		if p.Error != nil {
			return errors.New(p.Error.Err)
		}
		if p.ImportPath == "unsafe" {
			continue
		}
		own := p.Module != nil && p.Module.Main
		var problems []error
		config := types.Config{
			Importer:         importer{checked, p.ImportMap},
			Sizes:            types.SizesFor("gc", processor),
			IgnoreFuncBodies: !own,
			Error:            func(err error) { problems = append(problems, err) },
		}
		if p.Module != nil && p.Module.GoVersion != "" {
			config.GoVersion = "go" + p.Module.GoVersion
		}
		var parsed []*ast.File
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			parsed = append(parsed, file)
		}
		checked[p.ImportPath], _ = config.Check(p.ImportPath, files, parsed, nil)
		if len(problems) > 0 {
			return errors.Join(problems...)
		}
	}
	return nil
}

// importer finds what a package imports among those that were checked before it.
type importer struct {
	checked map[string]*types.Package
	renamed map[string]string
}

func (i importer) Import(path string) (*types.Package, error) {
	if other, ok := i.renamed[path]; ok {
		path = other
	}
	if p := i.checked[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("there is no package %s", path)
}
