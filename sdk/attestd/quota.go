package attestd

import (
	"net/http"
	"strconv"
	"time"
)

// Quota is what the service lets a credential attest in any 60 seconds.
type Quota struct {
	Limit     int
	Remaining int       // when the answer was made; of the company's, where it has less left
	Reset     time.Time // when there will be more
}

// AttestQuota is the quota that the newest answer to an attestation spoke of; ok is false where
// none did.
func (c *Client) AttestQuota() (q Quota, ok bool) {
	if known := c.quota.Load(); known != nil {
		return *known, true
	}
	return q, false
}

// noteQuota keeps what an answer says of the quota.
func (c *Client) noteQuota(h http.Header) {
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
