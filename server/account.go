package server

import (
	"crypto/sha256"
	"net/http"

	"attestd/server/limit"
	"attestd/store"
)

// spend counts a call against a limit, as the items that it stands for, and refuses what is over
// it. It counts for its credential and its company, and on a route that needs none, for its address
// too, so that no credential, made up or fresh, moves a call away from where it comes from.
func (c *call) spend(tier limit.Tier, items int) error {
	of := c.account(tier, items)
	spent := c.spendShared(of)
	var q limit.Quota
	if spent.Counted && !spent.OK {
		q = c.s.limiter.Refusal(tier, c.came.Add(spent.Frees))
	} else if q = c.s.limiter.Take(of, c.came); spent.Counted {
		q = q.Within(spent.Left, c.came.Add(spent.Frees))
	}
	q.Header(c.w.Header(), c.came)
	if !q.OK {
		return fail(http.StatusTooManyRequests, "Too Many Requests")
	}
	return nil
}

// account is on whose account a call counts.
func (c *call) account(tier limit.Tier, items int) limit.Call {
	of := limit.Call{Tier: tier, Items: items}
	if c.caller.Company != nil {
		of.Credential, of.Company = c.hash, c.caller.Company.Chain
	}
	if c.caller.Company == nil || c.needs == public {
		of.Address = limit.Network(clientIP(c.Request, c.s.TrustedProxies))
	}
	return of
}

// mostShared is the largest limit that servers count together: above it each counts for itself.
const mostShared = 100

// spendShared counts a call of the sensitive tier with those that come to other servers on the same
// database, for its address where that is counted, else for its credential. Where the database
// cannot be asked, the server's own counter decides alone, which counts every call that is let
// through.
func (c *call) spendShared(of limit.Call) store.Spent {
	most := c.s.limiter.Most(of.Tier)
	if of.Tier != limit.Sensitive || most == 0 || most > mostShared {
		return store.Spent{}
	}
	account := sha256.Sum256(append([]byte("credential\n"), of.Credential[:]...))
	if of.Address.IsValid() {
		account = sha256.Sum256([]byte("address\n" + of.Address.String()))
	}
	spent, err := c.s.Store.Spend(c.Context(), account, most)
	if err != nil && c.Context().Err() == nil {
		c.s.Log.Warn("the shared budget cannot be asked; this server counts alone", "error", err)
	}
	return spent
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
