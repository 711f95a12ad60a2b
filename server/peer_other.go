//go:build !linux

package server

import "net/http"

// sameUser returns true, because this system does not tell. The other conditions decide.
func sameUser(*http.Request) bool { return true }
