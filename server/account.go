package server

import "attestd/server/limit"

// counted is on whose account a call of a route counts: that of its credential and its company, and on a route that needs none,
// of its address too, so that no credential, made up or fresh, moves a call away from where it comes from.
func (c *call) counted(rt route) limit.Call {
	of := limit.Call{Tier: rt.tier}
	if c.caller.Company != nil {
		of.Credential, of.Company = c.hash, c.caller.Company.Chain
	}
	if c.caller.Company == nil || rt.needs == public {
		of.Address = limit.Network(clientIP(c.Request, c.s.TrustedProxies))
	}
	return of
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
