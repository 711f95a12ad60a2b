package local

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// peer returns the user whose process is at the other end.
func peer(c net.Conn) (uid int, known bool) {
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return -1, true
	}
	uid = -1
	err = raw.Control(func(fd uintptr) {
		if who, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			uid = int(who.Uid)
		}
	})
	if err != nil {
		uid = -1
	}
	return uid, true // -1 is no user's
}

// throughFolder gives a socket a short path, through an open folder.
func throughFolder(dir, name string, fn func(path string) error) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	path := fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), name)
	if len(path) > maxPath {
		return fmt.Errorf("%w: %s", errPath, name)
	}
	return fn(path)
}
