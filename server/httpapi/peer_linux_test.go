package httpapi

import (
	"net/netip"
	"strings"
	"testing"
)

// Lines as the kernel writes them: an IPv4 client, the same with its address mapped into IPv6, and
// an IPv6 one.
const socketTable = `  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     7        0 1 1 0000000000000000 100 0 0 10 0
   1: 0100007F:C350 0100007F:1F90 01 00000000:00000000 02:000009D4 00000000  1000        0 2 2 0000000000000000 20 4 30 10 -1
   2: 0000000000000000FFFF00000100007F:C351 0000000000000000FFFF00000100007F:1F90 01 00000000:00000000 02:000009D4 00000000  1001        0 3 2 0000000000000000 20 4 30 10 -1
   3: 00000000000000000000000001000000:C352 00000000000000000000000001000000:1F90 01 00000000:00000000 02:000009D4 00000000  1002        0 4 2 0000000000000000 20 4 30 10 -1
   4: broken
`

func TestSocketOwner(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		local, remote string
		uid           int
		found         bool
	}{
		{"127.0.0.1:50000", "127.0.0.1:8080", 1000, true},
		{"127.0.0.1:50001", "127.0.0.1:8080", 1001, true},
		{"[::1]:50002", "[::1]:8080", 1002, true},
		{"127.0.0.1:50003", "127.0.0.1:8080", 0, false},
		{"127.0.0.1:8080", "127.0.0.1:50000", 0, false}, // the server's own end
		{"127.0.0.2:50000", "127.0.0.1:8080", 0, false},
	} {
		uid, found := socketOwner(strings.NewReader(socketTable), netip.MustParseAddrPort(tt.local), netip.MustParseAddrPort(tt.remote))
		if uid != tt.uid || found != tt.found {
			t.Errorf("%s → %s: %d, %v", tt.local, tt.remote, uid, found)
		}
	}
}
