package httpapi

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// SameUser reports whether the other end of a request's connection belongs to root or to the user
// of this server. The kernel knows the owner of each socket, so a tunnel or proxy of another user
// on this machine is not mistaken for its peer. If the owner is unknown, SameUser returns false.
func SameUser(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	here, err := netip.ParseAddrPort(local.String())
	if err != nil {
		return false
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			continue
		}
		uid, found := socketOwner(f, peer, here)
		_ = f.Close()
		if found {
			return uid == 0 || uid == os.Geteuid()
		}
	}
	return false
}

// socketOwner finds the user of the socket with these two ends in a table of the kernel
// (proc_net_tcp(5)). After a header, each line has its number, the local and the remote address,
// and, as the eighth field, the user.
func socketOwner(table io.Reader, local, remote netip.AddrPort) (uid int, found bool) {
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 8 || !isEnd(fields[1], local) || !isEnd(fields[2], remote) {
			continue
		}
		uid, err := strconv.Atoi(fields[7])
		return uid, err == nil
	}
	return 0, false
}

// isEnd reports whether the kernel's text for the end of a socket is an address: hexadecimal, with
// each four bytes as a number in the byte order of the machine, which is little-endian on all
// supported platforms.
func isEnd(text string, end netip.AddrPort) bool {
	address, port, ok := strings.Cut(text, ":")
	raw, err := hex.DecodeString(address)
	if !ok || err != nil || len(raw)%4 != 0 || !strings.EqualFold(port, fmt.Sprintf("%04X", end.Port())) {
		return false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.BigEndian.PutUint32(raw[i:], binary.LittleEndian.Uint32(raw[i:]))
	}
	got, ok := netip.AddrFromSlice(raw)
	return ok && got.Unmap() == end.Addr().Unmap().WithZone("")
}
