package postgres

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// limitLoss limits how long sent data may stay unacknowledged before the connection ends.
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
