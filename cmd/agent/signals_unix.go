//go:build unix

package agent

import (
	"os"
	"syscall"
)

// forwardedSignals are the signals that a child process receives too.
var forwardedSignals = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1,
	syscall.SIGUSR2}
