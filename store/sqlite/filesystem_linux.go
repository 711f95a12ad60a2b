package sqlite

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// FileSystemOf returns the file system of a file or folder.
func FileSystemOf(path string) (FileSystem, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return FileSystem{}, fmt.Errorf("file system of %s: %w", path, err)
	}
	mounted := ""
	if uint32(s.Type) == fuse {
		mounted = mountedAs(path)
	}
	return fileSystemOf(uint32(s.Type), mounted), nil
}

// mountedAs returns the type that mountinfo names for the device of a path, or "".
func mountedAs(path string) string {
	var s unix.Stat_t
	if unix.Stat(path, &s) != nil {
		return ""
	}
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	defer mounts.Close()
	return typeOfDevice(mounts, fmt.Sprintf("%d:%d", unix.Major(uint64(s.Dev)), unix.Minor(uint64(s.Dev))))
}

// typeOfDevice finds the type of a device, major:minor, in the form of proc_pid_mountinfo(5).
func typeOfDevice(mounts io.Reader, device string) string {
	lines := bufio.NewScanner(mounts)
	for lines.Scan() {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(before)
		if len(fields) > 2 && fields[2] == device {
			name, _, _ := strings.Cut(after, " ")
			return name
		}
	}
	return ""
}
