package server

import (
	"bytes"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// requestForm is how a request is read into a struct. Each field of the struct says by its tags
// where it comes from, and what it must be; the error texts of the specification follow from that.
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
// A field of the type *http.Request is the request itself, for the few that look at how it came. On
// a blank field, missing:"…" is the error text for any member that is required and absent,
// form:"yes" takes a form-encoded body for its parameters, too, and list:"yes" lets the body nest
// deeper, for a caller's values that stand in a list of objects; each of those is held to maxDepth
// itself. refuses:"…" names members that are refused though a format of others, which must be
// ignored, may have them. What becomes of any other member that no field declares is said by the
// route: see undeclared.
type requestForm struct {
	fields  []field
	whole   int  // the field of type *http.Request, -1 for none
	hasBody bool // whether any field is a member of the body
	form    bool
	depth   int // how deep the body may nest
	missing string
	refuses []string
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

// formOf reads the tags of a request. A mistake in them is one of the program, and shows when it
// starts.
func formOf[Request any]() *requestForm {
	t := reflect.TypeFor[Request]()
	form := &requestForm{whole: -1, depth: maxDepth}
	for i := range t.NumField() {
		sf := t.Field(i)
		if sf.Name == "_" {
			form.missing, form.form = sf.Tag.Get("missing"), sf.Tag.Get("form") != ""
			form.refuses = strings.Fields(sf.Tag.Get("refuses"))
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

// fromHeader makes a header of a member of the body.
func (form *requestForm) fromHeader(member, header string) *requestForm {
	for i := range form.fields {
		if f := &form.fields[i]; f.from == "json" && f.name == member {
			f.from, f.name = "header", header
		}
	}
	return form
}

// read fills the request, a pointer to the struct of the form, from a call.
func (form *requestForm) read(c *call, request any) error {
	var members object
	if form.hasBody || c.undeclared == strict && c.ContentLength != 0 && c.Method != http.MethodGet && c.Method != http.MethodHead {
		var err error
		if members, err = c.members(form); err != nil {
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
	for i := range form.fields {
		f := &form.fields[i]
		v := value{field: f}
		switch f.from {
		case "json":
			v.json = members[f.name]
		case "query":
			v.text, v.given = c.query.Get(f.name), c.query.Has(f.name)
		case "path":
			v.text, v.given = c.PathValue(f.name), true
		case "header":
			v.text = c.Header.Get(f.name)
			v.given = len(c.Header.Values(f.name)) > 0
		}
		if err := f.check(v, into.Field(f.at)); err != nil {
			if err == errMissing {
				return form.missingField(f)
			}
			return at(err, "/"+f.name)
		}
	}
	return nil
}

// declares says whether the form has a field of that name and origin.
func (form *requestForm) declares(from, name string) bool {
	for i := range form.fields {
		if f := &form.fields[i]; f.name == name && f.from == from {
			return true
		}
	}
	return false
}

func (form *requestForm) missingField(f *field) error {
	if form.missing != "" {
		return fail(http.StatusBadRequest, form.missing)
	}
	return fail(http.StatusBadRequest, "Missing or invalid field: "+f.name+" is required")
}

// members reads the body, a JSON object or nothing, or a form where that may be one, and keeps of
// it what the form declares.
func (c *call) members(form *requestForm) (object, error) {
	raw, err := c.read()
	if err != nil {
		return nil, err
	}
	if form.form && mediaType(c.Header) == formEncoded {
		return form.parseForm(raw, c.undeclared)
	}
	return form.parseBody(raw, c.undeclared)
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

// maxParameters is how many parameters a form may have.
const maxParameters = 100

// parseForm reads a form as if it were an object of strings. RFC 6749 §3.2 and RFC 8693 §2.1: a
// parameter without a value counts as absent, and here none may be given twice.
func (form *requestForm) parseForm(raw []byte, policy undeclared) (object, error) {
	if bytes.Count(raw, []byte("&")) >= maxParameters {
		return nil, fail(http.StatusBadRequest, fmt.Sprintf("The form has more than %d parameters", maxParameters))
	}
	given, err := url.ParseQuery(string(raw))
	if err != nil {
		return nil, fail(http.StatusBadRequest, "The form is malformed")
	}
	members := make(object, len(form.fields))
	for name, values := range given {
		if len(values) > 1 {
			return nil, fail(http.StatusBadRequest, "A parameter is given more than once: "+cut(name))
		}
		if values[0] == "" {
			continue
		}
		value, err := jsontext.AppendQuote(nil, values[0])
		if err != nil {
			return nil, fail(http.StatusBadRequest, "A parameter is not UTF-8: "+cut(name))
		}
		if form.declares("json", name) {
			members[name] = value
		} else if err := form.refuseMember(name, policy); err != nil {
			return nil, err
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
