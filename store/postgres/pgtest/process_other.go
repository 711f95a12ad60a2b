//go:build !linux

package pgtest

import (
	"errors"
	"os"
	"syscall"
)

// attributes changes nothing: the programs run as the user of this process, and fail if that is
// root.
func attributes(*account) *syscall.SysProcAttr { return nil }

// memory returns "", because only Linux has a folder in memory at a known path.
func memory() string { return "" }

// kill ends the postmaster with SIGKILL. Its children detect that, and end shortly after.
func (s *server) kill() error { return s.end(os.Kill) }

// halt and resume need signals that suspend a process.
func (s *server) halt() error { return errors.New("pgtest: a server is not halted on this system") }

func (s *server) resume() error { return s.halt() }
