package jobs

import (
	"cmp"
	"time"

	"attestd/server/export"
)

// exportFailed is about exporters that have ended with an error, one after the other.
type exportFailed struct {
	times       int
	since, last time.Time
	err         string
}

// Status may be called at any time. It is zero while another server has the duty.
func (e *Exporter) Status() export.Status {
	e.mu.Lock()
	running, began, failing := e.running, e.began, e.failing
	e.mu.Unlock()
	var status export.Status
	if running != nil {
		status = running.Status()
		if !status.LastDelivered.IsZero() || time.Since(began) > exportSteady {
			return status
		}
	}
	if failing.times > 0 {
		status.Destination, status.BehindSince = e.Destination.String(), failing.since
		status.Failures += failing.times
		if status.LastError == "" {
			status.LastError, status.LastErrorAt = failing.err, failing.last
		}
	}
	return status
}

// IsBehind reports whether a log cannot be exported, or records have waited for too long. It is
// false while another server has the duty.
func (e *Exporter) IsBehind(now time.Time) bool {
	status := e.Status()
	late := cmp.Or(e.BehindAfter, exportBehind)
	return len(status.Stopped) > 0 || !status.BehindSince.IsZero() && now.Sub(status.BehindSince) > late
}

// recordEnd records how a run has ended: nil if another server has the duty now, or this one stops.
func (e *Exporter) recordEnd(err error, delivered bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	if err == nil || delivered || now.Sub(e.began) > exportSteady {
		e.failing = exportFailed{}
	}
	if e.running = nil; err == nil {
		return
	}
	if e.failing.times++; e.failing.times == 1 {
		e.failing.since = now
	}
	e.failing.last, e.failing.err = now, err.Error()
}
