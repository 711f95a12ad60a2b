//go:build unix

package limit

import "syscall"

// OpenFiles returns the maximum number of open files of this process; 0 if unknown.
func OpenFiles() int64 {
	var files syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) != nil || files.Cur > 1<<40 {
		return 0
	}
	return int64(files.Cur)
}
