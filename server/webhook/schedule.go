package webhook

import (
	"net/http"
	"strconv"
	"time"
)

// Attempts is the maximum number of attempts to send a message.
const Attempts = 10

const (
	maxDelay = 24 * time.Hour
	// delays are prolonged by up to a tenth, so that simultaneous failures do not retry
	// simultaneously
	jitterPart = 10
)

// Delay returns how long to wait after a number of failed attempts: nothing before the first, then
// 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h and 24 h, about four days in total. retryAfter,
// which the endpoint has requested, prolongs it up to 24 h. jitter is from 0 to 1. ok is false
// after the last attempt.
func Delay(failed int, retryAfter time.Duration, jitter float64) (delay time.Duration, ok bool) {
	delays := [Attempts]time.Duration{0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute,
		2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, maxDelay}
	if failed >= Attempts {
		return 0, false
	}
	delay = delays[failed]
	delay += time.Duration(jitter * float64(delay/jitterPart))
	return max(delay, min(retryAfter, maxDelay)), true
}

// retryAfter parses the header Retry-After (RFC 9110 §10.2.3). It returns 0 if the header is
// missing or invalid.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return max(0, at.Sub(now))
}
