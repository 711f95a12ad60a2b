//go:build !linux

package postgres

import "syscall"

// limitLoss does nothing, because only Linux can limit how long sent data may stay unacknowledged.
// On other systems, keepalives detect a lost connection.
func limitLoss(string, string, syscall.RawConn) error { return nil }
