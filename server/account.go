package server

import (
	"net/http"

	"attestd/server/limit"
)

// spend counts a call against a limit, as the items that it stands for, and refuses what is over it. It counts for its credential and its
// company, and on a route that needs none, for its address too, so that no credential, made up or fresh, moves a call away from where it comes from.
func (c *call) spend(tier limit.Tier, items int) error {
	of := limit.Call{Tier: tier, Items: items}
	if c.caller.Company != nil {
		of.Credential, of.Company = c.hash, c.caller.Company.Chain
	}
	if c.caller.Company == nil || c.needs == public {
		of.Address = limit.Network(clientIP(c.Request, c.s.TrustedProxies))
	}
	q := c.s.limiter.Take(of, c.came)
	q.Header(c.w.Header(), c.came)
	if !q.OK {
		return fail(http.StatusTooManyRequests, "Too Many Requests")
	}
	return nil
}

// holder is on whose account a call holds bytes or a place on the stream.
func (c *call) holder() limit.Holder {
	var h limit.Holder
	if ip := clientIP(c.Request, c.s.TrustedProxies); !limit.Shared(ip, c.s.TrustedProxies) {
		h.Address = limit.Network(ip)
	}
	if c.caller.Company != nil {
		h.Company, h.Known = c.caller.Company.Chain, true
	}
	return h
}
