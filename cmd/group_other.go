//go:build !unix

package cmd

import "os/exec"

// runGroup runs a program. Without process groups, the program's children survive the end of its
// context.
func runGroup(program *exec.Cmd) error { return program.Run() }
