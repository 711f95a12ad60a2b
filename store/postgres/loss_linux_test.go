package postgres_test

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"attestd/store/postgres"
)

// A connection whose data are not acknowledged counts as lost after 3 seconds, and a silent one is
// probed with keepalives.
func TestLostConnectionIsDetected(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := postgres.DialConfig("postgres://h/d")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := c.DialFunc(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(interface{ NetConn() net.Conn }).NetConn().(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []struct{ level, option, want int }{{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 3000}, {unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1}, {unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 1}} {
		err := raw.Control(func(socket uintptr) {
			if value, err := unix.GetsockoptInt(int(socket), o.level, o.option); err != nil || value != o.want {
				t.Errorf("socket option %d is %d, not %d: %v", o.option, value, o.want, err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
