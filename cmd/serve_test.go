package cmd

import (
	"net"
	"testing"

	"attestd/internal/must"
)

// What serve prints can be opened on this machine, also where the server listens on all addresses.
func TestPrintedAddressCanBeOpened(t *testing.T) {
	t.Parallel()
	const others = " and all other addresses of this machine"
	for _, c := range []struct{ listens, address, more string }{
		{"127.0.0.1:8080", "127.0.0.1:8080", ""},
		{"192.0.2.7:80", "192.0.2.7:80", ""},
		{"[::1]:8080", "[::1]:8080", ""},
		{"0.0.0.0:8080", "127.0.0.1:8080", others},
		{"[::]:8443", "127.0.0.1:8443", others},
	} {
		addr, err := net.ResolveTCPAddr("tcp", c.listens)
		must.OK(t, err)
		if address, more := openable(addr); address != c.address || more != c.more {
			t.Errorf("%s: %q, %q", c.listens, address, more)
		}
	}
}
