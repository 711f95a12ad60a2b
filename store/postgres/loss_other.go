//go:build !linux

package postgres

import "syscall"

// limitLoss does nothing: only Linux can limit how long data stay without an answer. Elsewhere a
// lost connection is noticed by its keepalives.
func limitLoss(string, string, syscall.RawConn) error { return nil }
