package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"attestd/internal/harness"
)

// operation is one route in the API document.
type operation struct {
	method, path string
	id           string
	role         string
	public       bool
	addition     bool                       // to the specification
	statuses     map[string]json.RawMessage // documented responses
	query        []string                   // required parameters
	header       []string                   // all parameters
	// examples of the request body; nil for a route without one
	bodies []any
}

type parameter struct {
	Ref      string `json:"$ref"`
	Name, In string
	Required bool
}

// readDocument returns the routes of GET /v1/openapi.json, so that a new route is attacked at once.
// Destructive routes are last, because they would disturb the others.
func readDocument(c *harness.Client) (raw string, routes []operation, err error) {
	a, err := c.Do(harness.Request{Method: "GET", Path: "/v1/openapi.json"})
	if err != nil {
		return "", nil, err
	}
	var doc struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct{ Parameters map[string]parameter }
	}
	if err := json.Unmarshal(a.Body, &doc); err != nil {
		return "", nil, fmt.Errorf("the API document: %w", err)
	}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		var shared []parameter
		if of, ok := doc.Paths[path]["parameters"]; ok {
			if err := json.Unmarshal(of, &shared); err != nil {
				return "", nil, fmt.Errorf("parameters of %s: %w", path, err)
			}
		}
		for _, method := range []string{"get", "post", "put", "patch", "delete"} {
			text, ok := doc.Paths[path][method]
			if !ok {
				continue
			}
			op, err := readOperation(method, path, text, shared, doc.Components.Parameters)
			if err != nil {
				return "", nil, err
			}
			routes = append(routes, op)
		}
	}
	if len(routes) == 0 {
		return "", nil, fmt.Errorf("the API document has no routes")
	}
	slices.SortStableFunc(routes, func(a, b operation) int { return a.order() - b.order() })
	return string(a.Body), routes, nil
}

func readOperation(
	method, path string, text json.RawMessage, shared []parameter, named map[string]parameter,
) (operation, error) {
	op := operation{method: strings.ToUpper(method), path: path}
	var described struct {
		OperationID string
		Security    *[]map[string]any
		Addition    bool   `json:"x-addition"`
		Role        string `json:"x-role"`
		Parameters  []parameter
		RequestBody struct {
			Content map[string]struct {
				Examples map[string]struct{ Value any }
			}
		}
		Responses map[string]json.RawMessage
	}
	if err := json.Unmarshal(text, &described); err != nil {
		return op, fmt.Errorf("%s %s in the API document: %w", op.method, path, err)
	}
	op.id, op.role, op.statuses, op.addition = described.OperationID, described.Role, described.Responses, described.Addition
	op.public = described.Security != nil && !slices.ContainsFunc(*described.Security, func(scheme map[string]any) bool {
		return len(*described.Security) == 1 && scheme["bearer"] != nil
	})
	for _, p := range append(shared, described.Parameters...) {
		if name, ok := strings.CutPrefix(p.Ref, "#/components/parameters/"); ok {
			p = named[name]
		}
		switch {
		case p.In == "query" && p.Required:
			op.query = append(op.query, p.Name)
		case p.In == "header":
			op.header = append(op.header, p.Name)
		}
	}
	examples := described.RequestBody.Content["application/json"].Examples
	for _, name := range slices.Sorted(maps.Keys(examples)) {
		op.bodies = append(op.bodies, examples[name].Value)
	}
	return op, nil
}

// order sorts destructive routes to the end.
func (op operation) order() int {
	switch {
	case strings.HasSuffix(op.path, "/rotate-keys"): // tokens from before it are invalid afterwards
		return 3
	case op.method == "DELETE":
		return 2
	}
	for _, word := range []string{"/revoke", "/disable", "/rotate"} {
		if strings.HasSuffix(op.path, word) {
			return 1
		}
	}
	return 0
}

// namesPlaces reports whether a route's parameters are positions in the caller's own chain, which
// every company has. Then an existing position and a made-up one rightly get different responses.
func (op operation) namesPlaces() bool {
	return strings.Contains(op.path, "{index}") || slices.Contains(op.query, "from")
}

// madeUpName is a name that nothing has.
const madeUpName = "made-up"

// values maps the names of parameters and members to values.
type values map[string]string

// requests returns the requests of a route with each kind of body. If its path or query has names,
// it also returns the same requests with made-up names. Values for headers and bodies are separate.
func (op operation) requests(names, given values) (named, madeUp []harness.Request) {
	var header []string
	for _, name := range op.header {
		if value := given[name]; value != "" {
			header = append(header, name+": "+value)
		}
	}
	with := func(path string) (list []harness.Request) {
		for _, body := range op.bodiesWith(given) {
			list = append(list, harness.Request{Method: op.method, Path: path, Header: header, Body: body})
			if op.method == "GET" {
				list = append(list, harness.Request{Method: "HEAD", Path: path, Header: header})
			}
		}
		return list
	}
	named = with(op.fill(names))
	if other := op.fill(values{}); other != named[0].Path {
		madeUp = with(other)
	}
	return named, madeUp
}

// fill returns the path with its parameters and the required query.
func (op operation) fill(names values) string {
	var b strings.Builder
	rest := op.path
	for {
		before, after, more := strings.Cut(rest, "{")
		b.WriteString(before)
		if !more {
			break
		}
		name, after, _ := strings.Cut(after, "}")
		b.WriteString(valueOr(names, name, madeUpName))
		rest = after
	}
	for i, name := range op.query {
		fmt.Fprintf(&b, "%c%s=%s", "?&"[min(i, 1)], name, valueOr(names, name, madeUpName))
	}
	return b.String()
}

func valueOr(names values, name, other string) string {
	if v, ok := names[name]; ok {
		return v
	}
	return other
}

// bodiesWith returns the document's examples with the values, and invalid bodies.
func (op operation) bodiesWith(names values) []string {
	if op.bodies == nil {
		return []string{""}
	}
	var list []string
	for _, example := range op.bodies {
		text, err := json.Marshal(substitute(example, names))
		if err != nil {
			panic(err) // it was decoded from JSON
		}
		list = append(list, string(text))
	}
	nulls := map[string]any{}
	if first, ok := op.bodies[0].(map[string]any); ok {
		for name := range first {
			nulls[name] = nil
		}
	}
	text, _ := json.Marshal(nulls) // never returns an error
	return append(list, "", `[]`, `{"`, string(text))
}

// substitute replaces the members with these names.
func substitute(v any, names values) any {
	object, ok := v.(map[string]any)
	if !ok {
		return v
	}
	filled := map[string]any{}
	for name, value := range object {
		filled[name] = substitute(value, names)
		if given, ok := names[name]; ok {
			if _, isText := value.(string); isText {
				filled[name] = given
			}
		}
	}
	return filled
}
