package attestd

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"

	"attestd/internal/sleep"
)

// Retry sets the number of retries of a request, and their delays.
type Retry struct {
	Times int // beyond the first attempt; 0 sends once
	// The wait before a retry is random between Min and twice Min, four times Min and so on, at
	// most Max. Where the service answers Retry-After, it is at least that.
	Min, Max time.Duration
}

// DefaultRetry allows two retries, after 0.5 to 8 seconds.
func DefaultRetry() Retry { return Retry{Times: 2, Min: 500 * time.Millisecond, Max: 8 * time.Second} }

// patience is the longest Retry-After that a call waits for: the window of the service's rate
// limits. With a longer one, the call returns the error at once.
const patience = 60 * time.Second

// wait returns how long to wait before retry number n, from 0 on, after err; false when it is not
// worth to.
func (r Retry) wait(n int, err error, safe bool) (time.Duration, bool) {
	if n >= r.Times || !retryable(err, safe) {
		return 0, false
	}
	longest := min(r.Max, r.Min<<min(n+1, 30))
	wait := r.Min
	if longest > r.Min {
		wait += rand.N(longest - r.Min)
	}
	var answer *Error
	if errors.As(err, &answer) && answer.RetryAfter > 0 {
		wait = max(wait, answer.RetryAfter)
	}
	return wait, wait <= max(patience, r.Max)
}

// retryable reports whether a request may be sent again after err. safe means that the request is
// idempotent.
func retryable(err error, safe bool) bool {
	var answer *Error
	if !errors.As(err, &answer) {
		var unsent *net.OpError
		return safe || errors.As(err, &unsent) && unsent.Op == "dial"
	}
	switch answer.Status {
	case http.StatusTooManyRequests:
		return true
	case http.StatusRequestTimeout:
		return safe
	case http.StatusConflict:
		return safe && answer.Code == "" // a code says what stands in the way, and that stays
	case http.StatusServiceUnavailable:
		return safe || answer.Code == "NOT_DONE"
	}
	return safe && answer.Status >= 500
}

// retryAfter reads the header of that name: seconds, or a date (RFC 9110 §10.2.3). 0 where there is
// none.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// rest waits, or returns an error at once where ctx ends before that.
func rest(ctx context.Context, d time.Duration) error {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return context.DeadlineExceeded
	}
	return sleep.For(ctx, d)
}
