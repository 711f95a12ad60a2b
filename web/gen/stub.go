package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"attestd/web"
)

// schema is what a Python type is made of.
type schema struct {
	Ref                  string `json:"$ref"`
	Description          string
	Type                 any
	Const                any
	Enum                 []any
	Properties           map[string]schema
	Required             []string
	Items                *schema
	OneOf, AnyOf, AllOf  []schema
	AdditionalProperties json.RawMessage
}

type parameter struct {
	Ref         string `json:"$ref"`
	Name, In    string
	Description string
	Required    bool
	Schema      schema
}

type content struct {
	Content map[string]struct{ Schema schema }
}

type operation struct {
	OperationID string
	Summary     string
	Description string
	Tags        []string
	Parameters  []parameter
	RequestBody *content
	Responses   map[string]content
	// only the console does it, with an authenticator or the cookie of a session
	Browser bool `json:"x-browser"`
}

type tag struct{ Name string }

// reference is the API reference, as far as Python's types come from it.
type reference struct {
	Tags       []tag
	Paths      map[string]map[string]operation
	Components struct {
		Schemas    map[string]schema
		Parameters map[string]parameter
		Responses  map[string]content
	}
}

// stub makes the types of the Python client from the API reference and from what people wrote of
// them, in which a line "# schemas", "# operations" or "# async operations" is where those of the
// reference go.
func stub(written string) ([]byte, error) {
	text := web.OpenAPI()
	template, err := os.ReadFile(written)
	if err != nil {
		return nil, err
	}
	// a schema does not take the name of a class
	names := regexp.MustCompile(`(?m)^class (\w+)`).FindAllSubmatch(template, -1)
	for _, class := range names {
		text = bytes.ReplaceAll(text, fmt.Appendf(nil, "%q", "#/components/schemas/"+string(class[1])), fmt.Appendf(nil, "%q", "#/components/schemas/"+string(class[1])+"Object"))
	}
	var r reference
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, err
	}
	for _, class := range names {
		if s, is := r.Components.Schemas[string(class[1])]; is {
			delete(r.Components.Schemas, string(class[1]))
			r.Components.Schemas[string(class[1])+"Object"] = s
		}
	}
	return []byte(strings.NewReplacer(
		"# schemas\n", r.schemas(),
		"    # operations\n", r.methods("def", "Iterator", string(template)),
		"    # async operations\n", r.methods("async def", "AsyncIterator", string(template)),
	).Replace(bothSpellings(string(template)))), nil
}

func (r *reference) schemas() string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r.Components.Schemas)) {
		define(&out, name, r.Components.Schemas[name])
	}
	return out.String()
}

// define writes a type under a name.
func define(out *strings.Builder, name string, s schema) {
	if s.Type != "object" || len(s.Properties) == 0 {
		fmt.Fprintf(out, "%s: TypeAlias = %s\n\n", name, pythonType(out, name, s))
		return
	}
	members := slices.Sorted(maps.Keys(s.Properties))
	var lines []string
	for _, member := range members {
		of := pythonType(out, name+strings.ToUpper(member[:1])+member[1:], s.Properties[member])
		if !slices.Contains(s.Required, member) {
			of = "NotRequired[" + of + "]"
		}
		lines = append(lines, fmt.Sprintf("    %q: %s,\n", member, of))
	}
	fmt.Fprintf(out, "%s = TypedDict(%q, {\n%s})\n\n", name, name, strings.Join(lines, ""))
}

// pythonType is the type of a schema; an object within gets the name, and is written before.
func pythonType(out *strings.Builder, name string, s schema) string {
	union := func(of []schema) string {
		var all []string
		for i, one := range of {
			all = append(all, pythonType(out, fmt.Sprint(name, i+1), one))
		}
		return "Union[" + strings.Join(all, ", ") + "]"
	}
	switch {
	case s.Ref != "":
		return filepath.Base(s.Ref)
	case s.Const != nil:
		return "Literal[" + literal(s.Const) + "]"
	case len(s.Enum) > 0:
		var all []string
		for _, one := range s.Enum {
			all = append(all, literal(one))
		}
		return "Literal[" + strings.Join(all, ", ") + "]"
	case len(s.OneOf) > 0:
		return union(s.OneOf)
	case len(s.AnyOf) > 0:
		return union(s.AnyOf)
	case len(s.AllOf) == 1:
		return pythonType(out, name, s.AllOf[0])
	}
	if types, several := s.Type.([]any); several {
		if len(types) > 2 {
			return "Any"
		}
		var all []schema
		for _, one := range types {
			part := s
			part.Type = one
			all = append(all, part)
		}
		return union(all)
	}
	switch s.Type {
	case "string":
		return "str"
	case "integer":
		return "int"
	case "number":
		return "float"
	case "boolean":
		return "bool"
	case "null":
		return "None"
	case "array":
		if s.Items == nil {
			return "list[Any]"
		}
		return "list[" + pythonType(out, name+"Item", *s.Items) + "]"
	case "object":
		if len(s.Properties) > 0 && out != nil {
			define(out, name, s)
			return name
		}
		return "dict[str, Any]"
	}
	return "Any"
}

func literal(value any) string {
	switch value {
	case true:
		return "True"
	case false:
		return "False"
	case nil:
		return "None"
	}
	text, _ := json.Marshal(value) // it came from JSON
	return string(text)
}

var inPath = regexp.MustCompile(`\{(\w+)\}`)

// methods are those of the operations that the template's class does not have itself.
func (r *reference) methods(def, iterator, template string) string {
	lines := map[string]string{}
	for path, methods := range r.Paths {
		for _, o := range methods {
			if snake := snakeCase(o.OperationID); !o.Browser && !strings.Contains(template, "def "+snake+"(self") {
				lines[snake] = r.method(def, iterator, snake, path, o)
			}
		}
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		out.WriteString(lines[name])
	}
	return out.String()
}

func (r *reference) method(def, iterator, name, path string, o operation) string {
	all, open := r.arguments(path, o)
	spelled := func(name func(a argument) string) string {
		args, optional := []string{"self"}, false
		for _, a := range all {
			of := name(a) + ": " + pythonType(nil, "", a.of)
			if !a.required {
				of = name(a) + ": Optional[" + pythonType(nil, "", a.of) + "] = ..."
			}
			if !a.required && !optional {
				optional, args = true, append(args, "*")
			}
			args = append(args, of)
		}
		if open {
			args = append(args, "**members: Any")
		}
		return strings.Join(args, ", ")
	}
	answer, lines := r.answer(o)
	if lines {
		def, answer = "def", iterator+"[str]"
	}
	own, wire := spelled(func(a argument) string { return a.name }), spelled(func(a argument) string { return a.wire })
	return eitherSpelling(fmt.Sprintf("    %s %s(", def, name), own, wire, ") -> "+answer+": ...\n")
}

// eitherSpelling writes a method once where its arguments have but one spelling, and otherwise
// under both.
func eitherSpelling(before, own, wire, after string) string {
	if own == wire {
		return before + own + after
	}
	return "    @overload\n" + before + own + after + "    @overload\n" + before + wire + after
}

var (
	writtenMethod = regexp.MustCompile(`(?m)^(    (?:async )?def \w+\()(self, .*)(\) -> .*\n)`)
	parameterName = regexp.MustCompile(`\b([a-z]+(?:[A-Z][a-z]*)+)(: )`)
)

// bothSpellings gives a method that people wrote with the names of the reference those of Python,
// too.
func bothSpellings(template string) string {
	return writtenMethod.ReplaceAllStringFunc(template, func(line string) string {
		m := writtenMethod.FindStringSubmatch(line)
		own := parameterName.ReplaceAllStringFunc(m[2], func(name string) string { return snakeCase(strings.TrimSuffix(name, ": ")) + ": " })
		return eitherSpelling(m[1], own, m[2], m[3])
	})
}

// answer is the type of the one success, and with it of the refusal that is an answer too.
func (r *reference) answer(o operation) (of string, lines bool) {
	for _, status := range []string{"200", "201"} {
		documented := o.Responses[status]
		for _, kind := range slices.Sorted(maps.Keys(documented.Content)) { // JSON first
			c := documented.Content[kind]
			switch {
			case kind == "application/json" && o.OperationID == "verifyPassport":
				return "Union[" + pythonType(nil, "", c.Schema) + ", PassportDenied]", false
			case kind == "application/json":
				return pythonType(nil, "", c.Schema), false
			case strings.HasPrefix(kind, "text/"):
				return "str", false
			case kind == "application/x-ndjson":
				return "", true
			case kind == "application/octet-stream":
				return "bytes", false
			}
		}
	}
	return "Any", false
}

func (r *reference) parameter(p parameter) parameter {
	if p.Ref != "" {
		return r.Components.Parameters[filepath.Base(p.Ref)]
	}
	return p
}

func (r *reference) resolve(s schema) schema {
	if s.Ref != "" {
		return r.Components.Schemas[filepath.Base(s.Ref)]
	}
	return s
}

var wordStart = regexp.MustCompile("([a-z])([A-Z])")

func snakeCase(name string) string {
	return strings.ToLower(wordStart.ReplaceAllString(name, "${1}_$2"))
}
