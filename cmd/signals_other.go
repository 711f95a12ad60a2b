//go:build !unix

package cmd

import (
	"os"
	"syscall"
)

// forwardedSignals are the signals that a child process receives too.
var forwardedSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}
