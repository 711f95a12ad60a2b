//go:build !unix

package cmd

import (
	"os"
	"syscall"
)

// handedOn are the signals that go on to a command that we run.
var handedOn = []os.Signal{os.Interrupt, syscall.SIGTERM}
