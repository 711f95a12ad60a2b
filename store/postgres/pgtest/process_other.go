//go:build !linux

package pgtest

import (
	"os"
	"syscall"
)

// attributes changes nothing here: the programs run as the user of this process, and say so themselves if that is root.
func attributes(*account) *syscall.SysProcAttr { return nil }

// kill ends the postmaster by SIGKILL. Its children notice, and end themselves a moment later.
func (s *server) kill() error { return s.end(os.Kill) }
