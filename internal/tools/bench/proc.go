package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// Linux provides statistics of a process in files. On other systems they are missing, and their
// figures are n/a.

// tick is the unit of times in /proc/PID/stat: USER_HZ, 100 on every Linux that Go runs on.
const tick = time.Second / 100

// cpuTime returns the processor time of a process, for all threads, user and system.
func cpuTime(pid int) (time.Duration, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	return parseCPUTime(stat)
}

// parseCPUTime parses utime and stime, fields 14 and 15 of proc(5). The second field, a name in
// parentheses, may contain anything.
func parseCPUTime(stat []byte) (time.Duration, bool) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, false
	}
	user, err1 := strconv.ParseInt(string(fields[11]), 10, 64)
	system, err2 := strconv.ParseInt(string(fields[12]), 10, 64)
	return time.Duration(user+system) * tick, err1 == nil && err2 == nil
}

// residentBytes returns the resident memory of a process.
func residentBytes(pid int) (int64, bool) { return statusBytes(pid, "VmRSS") }

// ownBytes returns the resident memory of a process without pages of files, which all processes of
// a program share.
func ownBytes(pid int) (int64, bool) { return statusBytes(pid, "RssAnon") }

func statusBytes(pid int, name string) (int64, bool) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, false
	}
	_, rest, found := bytes.Cut(status, []byte("\n"+name+":"))
	fields := bytes.Fields(rest)
	if !found || len(fields) == 0 {
		return 0, false
	}
	kib, err := strconv.ParseInt(string(fields[0]), 10, 64)
	return kib << 10, err == nil
}

// watchMemory samples the resident memory of a process every few milliseconds. growth ends that and
// returns how far memory rose above its initial value.
func watchMemory(pid int) (growth func() (int64, bool)) {
	start, ok := residentBytes(pid)
	stop, done := make(chan struct{}), make(chan struct{})
	peak := start
	go func() {
		defer close(done)
		ticker := time.NewTicker(5 * time.Millisecond)
		defer ticker.Stop()
		for ok {
			select {
			case <-stop:
				return
			case <-ticker.C:
				if now, alive := residentBytes(pid); alive {
					peak = max(peak, now)
				}
			}
		}
	}()
	return func() (int64, bool) {
		close(stop)
		<-done
		return peak - start, ok
	}
}
