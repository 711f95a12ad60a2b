package server

import (
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// requestForm is how a request is read into a struct. Each field of the struct says by its tags where it comes from, and what it
// must be; the error texts of the specification follow from that.
//
//	json:"name"    a member of the body, which must be one JSON object or nothing
//	query:"name"   a parameter of the URL's query
//	path:"name"    a part of the path
//	header:"Name"  a header, "" when it is absent
//
//	must:"…"       the rule, one of rules; a field without one is a string, or "" when it is absent
//	else:"…"       the error text of a value that is not the one that the rule "is …" demands
//	default:"…"    the number or role of what is absent
//
// A field of the type *http.Request is the request itself, for the few that look at how it came. On a blank field, missing:"…" is
// the error text for any member that is required and absent, form:"yes" takes a form-encoded body for its parameters, too, and list:"yes"
// lets the body nest deeper, for a caller's values that stand in a list of objects; each of those is held to maxDepth itself. query:"strict" refuses
// a query in which anything is unknown, given twice or malformed, where to ignore it would be to answer another question.
type requestForm struct {
	fields  []field
	whole   int  // the field of type *http.Request, -1 for none
	hasBody bool // whether any field is a member of the body
	form    bool
	strict  bool // about the query
	depth   int  // how deep the body may nest
	missing string
}

// field is one field of a request.
type field struct {
	at       int
	from     string // json, query, path or header
	name     string
	rule     string // the name of the rule
	check    rule
	argument string // of the rule, what follows its name
	text     string // else or default
}

// formOf reads the tags of a request. A mistake in them is one of the program, and shows when it starts.
func formOf[Request any]() *requestForm {
	t := reflect.TypeFor[Request]()
	form := &requestForm{whole: -1, depth: maxDepth}
	for i := range t.NumField() {
		sf := t.Field(i)
		if sf.Name == "_" {
			form.missing, form.form, form.strict = sf.Tag.Get("missing"), sf.Tag.Get("form") != "", sf.Tag.Get("query") == "strict"
			if sf.Tag.Get("list") != "" {
				form.depth = 2 * maxDepth
			}
			continue
		}
		if !sf.IsExported() { // the endpoint's own
			continue
		}
		if sf.Type == reflect.TypeFor[*http.Request]() {
			form.whole = i
			continue
		}
		f := field{at: i, text: sf.Tag.Get("else") + sf.Tag.Get("default")}
		for _, from := range []string{"json", "query", "path", "header"} {
			if name := sf.Tag.Get(from); name != "" {
				f.from, f.name = from, name
			}
		}
		f.rule, f.argument, _ = strings.Cut(sf.Tag.Get("must"), " ")
		var known bool
		if f.check, known = rules[f.rule]; !known || f.from == "" {
			panic(fmt.Sprintf("server: field %s of %s says neither where it comes from nor what it must be", sf.Name, t))
		}
		form.fields = append(form.fields, f)
		form.hasBody = form.hasBody || f.from == "json"
	}
	return form
}

// read fills the request, a pointer to the struct of the form, from a call.
func (form *requestForm) read(c *call, request any) error {
	var members object
	if form.hasBody {
		var err error
		if members, err = c.members(form); err != nil {
			return err
		}
	}
	if form.strict {
		if err := form.checkQuery(c.URL.RawQuery); err != nil {
			return err
		}
	}
	into := reflect.ValueOf(request).Elem()
	if form.whole >= 0 {
		into.Field(form.whole).Set(reflect.ValueOf(c.Request))
	}
	return form.fill(c, members, into)
}

// fill fills the fields of a request. c is nil where all of them are members of an object.
func (form *requestForm) fill(c *call, members object, into reflect.Value) error {
	var query url.Values
	for i := range form.fields {
		f := &form.fields[i]
		v := value{field: f}
		switch f.from {
		case "json":
			v.json = members[f.name]
		case "query":
			if query == nil {
				query = c.URL.Query() // what is malformed counts as absent
			}
			v.text, v.given = query.Get(f.name), query.Has(f.name)
		case "path":
			v.text, v.given = c.PathValue(f.name), true
		case "header":
			v.text = c.Header.Get(f.name)
			v.given = len(c.Header.Values(f.name)) > 0
		}
		if err := f.check(v, into.Field(f.at)); err != nil {
			if err == errMissing {
				return form.isMissing(f)
			}
			return at(err, "/"+f.name)
		}
	}
	return nil
}

// checkQuery refuses a query that is not of the parameters of the form, each at most once.
func (form *requestForm) checkQuery(raw string) error {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return badQuery("the query is malformed")
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		known := slices.ContainsFunc(form.fields, func(f field) bool { return f.from == "query" && f.name == name })
		switch {
		case !known:
			return badQuery(fmt.Sprintf("%.40q is not one that is taken here", name))
		case len(query[name]) > 1:
			return badQuery(name + " is given more than once")
		}
	}
	return nil
}

func (form *requestForm) isMissing(f *field) error {
	if form.missing != "" {
		return fail(http.StatusBadRequest, form.missing)
	}
	return fail(http.StatusBadRequest, "Missing or invalid field: "+f.name+" is required")
}

// members reads the body, a JSON object or nothing, or a form where that may be one.
func (c *call) members(form *requestForm) (object, error) {
	raw, err := c.read()
	if err != nil {
		return nil, err
	}
	if form.form && mediaType(c.Header) == formEncoded {
		return parseForm(raw)
	}
	return parseBody(raw, form.depth)
}

const formEncoded = "application/x-www-form-urlencoded"

// mediaType is that of the body, "" where none is given that can be read.
func mediaType(h http.Header) string {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}

// parseForm reads a form as if it were an object of strings. RFC 6749 §3.2 and RFC 8693 §2.1: a parameter without a value
// counts as absent, and here none may be given twice.
func parseForm(raw []byte) (object, error) {
	form, err := url.ParseQuery(string(raw))
	if err != nil {
		return nil, fail(http.StatusBadRequest, "The form is malformed")
	}
	members := make(object, len(form))
	for name, values := range form {
		if len(values) > 1 {
			return nil, fail(http.StatusBadRequest, "A parameter is given more than once: "+name)
		}
		if values[0] == "" {
			continue
		}
		if members[name], err = jsontext.AppendQuote(nil, values[0]); err != nil {
			return nil, fail(http.StatusBadRequest, "A parameter is not UTF-8: "+name)
		}
	}
	return members, nil
}

// wholeNumber reads a whole number between the two that a rule's argument names, as in "1..86400".
func wholeNumber(text, bounds string) (n int64, least, most string, ok bool) {
	least, most, _ = strings.Cut(bounds, "..")
	low, _ := strconv.ParseInt(least, 10, 64)
	high, _ := strconv.ParseInt(most, 10, 64)
	n, ok = decimal(text)
	return n, least, most, ok && n >= low && n <= high
}
