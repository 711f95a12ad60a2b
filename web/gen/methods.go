package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"attestd/web"
)

// argument is one of an operation, as Python's callers see it.
type argument struct {
	name, wire string // the second is Python's spelling of the name in the reference
	of         schema
	required   bool // it may be given by its place
	described  string
}

// arguments returns those of an operation: what it needs in the order of the reference, first the
// parts of the path, and then what may be absent by names alone. open says that it takes any
// member.
func (r *reference) arguments(path string, o operation) (all []argument, open bool) {
	add := func(name string, of schema, required bool, described string) {
		wire := strings.ReplaceAll(name, "-", "_")
		own := pythonName(name)
		if name == "from" {
			wire, own = "from_", "from_"
		}
		all = append(all, argument{own, wire, of, required, cmp.Or(described, of.Description, r.resolve(of).Description)})
	}
	parameters := map[string]parameter{}
	for _, p := range o.Parameters {
		p = r.parameter(p)
		parameters[p.Name] = p
	}
	for _, found := range inPath.FindAllStringSubmatch(path, -1) {
		p, is := parameters[found[1]]
		if !is || p.In != "path" {
			p = parameter{Schema: schema{Type: "string"}}
		}
		add(found[1], p.Schema, true, p.Description)
	}
	for _, p := range o.Parameters {
		if p = r.parameter(p); p.In != "path" {
			add(p.Name, p.Schema, p.Required, p.Description)
		}
	}
	if o.RequestBody != nil {
		body := r.resolve(o.RequestBody.Content["application/json"].Schema)
		optional := slices.DeleteFunc(slices.Sorted(maps.Keys(body.Properties)), func(name string) bool { return slices.Contains(body.Required, name) })
		for i, member := range slices.Concat(body.Required, optional) {
			add(member, body.Properties[member], i < len(body.Required), "")
		}
		if _, text := o.RequestBody.Content["text/plain"]; text {
			add("text", schema{Type: "string"}, true, "")
		} else if len(body.Properties) == 0 {
			open = true
		}
	}
	// what is required comes first
	required := slices.DeleteFunc(slices.Clone(all), func(a argument) bool { return !a.required })
	return append(required, slices.DeleteFunc(all, func(a argument) bool { return a.required })...), open
}

// pythonName is the name of an argument in snake case.
func pythonName(wire string) string {
	if wire == "DPoP" {
		return "dpop"
	}
	return snakeCase(strings.ReplaceAll(wire, "-", "_"))
}

// pythonMethods makes the part of the Python client that has a method for each operation of the API
// reference but for those in the handwritten file.
func pythonMethods(handwritten string) ([]byte, error) {
	r, written, err := readReference(handwritten)
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	out.WriteString("# Made of the API reference by go generate ./web.\n\nfrom ._routes import _operation\n\nclass _Operations:\n    \"\"\"The operations of the API reference that are called in the usual way.\"\"\"\n")
	for _, o := range r.operations() {
		if strings.Contains(written, "def "+snakeCase(o.OperationID)+"(self") {
			continue
		}
		args, open := r.arguments(o.path, o.operation)
		names, optional := []string{"self"}, false
		for _, a := range args {
			switch {
			case a.required:
				names = append(names, a.name)
			case !optional:
				optional = true
				names = append(names, "*")
				fallthrough
			default:
				names = append(names, a.name+"=None")
			}
		}
		if open {
			names = append(names, "**members")
		}
		fmt.Fprintf(&out, "\n    @_operation(%q)\n    def %s(%s):\n        \"\"\"%s.\n\n        %s %s, %s of the API reference. %s\n", o.OperationID,
			snakeCase(o.OperationID), strings.Join(names, ", "), o.Summary, o.method, o.path, o.OperationID, firstSentence(o.Description))
		if len(args) > 0 {
			out.WriteString("\n")
		}
		for _, a := range args {
			spelled := a.name
			if a.wire != a.name {
				spelled += " (or " + a.wire + ")"
			}
			fmt.Fprintf(&out, "        %s: %s\n", spelled, strings.TrimSpace(pythonType(nil, "", a.of)+". "+firstSentence(a.described)))
		}
		out.WriteString("        \"\"\"\n")
	}
	return []byte(out.String()), nil
}

var (
	sentenceEnd = regexp.MustCompile(`[.:](\s|$)`)
	addition    = "**Addition.** "
	marks       = strings.NewReplacer("`", "", "**", "", `\`, `\\`, `"""`, `'''`)
)

// firstSentence returns the first sentence of a description, on one line and without marks of
// Markdown.
func firstSentence(text string) string {
	paragraph, _, _ := strings.Cut(strings.TrimSpace(text), "\n\n")
	line := strings.TrimPrefix(strings.Join(strings.Fields(paragraph), " "), addition)
	if end := sentenceEnd.FindStringIndex(line); end != nil {
		line = line[:end[0]]
	}
	if line == "" {
		return ""
	}
	return marks.Replace(line) + "."
}

// placed is an operation with where it is.
type placed struct {
	operation
	method, path string
}

// operations returns all of them by their tags in the order of the reference, and within by path.
func (r *reference) operations() (all []placed) {
	for path, methods := range r.Paths {
		for method, o := range methods {
			if !o.Browser { // which no client has
				all = append(all, placed{o, strings.ToUpper(method), path})
			}
		}
	}
	rank := func(p placed) int {
		return slices.IndexFunc(r.Tags, func(t tag) bool { return slices.Contains(p.Tags, t.Name) })
	}
	slices.SortFunc(all, func(a, b placed) int {
		return cmp.Or(rank(a)-rank(b), strings.Compare(a.path, b.path), strings.Compare(a.method, b.method))
	})
	return all
}

var goMethod = regexp.MustCompile(`"(\w+)":\s+"(\w+)"`)

// operationsPage makes the page that lists all operations of the API reference: from is the test of
// the Go client that says which of its methods is which operation, a comma, and the page as it is.
// The list goes between the two marks of the page.
func operationsPage(from string) ([]byte, error) {
	test, name, ok := strings.Cut(from, ",")
	if !ok {
		return nil, fmt.Errorf("%q names no page", from)
	}
	r, written, err := readReference(test)
	if err != nil {
		return nil, err
	}
	page, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	const begin, end = "<!-- operations -->\n", "<!-- /operations -->"
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return nil, fmt.Errorf("%s has no place for the operations", name)
	}
	table, err := tableOfOperations(r, written)
	return []byte(before + begin + table + end + after), err
}

// tableOfOperations has a row for each operation, in groups.
func tableOfOperations(r reference, written string) (string, error) {
	methods := map[string]string{}
	for _, m := range goMethod.FindAllStringSubmatch(written, -1) {
		methods[m[1]] = m[2]
	}
	var out strings.Builder
	out.WriteString("| Operation | Go | TypeScript | Python | What it does |\n|---|---|---|---|---|\n")
	last := ""
	for _, o := range r.operations() {
		if tag := strings.Join(o.Tags, ", "); tag != last {
			last = tag
			fmt.Fprintf(&out, "| **%s** | | | | |\n", tag)
		}
		if methods[o.OperationID] == "" {
			return "", fmt.Errorf("the Go client has no %s", o.OperationID)
		}
		typescript := o.OperationID
		if typescript == "attestBatch" { // which has a name of its own in these clients
			typescript = "attestAll"
		}
		fmt.Fprintf(&out, "| `%s %s` | `%s` | `%s` | `%s` | %s |\n", o.method, o.path, methods[o.OperationID], typescript, snakeCase(typescript), o.Summary)
	}
	return out.String(), nil
}

// readReference returns the API reference, and the text of a file that people wrote.
func readReference(handwritten string) (r reference, written string, err error) {
	other, err := os.ReadFile(handwritten)
	if err != nil {
		return r, "", err
	}
	return r, string(other), json.Unmarshal(web.OpenAPI(), &r)
}
