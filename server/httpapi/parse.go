package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"attestd/crypto/strictjson"
	"attestd/service"
)

const FormEncoded = "application/x-www-form-urlencoded"

// MediaType returns the media type of the body, or "" if it is missing or invalid.
func MediaType(h http.Header) string {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}

// maxParameters is the maximum number of parameters of a form.
const maxParameters = 100

// parseForm parses a form as an object of strings. A parameter without a value counts as absent
// (RFC 6749 §3.2 and RFC 8693 §2.1), unless attestd defines it, and no parameter may be repeated.
func (form *Form) parseForm(raw []byte, policy Undeclared) (Object, error) {
	if bytes.Count(raw, []byte("&")) >= maxParameters {
		return nil, Fail(http.StatusBadRequest, fmt.Sprintf("The form has more than %d parameters", maxParameters))
	}
	given, err := url.ParseQuery(string(raw))
	if err != nil {
		return nil, Fail(http.StatusBadRequest, "The form is malformed")
	}
	members := make(Object, len(form.Fields))
	for name, values := range given {
		if len(values) > 1 && slices.Contains(form.repeats, name) {
			var err error
			if members[name], err = json.Marshal(values); err != nil {
				return nil, Fail(http.StatusBadRequest, "A parameter is not UTF-8: "+cut(name))
			}
			continue
		}
		if len(values) > 1 {
			return nil, Fail(http.StatusBadRequest, "A parameter is given more than once: "+cut(name))
		}
		if values[0] == "" && slices.Contains(form.given, name) {
			return nil, Fail(http.StatusBadRequest, name+" is empty: leave it out, or give it a value")
		}
		if values[0] == "" {
			continue
		}
		value, err := jsontext.AppendQuote(nil, values[0])
		if err != nil {
			return nil, Fail(http.StatusBadRequest, "A parameter is not UTF-8: "+cut(name))
		}
		if form.Declares("json", name) {
			members[name] = value
		} else if err := form.RefuseMember(name, policy); err != nil {
			return nil, err
		}
	}
	return members, nil
}

// MaxDepth is the maximum nesting of a caller's value; a body is one object around it.
const MaxDepth = service.MaxDepth

// Object is a JSON object from a caller, with each member's value verbatim.
type Object map[string]jsontext.Value

// parseBody parses a body, which must be one JSON object or empty, and returns the members that the
// form declares.
func (form *Form) parseBody(raw []byte, policy Undeclared) (Object, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil
	}
	o, err := form.ParseObject(raw, form.depth, policy)
	if errors.Is(err, strictjson.ErrKind) {
		return nil, Fail(http.StatusBadRequest, "Request body must be a JSON object")
	}
	return o, err
}

// ParseObject parses an object and returns the members that the form declares. An error is
// strictjson.ErrKind, or an *Error.
func (form *Form) ParseObject(raw []byte, depth int, policy Undeclared) (Object, error) {
	o := make(Object, len(form.Fields))
	var refused error
	err := strictjson.EachMember(raw, depth, func(name, value []byte) {
		if form.Declares("json", string(name)) {
			o[string(name)] = value
		} else if refused == nil {
			refused = form.RefuseMember(string(name), policy)
		}
	})
	switch {
	case errors.Is(err, strictjson.ErrKind):
		return nil, err
	case err != nil:
		return nil, Malformed(err)
	}
	return o, refused
}

// Malformed returns the response for a *strictjson.Error.
func Malformed(err error) error {
	refused := Fail(http.StatusBadRequest, "Malformed "+err.Error())
	var at *strictjson.Error
	if errors.As(err, &at) {
		refused.At = at.Pointer
	}
	return refused
}
