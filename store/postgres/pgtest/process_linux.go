package pgtest

import "syscall"

// attributes lets a program run as the account, and shut down at once when the thread that started it ends.
func attributes(a *account) *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if a != nil {
		attributes.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return attributes
}
