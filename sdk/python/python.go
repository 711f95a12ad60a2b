// Package python has the one file of the Python client that servers offer by itself.
package python

import _ "embed"

// Check is check.py, a module of the client that is also a program: it needs no other file of it.
//
//go:embed attestd/check.py
var Check []byte
