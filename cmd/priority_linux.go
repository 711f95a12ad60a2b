package cmd

import (
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// lowPriority is the nice value of what may take its time.
const lowPriority = 10

// lowerPriority lets every other process go first, and takes at most half of the cores. Linux has a
// priority for each thread, and new threads have that of the one that makes them.
func lowerPriority() {
	runtime.GOMAXPROCS(max(1, runtime.GOMAXPROCS(0)/2))
	threads, _ := os.ReadDir("/proc/self/task")
	for _, t := range threads {
		if id, err := strconv.Atoi(t.Name()); err == nil {
			_ = unix.Setpriority(unix.PRIO_PROCESS, id, lowPriority) // without it, a backup is only less polite
		}
	}
}
