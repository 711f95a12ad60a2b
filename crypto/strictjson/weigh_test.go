package strictjson_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"attestd/crypto/strictjson"
)

// pad makes a text so long that it is weighed.
var pad = strings.Repeat(" ", 1100)

// A weight counts the members of all open objects, all elements and objects, and strings that may
// grow.
func TestWeigh(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range 5000 {
		many = append(many, fmt.Sprintf(`"%d":%d`, i, i))
	}
	object := "{" + strings.Join(many, ",") + "}"
	for _, test := range []struct {
		in   string
		want strictjson.Weight
	}{
		{`{}`, strictjson.Weight{Objects: 1}},
		{`{"a":1,"b":2}`, strictjson.Weight{Members: 2, Objects: 1}},
		{`{"a":{"b":1,"c":2},"d":{"e":3}}`, strictjson.Weight{Members: 3, Objects: 3}},
		{`[{"a":1},{"b":2},{"c":3}]`, strictjson.Weight{Members: 1, Elements: 3, Objects: 3}},
		{`[[],[1,2],[3]]`, strictjson.Weight{Elements: 7}},
		{`{"a":":,[{\"","b\\":"\\\\","c":[1,"]"]}`, strictjson.Weight{Members: 3, Elements: 2, Objects: 1}},
		{`[1e20,2E5,true,false,"1e5",1.5]`, strictjson.Weight{Elements: 6, Growing: 2}},
		{object, strictjson.Weight{Members: 5000, Objects: 1}},
		{`{"a":` + object + `,"b":` + object + `}`, strictjson.Weight{Members: 5002, Objects: 3}},
		{`[` + object + `,` + object + `]`, strictjson.Weight{Members: 5000, Elements: 2, Objects: 2}},
		{`{"a":"open`, strictjson.Weight{Members: 1, Objects: 1}},
		{strings.Repeat(`[`, 5000), strictjson.Weight{Elements: 5000}},
		{strings.Repeat(`]}`, 5000) + `{"a":1`, strictjson.Weight{Members: 1, Objects: 1}},
		{`"` + strings.Repeat(`\"`, 5000), strictjson.Weight{}},
	} {
		if got := strictjson.Weigh([]byte(test.in + pad)); got != test.want {
			t.Errorf("%.60s: %+v, want %+v", test.in, got, test.want)
		}
	}
}

// FuzzWeigh compares with a slow and obvious count.
func FuzzWeigh(f *testing.F) {
	for _, in := range []string{`{"a":[1,{"b":[]}],"c":"\\\""}`, `[[[],{}],1e5]`, `"`, `{"a`, `]]}{`, `{"a":{"b":{"c":1,"d":2}}}`} {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got := strictjson.Weigh([]byte(in + pad))
		var v any
		if json.Unmarshal([]byte(in), &v) != nil {
			return // it only must not fail
		}
		if want := openMembers(v); got.Members < want { // a duplicate name counts, and here not
			t.Fatalf("%q: %+v, want %d members", in, got, want)
		}
		if want := elements(v); got.Elements < want {
			t.Fatalf("%q: %+v, want %d elements", in, got, want)
		}
	})
}

func openMembers(v any) (most int) {
	switch v := v.(type) {
	case map[string]any:
		most = len(v)
		for _, inner := range v { // in any order, so at least one is open then
			most = max(most, 1+openMembers(inner))
		}
	case []any:
		for _, inner := range v {
			most = max(most, openMembers(inner))
		}
	}
	return most
}

func elements(v any) (n int) {
	switch v := v.(type) {
	case map[string]any:
		for _, inner := range v {
			n += elements(inner)
		}
	case []any:
		n = len(v)
		for _, inner := range v {
			n += elements(inner)
		}
	}
	return n
}
