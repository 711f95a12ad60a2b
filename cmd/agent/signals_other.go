//go:build !unix

package agent

import (
	"os"
	"syscall"
)

// forwardedSignals are the signals that a child process receives too.
var forwardedSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}
