package httpapi

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"
)

// AccessLog says which requests have a line in the log. Failures of the server always have
// one.
type AccessLog int

const (
	AccessAll     AccessLog = iota
	AccessSampled           // some of them a second, and how many were left out
	AccessErrors            // those that were refused, or failed
	AccessOff
)

var accessLogs = []string{"all", "sampled", "errors", "off"}

// ParseAccessLog parses all, sampled, errors or off.
func ParseAccessLog(s string) (AccessLog, error) {
	at := slices.Index(accessLogs, s)
	if at < 0 {
		return 0, fmt.Errorf("want all, sampled, errors or off, not %q", s)
	}
	return AccessLog(at), nil
}

// The lines that a sampled log has in a second: so many of requests that were carried out, and as
// many of others, so that neither hides the other.
const sampledLines = 20

// sampler counts the lines of the current second.
type sampler struct {
	mu      sync.Mutex
	second  int64
	lines   [2]int // of requests that were carried out, and of others
	skipped int    // since the last line
}

// line reports whether a request has a line, and how many had none since the last one.
func (s *sampler) line(refused bool, now time.Time) (ok bool, skipped int) {
	kind := 0
	if refused {
		kind = 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if second := now.Unix(); second != s.second {
		s.second, s.lines = second, [2]int{}
	}
	if s.lines[kind] >= sampledLines {
		s.skipped++
		return false, 0
	}
	s.lines[kind]++
	skipped, s.skipped = s.skipped, 0
	return true, skipped
}

// hasLine reports whether a request has a line in the log, and how many had none since the last
// one.
func (a *API) hasLine(status int, level slog.Level, now time.Time) (ok bool, skipped int) {
	refused := status >= http.StatusBadRequest
	switch mode := AccessLog(a.accessLog.Load()); {
	case level >= slog.LevelWarn, mode == AccessAll:
		return true, 0
	case mode == AccessSampled:
		return a.sampled.line(refused, now)
	case mode == AccessErrors:
		return refused, 0
	}
	return false, 0
}
