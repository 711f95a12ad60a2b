package limit

import (
	"net/http"
	"strconv"
	"time"
)

// Quota is the result of Limiter.Take.
type Quota struct {
	limit, remaining int       // a limit of 0 means none
	reset            time.Time // when the oldest call in the window expires
	// budget of the company, and what is left of it; 0 for no bound, or no company
	company, left int
	OK            bool
}

// Within restricts q by a shared budget: what is left of it, and when its oldest call expires.
func (q Quota) Within(left int, reset time.Time) Quota {
	if q.limit > 0 && left <= q.remaining {
		q.remaining, q.reset = left, reset
	}
	return q
}

// Refusal returns the quota of a call that a shared budget has refused until a time. It counts for
// no limit.
func (l *Limiter) Refusal(t Tier, until time.Time) Quota {
	return Quota{limit: l.Most(t), reset: until}
}

// Header sets the rate headers, and Retry-After on a refusal. It sets nothing without a limit. now
// is the time given to Take.
func (q Quota) Header(h http.Header, now time.Time) {
	if q.limit == 0 {
		return
	}
	// All values share one string and one slice, because this runs for every response.
	var space [96]byte
	b := strconv.AppendInt(space[:0], int64(q.limit), 10)
	i := len(b)
	b = strconv.AppendInt(b, int64(q.remaining), 10)
	j := len(b)
	b = strconv.AppendInt(b, unixCeil(q.reset), 10)
	k := len(b)
	b = strconv.AppendInt(b, int64(q.company), 10)
	l := len(b)
	b = strconv.AppendInt(b, int64(q.left), 10)
	s := string(b)
	v := []string{s[:i], s[i:j], s[j:k], s[k:l], s[l:]}
	h["X-Ratelimit-Limit"], h["X-Ratelimit-Remaining"], h["X-Ratelimit-Reset"] = v[0:1:1], v[1:2:2], v[2:3:3]
	if q.company > 0 {
		h["X-Ratelimit-Company-Limit"], h["X-Ratelimit-Company-Remaining"] = v[3:4:4], v[4:5:5]
	}
	if !q.OK {
		wait := (q.reset.Sub(now) + time.Second - 1) / time.Second
		h.Set("Retry-After", strconv.FormatInt(max(1, int64(wait)), 10))
	}
}

// unixCeil returns t in Unix seconds, rounded up, so that a client that waits until then has waited
// long enough.
func unixCeil(t time.Time) int64 {
	s := t.Unix()
	if t.Nanosecond() > 0 {
		s++
	}
	return s
}
