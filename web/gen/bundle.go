package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The forms of import and export that our modules and the vendored ones have; what is left of others is refused by leftover.
var (
	importForm  = regexp.MustCompile(`(?m)^import (\{[^}]*\}|\* as \w+) from ['"](\.[^'"]+)['"];`)
	dynamicForm = regexp.MustCompile(`\bimport\(['"](\.[^'"]+)['"]\)`)
	listForm    = regexp.MustCompile(`(?m)(^|;)export ?\{([^}]*)\};?$`)
	exportForm  = regexp.MustCompile(`(?m)^export ((?:async )?function\*?|const|class) (\w+)`)
	leftover    = regexp.MustCompile(`(?m)^(import|export)\b|\bimport(\(|\.meta)|</script|<!--`)
	comment     = regexp.MustCompile(`(?s)/\*.*?\*/`)
)

// bundle is ES modules as one script. Each module becomes a function that is called once, in an order in which what a module imports comes before it,
// so that modules keep their names to themselves and nothing has to be renamed.
type bundle struct {
	names []string // files, in that order
	open  []string // files whose imports are being read
	out   bytes.Buffer
}

// add writes a module and, before it, those that it imports, and returns the name of the constant that holds what it exports.
func (b *bundle) add(name string) (string, error) {
	if i := slices.Index(b.names, name); i >= 0 {
		return fmt.Sprint("module", i), nil
	}
	if slices.Contains(b.open, name) {
		return "", fmt.Errorf("%s imports itself", name)
	}
	src, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	b.open = append(b.open, name)
	imported := func(from string) string {
		var module string
		if err == nil {
			module, err = b.add(filepath.Join(filepath.Dir(name), from))
		}
		return module
	}
	text := importForm.ReplaceAllStringFunc(string(src), func(s string) string {
		m := importForm.FindStringSubmatch(s)
		names := strings.TrimPrefix(m[1], "* as ")
		return "const " + strings.ReplaceAll(names, " as ", ": ") + " = " + imported(m[2]) + ";"
	})
	text = dynamicForm.ReplaceAllStringFunc(text, func(s string) string {
		return "Promise.resolve(" + imported(dynamicForm.FindStringSubmatch(s)[1]) + ")"
	})
	if err != nil {
		return "", err
	}
	var exports []string
	text = listForm.ReplaceAllStringFunc(text, func(s string) string {
		m := listForm.FindStringSubmatch(s)
		for _, item := range strings.Split(strings.Trim(strings.TrimSpace(m[2]), ","), ",") {
			local, as, renamed := strings.Cut(strings.TrimSpace(item), " as ")
			if renamed {
				local = as + ": " + local
			}
			exports = append(exports, local)
		}
		return m[1]
	})
	for _, m := range exportForm.FindAllStringSubmatch(text, -1) {
		exports = append(exports, m[2])
	}
	text = exportForm.ReplaceAllString(text, "$1 $2")
	if at := leftover.FindString(comment.ReplaceAllString(text, "")); at != "" {
		return "", fmt.Errorf("%s has %q, for which there is no form", name, at)
	}
	b.names = append(b.names, name)
	constant := fmt.Sprint("module", len(b.names)-1)
	fmt.Fprintf(&b.out, "\n// %s\nconst %s = (() => {\n%s\nreturn { %s };\n})();\n", filepath.ToSlash(name), constant, strings.TrimSpace(text), strings.Join(exports, ", "))
	return constant, nil
}
