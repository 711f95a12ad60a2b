package jcs_test

import (
	"errors"
	"fmt"

	"attestd/crypto/jcs"
	"attestd/crypto/strictjson"
)

// Members are sorted, white space and needless escapes go, and numbers have one spelling.
func ExampleAppend() {
	canonical, err := jcs.Append(nil, []byte(`{ "version": 4.50, "name": "\u00e9t\u00e9", "list": [1e2, true] }`), 128)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(canonical))
	// Output: {"list":[100,true],"name":"été","version":4.5}
}

// What the form cannot carry without loss is refused, with its place.
func ExampleAppend_refusal() {
	_, err := jcs.Append(nil, []byte(`{"ids": [1, 12345678901234567890]}`), 128)
	var refused *strictjson.Error
	if errors.As(err, &refused) {
		fmt.Println(refused.Pointer)
	}
	// Output: /ids/1
}
