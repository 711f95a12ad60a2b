//go:build !linux

package httpapi

import "net/http"

// SameUser returns true, because this system does not tell. The other conditions decide.
func SameUser(*http.Request) bool { return true }
