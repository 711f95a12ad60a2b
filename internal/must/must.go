// Package must ends a test at an error that the test is not about.
package must

import "testing"

// OK ends the test unless err is nil.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
