package harness

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"
)

// Resident returns the resident memory of a process in bytes, or 0 if unknown.
func Resident(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, found := bytes.Cut(status, []byte("\nVmRSS:"))
	fields := bytes.Fields(rest)
	if err != nil || !found || len(fields) == 0 {
		return 0
	}
	kib, _ := strconv.ParseInt(string(fields[0]), 10, 64)
	return kib << 10
}

// Descriptors returns the number of open file descriptors of a process, or 0 if unknown.
func Descriptors(pid int) int {
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0
	}
	return len(list)
}

// Peak measures the peak resident memory of a process until End.
type Peak struct {
	bytes      atomic.Int64
	stop, done chan struct{}
}

// WatchMemory starts the measurement.
func WatchMemory(pid int) *Peak {
	p := &Peak{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for {
			p.bytes.Store(max(p.bytes.Load(), Resident(pid)))
			select {
			case <-p.stop:
				return
			case <-ticker.C:
			}
		}
	}()
	return p
}

// Now returns the peak so far.
func (p *Peak) Now() int64 { return p.bytes.Load() }

// End stops the measurement and returns the peak.
func (p *Peak) End() int64 {
	close(p.stop)
	<-p.done
	return p.bytes.Load()
}
