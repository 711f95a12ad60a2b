package cmd

import (
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// lowerPriority gives this process a nice value, so that others go first, and at most half of the
// cores. Linux has a priority for each thread, and a new thread has that of its maker.
func lowerPriority(nice int) {
	runtime.GOMAXPROCS(min(runtime.GOMAXPROCS(0), max(1, runtime.NumCPU()/2)))
	threads, _ := os.ReadDir("/proc/self/task")
	for _, t := range threads {
		if id, err := strconv.Atoi(t.Name()); err == nil {
			// where it is refused, a backup disturbs others more
			_ = unix.Setpriority(unix.PRIO_PROCESS, id, nice)
		}
	}
}
