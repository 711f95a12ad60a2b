//go:build unix

package local

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"syscall"
)

// privately makes a socket that only its owner can use from its first moment on.
func privately(listen func() (net.Listener, error)) (net.Listener, error) {
	defer syscall.Umask(syscall.Umask(0o177))
	return listen()
}

// notServing reports whether there is no socket, or one of a server that was killed.
func notServing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}

// owns reports whether a file is a user's.
func owns(uid int, path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == uid
}
