//go:build !linux

package pgtest

import "syscall"

// attributes changes nothing here: the programs run as the user of this process, and say so themselves if that is root.
func attributes(*account) *syscall.SysProcAttr { return nil }
