package attack

import (
	"context"
	"slices"
	"time"

	"attestd/internal/harness"
)

// maxGoroutines bounds the goroutines of an idle server: the log, the monitor, the listener, the
// runtime's own.
const maxGoroutines = 60

// sample is a measurement of the server process.
type sample struct {
	resident    int64
	descriptors int
}

// course has the server's samples at a third of the time, and at the end.
type course struct {
	third, end []sample
	done       chan struct{}
}

// watch samples the server every quarter of a second.
func (k *load) watch(ctx context.Context, pid int, start time.Time, length time.Duration) *course {
	c := &course{done: make(chan struct{})}
	go func() {
		defer close(c.done)
		ticker := time.NewTicker(250 * time.Millisecond)
		defer ticker.Stop()
		for {
			now := sample{harness.Resident(pid), harness.Descriptors(pid)}
			switch part := time.Since(start).Seconds() / length.Seconds(); {
			case part > 0.28 && part < 0.38:
				c.third = append(c.third, now)
			case part > 0.9:
				c.end = append(c.end, now)
			}
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}()
	return c
}

// judge compares the two samples. In a short run, caches are still growing.
func (c *course) judge(r *run) {
	<-c.done
	third, end := median(c.third), median(c.end)
	if third.resident == 0 || end.resident == 0 {
		return // unknown on this system, or the run was too short
	}
	slack := int64(32 << 20)
	if short() {
		slack *= 2
	}
	r.Count(int(third.resident>>20), "MiB at a third")
	r.Count(int(end.resident>>20), "MiB at the end")
	r.Count(end.descriptors, "descriptors")
	if end.resident > third.resident*5/4+slack {
		r.Errorf("memory grew from %d to %d MiB", third.resident>>20, end.resident>>20)
	}
	if end.descriptors > third.descriptors+16 {
		r.Errorf("open descriptors grew from %d to %d", third.descriptors, end.descriptors)
	}
}

func median(list []sample) sample {
	if len(list) == 0 {
		return sample{}
	}
	at := func(get func(sample) int64) int64 {
		values := make([]int64, len(list))
		for i, s := range list {
			values[i] = get(s)
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	return sample{at(func(s sample) int64 {
		return s.resident
	}), int(at(func(s sample) int64 { return int64(s.descriptors) }))}
}
