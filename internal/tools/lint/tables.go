package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	objectLiteral = regexp.MustCompile(`(?m)^(?:export )?const ([A-Z][A-Z_]+) = (?:/\*\*[^\n]*\*/ \()?\{`)
	indexed       = regexp.MustCompile(`\b([A-Z][A-Z_]+)\[`)
)

// tables finds the constant objects of the console that are indexed, and not made with table. An
// object has what Object.prototype has, so text of a server such as __proto__ would find that.
func tables(folder string) (findings []finding, err error) {
	type place struct {
		name string
		finding
	}
	var declared []place
	isIndexed := map[string]bool{}
	for _, root := range []string{"web/console", "web/verifier"} {
		if _, err := os.Stat(filepath.Join(folder, root)); os.IsNotExist(err) {
			continue
		}
		err := filepath.WalkDir(filepath.Join(folder, root), func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(name) != ".js" || strings.Contains(filepath.ToSlash(name), "/vendor/") {
				return err
			}
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			relative, err := filepath.Rel(folder, name)
			for _, at := range objectLiteral.FindAllSubmatchIndex(text, -1) {
				constant := string(text[at[2]:at[3]])
				declared = append(declared, place{constant, finding{
					file: filepath.ToSlash(relative),
					line: 1 + strings.Count(string(text[:at[0]]), "\n"),
					what: fmt.Sprintf("%s is indexed: make it with table of lib/table.js", constant),
				}})
			}
			for _, m := range indexed.FindAllSubmatch(text, -1) {
				isIndexed[string(m[1])] = true
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	for _, d := range declared {
		if isIndexed[d.name] {
			findings = append(findings, d.finding)
		}
	}
	return findings, nil
}
