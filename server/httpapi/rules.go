package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"attestd/chain"
	"attestd/crypto/cred"
	"attestd/crypto/cred/details"
	"attestd/crypto/jose"
	"attestd/crypto/statement"
	"attestd/crypto/strictjson"
	"attestd/store"
)

// value is what a request gives for a field: a member of the body in JSON, nil when it is absent,
// or a text.
type value struct {
	*Field
	json  jsontext.Value
	text  string
	given bool
}

// rule reads a value into a field of a request or refuses it.
type rule func(v value, into reflect.Value) error

// errMissing marks a required member that is absent or of another type; Form makes its message.
var errMissing = errors.New("required member is missing")

// rules are the constraints that a field can have. Null counts as absent except for "present".
var rules = map[string]rule{
	"": plain,
	// required; what is wrong with it is answered by the endpoint, in a form of its own
	"checked":     plain,
	"present":     present,     // any JSON value, null too: its bytes
	"string":      required,    // a string that is not empty
	"is":          exactly,     // exactly the string that follows
	"given":       notEmpty,    // absent or a string that is not empty; in a *string too
	"segment":     segment,     // a string that can be a segment of a SPIFFE ID
	"name":        name,        // a string of 1 to 256 characters; optional in a *string
	"text":        text,        // absent or a string of at most 16 KiB, in a *string
	"object":      jsonObject,  // absent or an object of at most 16 KiB, verbatim
	"flag":        flag,        // absent, true or false
	"choice":      choice,      // the same, in a *bool
	"delegation":  delegated,   // absent or a string that is not empty
	"statement":   stated,      // the same
	"signed":      signed,      // the same
	"names":       names,       // absent or an array of 1 to 100 names
	"scopes":      scopes,      // absent or an array of scopes
	"details":     limits,      // absent or authorization details; in a form their text
	"audience":    audience,    // an audience, or an array of 1 to 10
	"texts":       texts,       // absent or an array of strings, which may be empty
	"fingerprint": fingerprint, // absent or 16 hex digits in lower case
	"thumbprint":  thumbprint,  // absent or a thumbprint of RFC 7638
	"role":        role,        // absent or a role that a credential can have
	// absent or the name of one of a company's logs; the actions when it is absent
	"log": logName,
	// absent or a time in the one form of the API; zero when it is absent
	"time":   instant,
	"key":    key,    // absent or an idempotency key
	"number": number, // absent or a whole number between the two that follow
	"oneof":  oneOf,  // absent or one of the words that follow
}

func Invalid(name, what string) error {
	return Fail(http.StatusBadRequest, "Invalid field: "+name+" "+what)
}

// plain accepts any text, and in the body any value.
func plain(v value, into reflect.Value) error {
	if v.From == "json" {
		into.SetBytes(v.json)
		return nil
	}
	into.SetString(v.text)
	return nil
}

func present(v value, into reflect.Value) error {
	if v.json == nil {
		return errMissing
	}
	into.SetBytes(v.json)
	return nil
}

func required(v value, into reflect.Value) error {
	s, ok := AsText(v.json)
	if !ok {
		return errMissing
	}
	into.SetString(s)
	return nil
}

func exactly(v value, into reflect.Value) error {
	if err := required(v, into); err != nil {
		return err
	}
	if into.String() != v.argument {
		return Fail(http.StatusBadRequest, v.Field.text+": "+v.Name+" must be "+v.argument)
	}
	return nil
}

func segment(v value, into reflect.Value) error {
	if err := required(v, into); err != nil {
		return err
	}
	if err := cred.CheckSegment(into.String()); err != nil {
		return Fail(http.StatusBadRequest, "Missing or invalid field: "+v.Name+": "+err.Error())
	}
	return nil
}

// MaxName is the length in characters of a free text that names something.
const MaxName = 256

func name(v value, into reflect.Value) error {
	s, ok := AsText(v.json)
	switch {
	case into.Kind() == reflect.String && !ok:
		return errMissing
	case into.Kind() == reflect.Pointer && IsAbsent(v.json):
		return nil
	case v.json.Kind() != '"':
		return Invalid(v.Name, "must be a string")
	case utf8.RuneCountInString(s) > MaxName:
		return Invalid(v.Name, fmt.Sprintf("must have 1 to %d characters", MaxName))
	}
	if into.Kind() == reflect.Pointer {
		into.Set(reflect.ValueOf(&s))
	} else {
		into.SetString(s)
	}
	return nil
}

// maxStored limits what a caller may store with a record: metadata, or the reason of a revocation.
const maxStored = 16 << 10

func text(v value, into reflect.Value) error {
	s, _ := AsText(v.json)
	switch {
	case IsAbsent(v.json):
		return nil
	case v.json.Kind() != '"':
		return Invalid(v.Name, "must be a string")
	case len(s) > maxStored:
		return Invalid(v.Name, fmt.Sprintf("must have at most %d bytes", maxStored))
	}
	into.Set(reflect.ValueOf(&s))
	return nil
}

func jsonObject(v value, into reflect.Value) error {
	switch {
	case IsAbsent(v.json):
		return nil
	case v.json.Kind() != '{':
		return Invalid(v.Name, "must be an object")
	case len(v.json) > maxStored:
		return Invalid(v.Name, fmt.Sprintf("must have at most %d bytes", maxStored))
	}
	into.SetBytes(v.json)
	return nil
}

func flag(v value, into reflect.Value) error {
	switch {
	case IsAbsent(v.json):
		return nil
	case v.json.Kind() != 't' && v.json.Kind() != 'f':
		return Invalid(v.Name, "must be true or false")
	}
	into.SetBool(v.json.Kind() == 't')
	return nil
}

func choice(v value, into reflect.Value) error {
	if IsAbsent(v.json) {
		return nil
	}
	var is bool
	err := flag(v, reflect.ValueOf(&is).Elem())
	into.Set(reflect.ValueOf(&is))
	return err
}

func stated(v value, into reflect.Value) error {
	if err := signed(v, into); err != nil {
		return &Error{Status: http.StatusBadRequest, Code: statement.CodeMalformed, Message: "Invalid field: " + v.Name + " must be a compact JWS, a string", At: "/" + v.Name}
	}
	return nil
}

func signed(v value, into reflect.Value) error {
	s, ok := AsText(v.json)
	if !ok && !IsAbsent(v.json) {
		return Invalid(v.Name, "must be a compact JWS, a string")
	}
	into.SetString(s)
	return nil
}

func delegated(v value, into reflect.Value) error {
	s, ok := AsText(v.json)
	if !ok && !IsAbsent(v.json) {
		return Fail(http.StatusBadRequest, "Invalid delegation: it must be a token, a non-empty string")
	}
	into.SetString(s)
	return nil
}

// maxNames is how many names an array of them may have.
const maxNames = 100

func names(v value, into reflect.Value) error {
	if IsAbsent(v.json) {
		return nil
	}
	given, ok := strictjson.AsStrings(v.json)
	wrong := func(name string) bool { n := utf8.RuneCountInString(name); return n == 0 || n > MaxName }
	if !ok || len(given) == 0 || len(given) > maxNames || slices.ContainsFunc(given, wrong) {
		return Invalid(v.Name, fmt.Sprintf("must be an array of 1 to %d strings of 1 to %d characters", maxNames, MaxName))
	}
	into.Set(reflect.ValueOf(given))
	return nil
}

func scopes(v value, into reflect.Value) error {
	if IsAbsent(v.json) {
		return nil
	}
	given, ok := strictjson.AsStrings(v.json)
	if !ok {
		return Invalid(v.Name, "must be an array of strings")
	}
	if err := cred.CheckScopes(given); err != nil {
		return Fail(http.StatusBadRequest, "Invalid field: "+v.Name+": "+err.Error())
	}
	into.Set(reflect.ValueOf(given))
	return nil
}

func limits(v value, into reflect.Value) error {
	read, err := AsDetails(v.json)
	var wrong *strictjson.Error
	if errors.As(err, &wrong) {
		refused := Invalid(v.Name, "is not understood: "+wrong.Error()).(*Error)
		refused.Code, refused.Pointer = details.Code, "/"+v.Name+wrong.Pointer
		refused.At = refused.Pointer
		return refused
	}
	into.Set(reflect.ValueOf(read))
	return err
}

// AsDetails reads authorization details, which in a form are a text. Its error is a
// *strictjson.Error.
func AsDetails(v jsontext.Value) (details.Details, error) {
	if IsAbsent(v) {
		return details.Details{}, nil
	}
	if text, is := strictjson.AsString(v); is {
		v = jsontext.Value(text)
	}
	return details.Parse(v)
}

func role(v value, into reflect.Value) error {
	s, ok := AsText(v.json)
	if IsAbsent(v.json) {
		s, ok = v.Field.text, true
	}
	if !ok || !store.Role(s).Covers(store.Reader) {
		return Invalid(v.Name, "must be admin, writer or reader")
	}
	into.SetString(s)
	return nil
}

func texts(v value, into reflect.Value) error {
	if IsAbsent(v.json) {
		return nil
	}
	given, ok := strictjson.AsStrings(v.json)
	if !ok {
		return Invalid(v.Name, "must be an array of strings")
	}
	if given == nil {
		given = []string{}
	}
	into.Set(reflect.ValueOf(given))
	return nil
}

func thumbprint(v value, into reflect.Value) error {
	s, ok := AsText(v.json)
	if !IsAbsent(v.json) && (!ok || !jose.IsThumbprint(s)) {
		return Invalid(v.Name, "must be a thumbprint of RFC 7638, SHA-256")
	}
	into.SetString(s)
	return nil
}

func instant(v value, into reflect.Value) error {
	if IsAbsent(v.json) {
		return nil
	}
	s, _ := AsText(v.json)
	t, err := time.Parse(time.RFC3339, s)
	if err != nil || chain.FormatTime(t) != s {
		return Invalid(v.Name, "must be a time in UTC with milliseconds, as in 2026-03-02T09:05:04.218Z")
	}
	into.Set(reflect.ValueOf(t))
	return nil
}

// IsAbsent says whether a member is not there, or null.
func IsAbsent(v jsontext.Value) bool { return v == nil || v.Kind() == 'n' }

// AsText returns what a JSON string says, when it is one and not empty.
func AsText(v jsontext.Value) (string, bool) {
	text, ok := strictjson.AsString(v)
	return text, ok && text != ""
}
