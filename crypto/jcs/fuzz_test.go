package jcs_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"attestd/crypto/jcs"
)

// FuzzAppend holds that what passes is valid JSON that means what the input means to encoding/json,
// and has a form that is its own form.
func FuzzAppend(f *testing.F) {
	f.Fuzz(func(t *testing.T, in []byte) {
		form, err := jcs.Append(nil, in, maxDepth)
		if err != nil {
			if len(form) != 0 {
				t.Fatalf("an error and %q", form)
			}
			return
		}
		var before, after any
		if err := json.Unmarshal(in, &before); err != nil {
			t.Fatalf("%q passes, but not with encoding/json: %v", in, err)
		}
		if err := json.Unmarshal(form, &after); err != nil {
			t.Fatalf("%q: %v", form, err)
		}
		if !reflect.DeepEqual(before, after) {
			t.Fatalf("%q means %#v, its form %q means %#v", in, before, form, after)
		}
		again, err := jcs.Append(nil, form, maxDepth)
		if err != nil || !bytes.Equal(again, form) {
			t.Fatalf("the form of %q is %q, %v", form, again, err)
		}
	})
}
