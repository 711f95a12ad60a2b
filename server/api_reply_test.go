package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// reply is an answer. Its methods end the test if the answer differs from their arguments.
type reply struct {
	t      testing.TB
	call   string
	code   int
	header http.Header
	raw    []byte
	json   any // the decoded body
}

// status demands a status.
func (r *reply) status(want int) *reply {
	r.t.Helper()
	if r.code != want {
		r.t.Fatalf("%s: status %d, want %d\n%s", r.call, r.code, want, short(r.raw))
	}
	return r
}

// gets demands a status and a body of exactly this shape; see like.
func (r *reply) gets(status int, shape string) *reply {
	r.t.Helper()
	r.status(status)
	if err := like(r.t, shape, r.raw); err != nil {
		r.t.Fatalf("%s: %v\n%s", r.call, err, short(r.raw))
	}
	return r
}

// has demands a success whose body has what shape has, and perhaps more members.
func (r *reply) has(shape string) *reply {
	r.t.Helper()
	if r.code >= 300 {
		r.t.Fatalf("%s: status %d\n%s", r.call, r.code, short(r.raw))
	}
	want, err := decodeNumbers([]byte(shape))
	if err != nil {
		r.t.Fatalf("the shape is not JSON: %v\n%s", err, shape)
	}
	got, _ := decodeNumbers(r.raw)
	if err := differs("", want, only(want, got)); err != nil {
		r.t.Fatalf("%s: %v\n%s", r.call, err, short(r.raw))
	}
	return r
}

// only is what got has of the members of want.
func only(want, got any) any {
	switch want := want.(type) {
	case map[string]any:
		m, ok := got.(map[string]any)
		if !ok {
			return got
		}
		stored := map[string]any{}
		for name := range want {
			if v, ok := m[name]; ok {
				stored[name] = only(want[name], v)
			}
		}
		return stored
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return got
		}
		stored := make([]any, len(list))
		for i := range list {
			stored[i] = only(want[i], list[i])
		}
		return stored
	}
	return got
}

// contains demands that the body has a text.
func (r *reply) contains(text string) *reply {
	r.t.Helper()
	if !bytes.Contains(r.raw, []byte(text)) {
		r.t.Fatalf("%s: %d has no %q in\n%s", r.call, r.code, text, short(r.raw))
	}
	return r
}

// sets demands headers, each "Name: value" with an exact value, or "Name:" for one that must be
// absent.
func (r *reply) sets(headers ...string) *reply {
	r.t.Helper()
	for _, h := range headers {
		name, want, _ := strings.Cut(h, ":")
		want = strings.TrimPrefix(want, " ")
		if got := strings.Join(r.header.Values(name), ", "); !matches(want, got) {
			r.t.Errorf("%s: %d has %s %q, want %q", r.call, r.code, name, got, want)
		}
	}
	return r
}

// at returns the value at a path of member names and indices in the body.
func (r *reply) at(path ...any) any {
	r.t.Helper()
	v := r.json
	for _, step := range path {
		var ok bool
		switch step := step.(type) {
		case string:
			var m map[string]any
			if m, ok = v.(map[string]any); ok {
				v, ok = m[step]
			}
		case int:
			var list []any
			if list, ok = v.([]any); ok && step < len(list) {
				v = list[step]
			} else {
				ok = false
			}
		}
		if !ok {
			r.t.Fatalf("%s: nothing at %v in %d %s", r.call, path, r.code, short(r.raw))
		}
	}
	return v
}

func (r *reply) str(path ...any) string {
	r.t.Helper()
	s, ok := r.at(path...).(string)
	if !ok {
		r.t.Fatalf("%s: no string at %v in %s", r.call, path, short(r.raw))
	}
	return s
}

// into decodes the body; json.RawMessage preserves its bytes.
func (r *reply) into(v any) {
	r.t.Helper()
	if err := json.Unmarshal(r.raw, v); err != nil {
		r.t.Fatalf("%s: %v", r.call, err)
	}
}

// kinds are placeholders for values that differ from run to run.
var kinds = map[string]string{
	"<time>":      `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`,
	"<uuid>":      `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`,
	"<token>":     `[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{86}`,
	"<secret>":    `[A-Za-z0-9_-]{43,}`, // 256 bits in base64url
	"<hash>":      `[0-9a-f]{64}`,
	"<signature>": `[A-Za-z0-9_-]{86}`,
	"<kid>":       `[0-9a-f]{16}`,
	"<pem>":       `-----BEGIN PUBLIC KEY-----\n[A-Za-z0-9+/=]{60}\n-----END PUBLIC KEY-----\n`,
	"<number>":    `\d+`,
	"…":           `[\s\S]*`,
}

// like describes how body differs from shape, which is JSON too. Objects must have exactly the
// members of the shape and arrays exactly its elements; a string of the shape may contain kinds,
// and "<anything>" matches any value.
func like(t testing.TB, shape string, body []byte) error {
	t.Helper()
	want, err := decodeNumbers([]byte(shape))
	if err != nil {
		t.Fatalf("the shape is not JSON: %v\n%s", err, shape)
	}
	got, err := decodeNumbers(body)
	if err != nil {
		return fmt.Errorf("the body is not JSON: %v", err)
	}
	return differs("", want, got)
}

func decodeNumbers(raw []byte) (v any, err error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	err = dec.Decode(&v)
	return v, err
}

func differs(at string, want, got any) error {
	switch want := want.(type) {
	case map[string]any:
		m, ok := got.(map[string]any)
		if names := slices.Sorted(maps.Keys(want)); !ok || !slices.Equal(names, slices.Sorted(maps.Keys(m))) {
			return fmt.Errorf("at %q want an object of %v, got %v", at, names, got)
		}
		for name := range want {
			if err := differs(at+"/"+name, want[name], m[name]); err != nil {
				return err
			}
		}
		return nil
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return fmt.Errorf("at %q want %d elements, got %v", at, len(want), got)
		}
		for i := range want {
			if err := differs(fmt.Sprintf("%s/%d", at, i), want[i], list[i]); err != nil {
				return err
			}
		}
		return nil
	case string:
		if want == "<anything>" {
			return nil
		}
		if n, isNumber := got.(json.Number); isNumber && want == "<number>" {
			got = n.String()
		}
		if s, ok := got.(string); !ok || !matches(want, s) {
			return fmt.Errorf("at %q want %q, got %v", at, want, got)
		}
		return nil
	default:
		if want != got {
			return fmt.Errorf("at %q want %v, got %v", at, want, got)
		}
		return nil
	}
}

// matches reports whether got equals want, in which kinds match values of that kind.
func matches(want, got string) bool {
	if !strings.ContainsAny(want, "<…") {
		return want == got
	}
	if want == "…" {
		return got != ""
	}
	pattern := regexp.QuoteMeta(want)
	for kind, expression := range kinds {
		pattern = strings.ReplaceAll(pattern, kind, expression)
	}
	return regexp.MustCompile("^(?:" + pattern + ")$").MatchString(got)
}

// row is one line of an endpoint's table: a request and its expected answer.
type row struct {
	does    string
	as      caller
	call    string
	body    string
	headers []string // of the request
	status  int
	gets    string   // the shape of the body
	sets    []string // headers of the answer
}

// table runs rows in their order.
func table(t *testing.T, rows []row) {
	t.Helper()
	for _, row := range rows {
		t.Run(row.does, func(t *testing.T) {
			r := row.as.do(t, row.call, row.body, row.headers...)
			if row.gets == "" {
				t.Fatal("the row does not say what they get")
			}
			r.gets(row.status, row.gets).sets(row.sets...)
		})
	}
}
