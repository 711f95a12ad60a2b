//go:build !linux

package server

import "net/http"

// sameUser cannot be asked of this system: the other conditions decide.
func sameUser(*http.Request) bool { return true }
