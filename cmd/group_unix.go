//go:build unix

package cmd

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// runGroup runs a program in a process group of its own, which is killed whole when the context of
// the program ends: its children too. Where there is a terminal the group has it meanwhile, for the
// program may ask a person.
func runGroup(program *exec.Cmd) error {
	program.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	program.Cancel = func() error { return syscall.Kill(-program.Process.Pid, syscall.SIGKILL) }
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return program.Run()
	}
	defer tty.Close()
	front, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	if err != nil || front != syscall.Getpgrp() { // we are in the background ourselves
		return program.Run()
	}
	program.SysProcAttr.Foreground, program.SysProcAttr.Ctty = true, int(tty.Fd())
	defer func() {
		signal.Ignore(syscall.SIGTTOU) // which whoever takes the terminal back gets
		_ = unix.IoctlSetPointerInt(int(tty.Fd()), unix.TIOCSPGRP, syscall.Getpgrp())
		signal.Reset(syscall.SIGTTOU)
	}()
	return program.Run()
}
