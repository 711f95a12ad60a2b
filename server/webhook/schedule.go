package webhook

import (
	"net/http"
	"strconv"
	"time"
)

// Attempts is how often a message is tried before its endpoint is given up.
const Attempts = 10

const (
	maxDelay = 24 * time.Hour
	// a delay is longer by up to a tenth of itself, so that what failed together does not come back
	// together
	jitterPart = 10
)

// Delay says how long to wait after that many attempts at a message have failed, before the next
// one: nothing before the first, then 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h and 24 h,
// about four days in all. retryAfter is what the endpoint asked for, which makes it longer, to 24 h
// at most; jitter is from 0 to 1. It is not ok when the endpoint is to be given up.
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

// retryAfter reads the header of that name (RFC 9110 §10.2.3); 0 where it says nothing that can be
// read.
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
