package httpapi

import (
	"log/slog"
	"testing"
	"time"
)

// A sampled log has 20 lines a second of requests that were carried out and 20 of refused ones,
// says how many were left out, and has all failures.
func TestSampledAccessLog(t *testing.T) {
	t.Parallel()
	s := new(API)
	s.Set(nil, AccessSampled)
	now := time.Unix(1_000, 0)
	lines, skipped := 0, 0
	count := func(status int, level slog.Level, n int) {
		lines, skipped = 0, 0
		for range n {
			if ok, left := s.hasLine(status, level, now); ok {
				lines++
				skipped += left
			}
		}
	}
	for _, tt := range []struct {
		status, requests, lines, skipped int
		level                            slog.Level
		after                            time.Duration
	}{
		{200, 1000, 20, 0, slog.LevelInfo, 0},
		{429, 10, 10, 980, slog.LevelInfo, 0},
		{401, 1000, 10, 0, slog.LevelInfo, 0},
		{500, 1000, 1000, 0, slog.LevelError, 0},
		{200, 1, 1, 990, slog.LevelInfo, time.Second},
		{200, 19, 19, 0, slog.LevelInfo, 0},
		{200, 1, 0, 0, slog.LevelInfo, 0},
	} {
		now = now.Add(tt.after)
		if count(tt.status, tt.level, tt.requests); lines != tt.lines || skipped != tt.skipped {
			t.Errorf("%+v: %d lines, %d skipped", tt, lines, skipped)
		}
	}
}
