//go:build !linux

package pgtest

import (
	"errors"
	"os"
	"syscall"
)

// attributes changes nothing here: the programs run as the user of this process, and say so
// themselves if that is root.
func attributes(*account) *syscall.SysProcAttr { return nil }

// memory is a folder in memory: Linux alone has one in a known place.
func memory() string { return "" }

// kill ends the postmaster by SIGKILL. Its children notice, and end themselves a moment later.
func (s *server) kill() error { return s.end(os.Kill) }

// halt and resume are for systems with signals that stop a process.
func (s *server) halt() error { return errors.New("pgtest: a server is not halted on this system") }

func (s *server) resume() error { return s.halt() }
