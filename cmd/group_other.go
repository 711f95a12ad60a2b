//go:build !unix

package cmd

import "os/exec"

// runGroup runs a program. There are no process groups here: what it has started itself goes on
// when its context ends.
func runGroup(program *exec.Cmd) error { return program.Run() }
