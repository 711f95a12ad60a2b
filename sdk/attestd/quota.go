package attestd

import (
	"net/http"
	"strconv"
	"time"
)

// Quota is a credential's limit of attestations in a window of 60 seconds.
type Quota struct {
	Limit     int
	Remaining int       // at the time of the response; the company's if that is less
	Reset     time.Time // when Remaining increases
}

// AttestQuota returns the quota in the latest response to an attestation. ok is false if there was
// none.
func (c *Client) AttestQuota() (q Quota, ok bool) {
	if known := c.quota.Load(); known != nil {
		return *known, true
	}
	return q, false
}

// storeQuota stores the quota in a response.
func (c *Client) storeQuota(h http.Header) {
	var q Quota
	var reset int64
	for _, member := range []struct {
		name string
		read func(int64)
	}{
		{"X-RateLimit-Limit", func(n int64) { q.Limit = int(n) }},
		{"X-RateLimit-Remaining", func(n int64) { q.Remaining = int(n) }},
		{"X-RateLimit-Reset", func(n int64) { reset = n }},
	} {
		n, err := strconv.ParseInt(h.Get(member.name), 10, 64)
		if err != nil || n < 0 || n > 1<<40 {
			return
		}
		member.read(n)
	}
	if n, err := strconv.Atoi(h.Get("X-RateLimit-Company-Remaining")); err == nil && n >= 0 {
		q.Remaining = min(q.Remaining, n)
	}
	q.Reset = time.Unix(reset, 0)
	c.quota.Store(&q)
}
