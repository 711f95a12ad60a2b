//go:build !linux

package pgtest

import (
	"os"
	"syscall"
)

// attributes changes nothing here: the programs run as the user of this process, and say so themselves if that is root.
func attributes(*account) *syscall.SysProcAttr { return nil }

// memory is a folder in memory: Linux alone has one in a known place.
func memory() string { return "" }

// kill ends the postmaster by SIGKILL. Its children notice, and end themselves a moment later.
func (s *server) kill() error { return s.end(os.Kill) }
