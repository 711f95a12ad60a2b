// Package bundle joins ES modules into one script, so that a page is loaded with one request and
// people go on editing modules.
package bundle

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Bundle is ES modules as one script. Each module becomes a function that is called once, in an
// order in which what a module imports comes before it, so that modules keep their names to
// themselves and nothing has to be renamed.
type Bundle struct {
	Files fs.FS
	// Shared is a bundle of which this one takes the modules that are there already, from the
	// script at the URL that it has been given.
	Shared    *Bundle
	SharedURL string
	// Later returns the URL of the script that a dynamic import loads. Without it, what such an
	// import names is added.
	Later func(name string) string

	names  []string // files, in that order
	open   []string // files whose imports are being read
	later  []string // files that dynamic imports name
	shared []string // constants of Shared
	last   []string // names that the module which was added last exports
	out    bytes.Buffer

	exports map[string][]string // names, by file
}

// Names returns the files that are in the bundle, each after those that it imports.
func (b *Bundle) Names() []string { return b.names }

// Dynamic returns the files that dynamic imports name, where these are left to be loaded later.
func (b *Bundle) Dynamic() []string { return b.later }

// Script returns the modules as the text of one classic script.
func (b *Bundle) Script() string { return "'use strict';\n(() => {" + b.out.String() + "})();\n" }

// Module returns the modules as the text of one module. It exports what the one that was added last
// exports, and all modules, for bundles that share them. Comments with types (/**) are left out.
func (b *Bundle) Module() string {
	var text strings.Builder
	if len(b.shared) > 0 {
		fmt.Fprintf(&text, "import { %s } from '%s';\n", strings.Join(b.shared, ", "), b.SharedURL)
	}
	text.WriteString(docComment.remove(b.out.String()))
	constants := make([]string, len(b.names))
	for i := range b.names {
		constants[i] = b.constant(i)
	}
	fmt.Fprintf(&text, "export { %s };\n", strings.Join(constants, ", "))
	if len(b.last) > 0 {
		fmt.Fprintf(&text, "export const { %s } = %s;\n", strings.Join(b.last, ", "), constants[len(constants)-1])
	}
	return text.String()
}

// exported refuses a list of names that are imported where the file does not export one of them:
// joined, it would be undefined, and no browser would say so.
func (b *Bundle) exported(file, list string) error {
	there := b.exports[file]
	if b.Shared != nil && there == nil {
		there = b.Shared.exports[file]
	}
	for _, item := range strings.Split(strings.Trim(list, "{} \n,"), ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(item), " as ")
		if !slices.Contains(there, name) {
			return fmt.Errorf("%s does not export %s", file, name)
		}
	}
	return nil
}

// constant is the name that a module's exports have; what is shared and what is not have
// names of their own.
func (b *Bundle) constant(i int) string {
	if b.Shared != nil {
		return fmt.Sprint("own", i)
	}
	return fmt.Sprint("module", i)
}

// Add writes a module and, before it, those that it imports, and returns the name of the constant
// that holds what it exports.
func (b *Bundle) Add(name string) (string, error) {
	if b.Shared != nil {
		if i := slices.Index(b.Shared.names, name); i >= 0 {
			constant := b.Shared.constant(i)
			if !slices.Contains(b.shared, constant) {
				b.shared = append(b.shared, constant)
			}
			return constant, nil
		}
	}
	if i := slices.Index(b.names, name); i >= 0 {
		return b.constant(i), nil
	}
	if slices.Contains(b.open, name) {
		return "", fmt.Errorf("%s imports itself", name)
	}
	src, err := fs.ReadFile(b.Files, name)
	if err != nil {
		return "", err
	}
	b.open = append(b.open, name)
	imported := func(from string) string {
		var module string
		if err == nil {
			module, err = b.Add(path.Join(path.Dir(name), from))
		}
		return module
	}
	text := importForm.replace(string(src), func(m []string) string {
		names := strings.TrimPrefix(m[1], "* as ")
		defer func() {
			if err == nil && names == m[1] {
				err = b.exported(path.Join(path.Dir(name), m[2]), names)
			}
		}()
		return "const " + strings.ReplaceAll(names, " as ", ": ") + " = " + imported(m[2]) + ";"
	})
	text = dynamicForm.replace(text, func(m []string) string {
		if b.Later == nil {
			return "Promise.resolve(" + imported(m[1]) + ")"
		}
		target := path.Join(path.Dir(name), m[1])
		if !slices.Contains(b.later, target) {
			b.later = append(b.later, target)
		}
		return "import\x00('" + b.Later(target) + "')" // leftover must not find it
	})
	if err != nil {
		return "", err
	}
	var exports, names []string
	text = listForm.replace(text, func(m []string) string {
		for _, item := range strings.Split(strings.Trim(strings.TrimSpace(m[1]), ","), ",") {
			local, as, renamed := strings.Cut(strings.TrimSpace(item), " as ")
			if !renamed {
				as = local
			} else {
				local = as + ": " + local
			}
			exports, names = append(exports, local), append(names, as)
		}
		return ""
	})
	text = exportForm.replace(text, func(m []string) string {
		exports, names = append(exports, m[2]), append(names, m[2])
		return m[1] + " " + m[2]
	})
	if at := unmatched(text); at != "" {
		return "", fmt.Errorf("%s has %q, for which there is no form", name, at)
	}
	b.last = names
	if b.exports == nil {
		b.exports = make(map[string][]string)
	}
	b.exports[name] = names
	b.names = append(b.names, name)
	constant := b.constant(len(b.names) - 1)
	fmt.Fprintf(&b.out, "\n// %s\nconst %s = (() => {\n%s\nreturn { %s };\n})();\n", name, constant,
		strings.TrimSpace(strings.ReplaceAll(text, "import\x00(", "import(")), strings.Join(exports, ", "))
	return constant, nil
}
