//go:build unix

package cmd

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// deviceAndInode returns the name of an open file as systemd writes it: device:inode.
func deviceAndInode(file *os.File) (string, error) {
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", errors.New("no device and inode")
	}
	return fmt.Sprintf("%d:%d", stat.Dev, stat.Ino), nil
}

// appendOnly makes writes to a log file go to its end, whichever process opened it. A program that
// rotates it may then copy it and cut it off (copytruncate): otherwise the next line would be
// written at its former place, behind a hole. What is no file is left alone.
func appendOnly(file *os.File) {
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return
	}
	conn, err := file.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) {
		if flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0); err == nil {
			_, _ = unix.FcntlInt(fd, unix.F_SETFL, flags|unix.O_APPEND)
		}
	})
}
