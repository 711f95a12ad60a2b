//go:build unix

package cmd

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// runGroup runs a program in its own process group. When the context of the program ends, the whole
// group is killed. The group is in the foreground of the terminal, if there is one, because the
// program may ask the user.
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
		// a background process that sets the foreground group gets it
		signal.Ignore(syscall.SIGTTOU)
		_ = unix.IoctlSetPointerInt(int(tty.Fd()), unix.TIOCSPGRP, syscall.Getpgrp())
		signal.Reset(syscall.SIGTTOU)
	}()
	return program.Run()
}
