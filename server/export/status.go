package export

import (
	"context"
	"time"
)

// Status is how an export fares.
type Status struct {
	Destination   string
	Delivered     int64     // lines, since the start
	LastDelivered time.Time // zero before the first
	// the logs were scanned; before, it is unknown how many records are behind
	Measured bool
	// records that were not acknowledged at the last scan, and since when there are any
	Behind      int64
	BehindSince time.Time
	// deliveries that failed since the last one that did not, and why
	Failures    int
	LastError   string
	LastErrorAt time.Time
	// logs that cannot be exported, with the reason
	Stopped map[Log]string
}

// Status may be called at any time.
func (e *Exporter) Status() Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.status
	s.Stopped = make(map[Log]string, len(e.status.Stopped))
	for l, why := range e.status.Stopped {
		s.Stopped[l] = why
	}
	return s
}

// failed records a failed delivery. It is logged first, then every sayEvery.
func (e *Exporter) failed(err error) {
	e.failures++
	e.session++ // what came before is not known to be there
	now := time.Now()
	e.mu.Lock()
	e.status.Failures, e.status.LastError, e.status.LastErrorAt = e.failures, err.Error(), now
	s := e.status
	e.mu.Unlock()
	if now.Sub(e.loggedAt) >= sayEvery && e.Follow {
		e.loggedAt = now
		e.Log.Error("the export is not accepted; retrying, and nothing is lost", "destination", s.Destination, "error", err,
			"behind", s.Behind, "failures", s.Failures)
	}
}

// acknowledged records a delivery.
func (e *Exporter) acknowledged(lines int) {
	if e.failures > 0 && !e.loggedAt.IsZero() {
		e.Log.Info("the export is accepted again", "destination", e.Destination.String())
	}
	e.failures, e.loggedAt = 0, time.Time{}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status.Failures = 0
	e.status.Delivered += int64(lines)
	e.status.LastDelivered = time.Now()
}

// measure reads the sizes of the logs that wait, where no batch does.
func (e *Exporter) measure(ctx context.Context) {
	for _, s := range e.queue {
		if size, err := e.Source.Size(ctx, s.Log); err == nil { // fill reports an error
			s.size = size
		}
	}
}

// count updates how many records wait.
func (e *Exporter) count() {
	behind := int64(0)
	for _, s := range e.logs {
		behind += max(0, s.size-s.at.Frontier.Size)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status.Behind, e.status.Measured = behind, true
	switch {
	case behind == 0:
		e.status.BehindSince = time.Time{}
	case e.status.BehindSince.IsZero():
		e.status.BehindSince = time.Now()
	}
}

// stop records that a log cannot be exported, or with nil that it can.
func (e *Exporter) stop(s *state, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil {
		if _, was := e.status.Stopped[s.Log]; was {
			delete(e.status.Stopped, s.Log)
			e.Log.Info("a log can be exported again", "company", s.CompanyID, "log", s.Name)
		}
		return
	}
	if _, was := e.status.Stopped[s.Log]; !was {
		e.Log.Error("a log cannot be exported; retrying", "company", s.CompanyID, "log", s.Name, "error", err)
	}
	e.status.Stopped[s.Log] = err.Error()
}
