package limit

import (
	"bytes"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Memory returns the bytes of memory that the machine or the control group of this process has. ok
// is false where the system does not say.
func Memory() (size int64, ok bool) {
	var machine unix.Sysinfo_t
	if unix.Sysinfo(&machine) != nil {
		return 0, false
	}
	size = int64(machine.Totalram) * int64(machine.Unit)
	for _, group := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if most, ok := readNumber(group); ok {
			size = min(size, most)
		}
	}
	return size, true
}

// readNumber reads a file that has a number alone.
func readNumber(path string) (n int64, ok bool) {
	f, err := os.Open(path)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 64))
	if err == nil {
		n, err = strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	}
	return n, err == nil && n > 0
}
