package conformance

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// decode reads JSON with its numbers as they are spelt.
func decode(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

// differs returns where got does not match want, or "".
func differs(at string, want, got any) string {
	switch want := want.(type) {
	case map[string]any:
		if form, ok := want["$matches"].(string); ok {
			text, is := got.(string)
			if !is || !regexp.MustCompile(form).MatchString(text) {
				return fmt.Sprintf("%s is %v, which does not match %s", at, got, form)
			}
			return ""
		}
		has, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s is %v, and no object", at, got)
		}
		for name, value := range want {
			if where := differs(at+"/"+name, value, has[name]); where != "" {
				return where
			}
		}
	case []any:
		has, ok := got.([]any)
		if !ok || len(has) != len(want) {
			return fmt.Sprintf("%s is %v, and not %d elements", at, got, len(want))
		}
		for i := range want {
			if where := differs(at+"/"+strconv.Itoa(i), want[i], has[i]); where != "" {
				return where
			}
		}
	default:
		if want != got {
			return fmt.Sprintf("%s is %v, want %v", at, got, want)
		}
	}
	return ""
}

// part returns what a JSON Pointer names, which holds no escape.
func part(v any, pointer string) (any, error) {
	for name := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer == "" {
			break
		}
		switch has := v.(type) {
		case map[string]any:
			v = has[name]
		case []any:
			n, err := strconv.Atoi(name)
			if err != nil || n >= len(has) {
				return nil, fmt.Errorf("there is no %s", pointer)
			}
			v = has[n]
		default:
			return nil, fmt.Errorf("there is no %s", pointer)
		}
	}
	if v == nil {
		return nil, fmt.Errorf("there is no %s", pointer)
	}
	return v, nil
}

// changed is a JSON text with another value at a place, or without the member there.
func changed(text []byte, at string, to json.RawMessage) ([]byte, error) {
	v, err := decode(text)
	if err != nil {
		return nil, err
	}
	cut := strings.LastIndexByte(at, '/')
	parent, err := part(v, at[:cut])
	if err != nil {
		return nil, err
	}
	switch p := parent.(type) {
	case map[string]any:
		if p[at[cut+1:]] = to; to == nil {
			delete(p, at[cut+1:])
		}
	case []any:
		n, err := strconv.Atoi(at[cut+1:])
		if err != nil || n >= len(p) {
			return nil, fmt.Errorf("there is no %s", at)
		}
		p[n] = to
	}
	return json.Marshal(v)
}

// claimsOf is what a statement says: {"header","claims","hash"}.
func claimsOf(args []byte) (json.RawMessage, error) {
	var given struct{ Of string }
	if err := json.Unmarshal(args, &given); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(given.Of))
	result := map[string]any{"hash": hex.EncodeToString(sum[:])}
	for i, name := range []string{"header", "claims"} {
		text, err := base64.RawURLEncoding.DecodeString(strings.Split(given.Of, ".")[i])
		if err != nil {
			return nil, err
		}
		result[name] = json.RawMessage(text)
	}
	return json.Marshal(result)
}

// variables are the values of ${name}, as JSON.
type variables map[string]json.RawMessage

func (vars variables) set(name string, value any) error {
	text, err := json.Marshal(value)
	vars[name] = text
	return err
}

var placeholder = regexp.MustCompile(`"\$\{(\w+)\}"|\$\{(\w+)\}`)

// fill puts the values in. All else stays byte for byte, lone surrogates too.
func (vars variables) fill(text []byte) ([]byte, error) {
	var missing error
	filled := placeholder.ReplaceAllFunc(text, func(found []byte) []byte {
		whole := found[0] == '"'
		name := strings.Trim(string(found), `"${}`)
		value, ok := vars[name]
		if !ok {
			missing = fmt.Errorf("nothing is known of ${%s}", name)
		}
		if !whole {
			value = bytes.Trim(value, `"`)
		}
		return value
	})
	return filled, missing
}
