package postgres

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// limitLoss ends a connection whose data stay without an answer of the other machine.
func limitLoss(network, _ string, c syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var failed error
	err := c.Control(func(socket uintptr) {
		failed = unix.SetsockoptInt(int(socket), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(lossTimeout.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}
