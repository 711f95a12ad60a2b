package httpapi

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Form describes how a request is parsed into a struct. The tags of each field say where its
// value comes from, and its rule, which determines the error texts of the specification.
//
//	json:"name"    a member of the body, which must be one JSON object or empty
//	query:"name"   a parameter of the URL's query
//	path:"name"    a part of the path
//	header:"Name"  a header, or "" if absent
//
//	must:"…"       the name of a rule; without one, the field is a string, "" if absent
//	else:"…"       the error text if a value violates the rule "is …"
//	default:"…"    the default of a number or role
//
// A field of type *http.Request receives the request itself. The tags of a blank field are for the
// whole request: missing:"…" is the error text for any missing member; form:"yes" also accepts a
// form-encoded body; list:"yes" lets the body nest deeper, for a list of objects with callers'
// values, each of which is checked against MaxDepth; refuses:"…" names members that are refused
// although unknown ones must be ignored; repeats:"…" names parameters that a form may have several
// times, which are an array then; given:"…" names those that a form may not have without a value.
// See undeclared for other members that no field declares.
type Form struct {
	Fields       []Field
	requestField int  // index of the field of type *http.Request, or -1
	HasBody      bool // a field is a member of the body
	AcceptsForm  bool
	depth        int // maximum nesting of the body
	missing      string
	refuses      []string
	repeats      []string // parameters that a form may have several times
	given        []string // parameters that a form may not have without a value
}

// Field is one field of a request.
type Field struct {
	at       int
	From     string // json, query, path or header
	Name     string
	Rule     string // name of the rule
	check    rule
	argument string // text after the rule's name
	text     string // content of else or default
}

// FormOf parses the tags of a request type. It panics for a wrong tag, which happens at the start
// of the program.
func FormOf[Request any]() *Form {
	t := reflect.TypeFor[Request]()
	form := &Form{requestField: -1, depth: MaxDepth}
	for i := range t.NumField() {
		sf := t.Field(i)
		if sf.Name == "_" {
			form.missing, form.AcceptsForm = sf.Tag.Get("missing"), sf.Tag.Get("form") != ""
			form.refuses, form.repeats = strings.Fields(sf.Tag.Get("refuses")), strings.Fields(sf.Tag.Get("repeats"))
			form.given = strings.Fields(sf.Tag.Get("given"))
			if sf.Tag.Get("list") != "" {
				form.depth = 2 * MaxDepth
			}
			continue
		}
		if !sf.IsExported() { // internal to the endpoint
			continue
		}
		if sf.Type == reflect.TypeFor[*http.Request]() {
			form.requestField = i
			continue
		}
		f := Field{at: i, text: sf.Tag.Get("else") + sf.Tag.Get("default")}
		for _, from := range []string{"json", "query", "path", "header"} {
			if name := sf.Tag.Get(from); name != "" {
				f.From, f.Name = from, name
			}
		}
		f.Rule, f.argument, _ = strings.Cut(sf.Tag.Get("must"), " ")
		var known bool
		if f.check, known = rules[f.Rule]; !known || f.From == "" {
			panic(fmt.Sprintf("httpapi: field %s of %s says neither where it comes from nor what it must be", sf.Name, t))
		}
		form.Fields = append(form.Fields, f)
		form.HasBody = form.HasBody || f.From == "json"
	}
	return form
}

// FromHeader replaces a member of the body by a header.
func (form *Form) FromHeader(member, header string) *Form {
	for i := range form.Fields {
		if f := &form.Fields[i]; f.From == "json" && f.Name == member {
			f.From, f.Name = "header", header
		}
	}
	return form
}

// OnPath is the form on a path with a parameter, which the handler reads itself.
func (form *Form) OnPath(parameter string) *Form {
	on := *form
	on.Fields = append(slices.Clip(form.Fields), Field{at: -1, From: "path", Name: parameter, check: rules[""]})
	return &on
}

// Declares reports whether the form has a field with a name and source.
func (form *Form) Declares(from, name string) bool {
	for i := range form.Fields {
		if f := &form.Fields[i]; f.Name == name && f.From == from {
			return true
		}
	}
	return false
}

func (form *Form) MissingField(f *Field) error {
	if form.missing != "" {
		return Fail(http.StatusBadRequest, form.missing)
	}
	return Fail(http.StatusBadRequest, "Missing or invalid field: "+f.Name+" is required")
}

// parseInteger parses a whole number within the bounds in a rule's argument, as in "1..86400".
func parseInteger(text, bounds string) (n int64, least, most string, ok bool) {
	least, most, _ = strings.Cut(bounds, "..")
	low, _ := strconv.ParseInt(least, 10, 64)
	high, _ := strconv.ParseInt(most, 10, 64)
	n, ok = Decimal(text)
	return n, least, most, ok && n >= low && n <= high
}
