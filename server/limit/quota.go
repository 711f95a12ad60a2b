package limit

import (
	"net/http"
	"strconv"
	"time"
)

// Quota is the answer of Limiter.Take.
type Quota struct {
	limit, remaining int       // a limit of 0 is none
	reset            time.Time // when the oldest call in the window expires
	// what the company may spend, and has left; a company of 0 has no bound, or there is none
	company, left int
	OK            bool
}

// Within is q, of a call that others count too: what they have left, and when their oldest call
// counts no more.
func (q Quota) Within(left int, reset time.Time) Quota {
	if q.limit > 0 && left <= q.remaining {
		q.remaining, q.reset = left, reset
	}
	return q
}

// Refusal is the answer to a call of a tier that others have refused, until when; no limit counts
// it.
func (l *Limiter) Refusal(t Tier, until time.Time) Quota {
	return Quota{limit: l.limits[t], reset: until}
}

// Header sets the rate headers, and Retry-After on a refusal; nothing where there is no limit. now
// is the time given to Take.
func (q Quota) Header(h http.Header, now time.Time) {
	if q.limit == 0 {
		return
	}
	// One string and one slice carry all values: this runs on every response.
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

// unixCeil is t in whole Unix seconds, rounded up, so that a client that waits until then has
// waited long enough.
func unixCeil(t time.Time) int64 {
	s := t.Unix()
	if t.Nanosecond() > 0 {
		s++
	}
	return s
}
