//go:build unix

package cmd

import (
	"os"
	"syscall"
)

// handedOn are the signals that go on to a command that we run.
var handedOn = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}
