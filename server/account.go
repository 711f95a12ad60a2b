package server

import (
	"cmp"
	"crypto/sha256"
	"net/http"

	"attestd/server/limit"
	"attestd/store/db"
)

// spend counts a call against a limit, as many times as it has items, and refuses a call over the
// limit. It counts for the credential and the company. On a route without a credential it also
// counts for the address, so that a fake or new credential does not evade the address's limit.
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
		c.s.limiter.Refused(tier)
		return fail(http.StatusTooManyRequests, "Too Many Requests")
	}
	return nil
}

// account returns the accounts that a call counts for.
func (c *call) account(tier limit.Tier, items int) limit.Call {
	of := limit.Call{Tier: tier, Items: items}
	company := cmp.Or(c.presumed.Company, c.counted)
	if company != nil {
		of.Credential, of.Company = c.hash, company.Chain
	}
	if company == nil || c.needs.who&nobody != 0 {
		of.Address = limit.Network(clientIP(c.Request, c.s.TrustedProxies))
	}
	return of
}

// mostShared is the largest limit that servers count together. With a larger one, each server
// counts on its own.
const mostShared = 100

// spendShared counts a call of the sensitive tier together with the calls to other servers on the
// same database, for its address if that is counted, otherwise for its credential. If the database
// cannot be queried, only the server's own counter applies, which counts every admitted call.
func (c *call) spendShared(of limit.Call) db.Spent {
	most := c.s.limiter.Most(of.Tier)
	if of.Tier != limit.Sensitive || most == 0 || most > mostShared {
		return db.Spent{}
	}
	account := sha256.Sum256(append([]byte("credential\n"), of.Credential[:]...))
	if of.Address.IsValid() {
		account = sha256.Sum256([]byte("address\n" + of.Address.String()))
	}
	spent, err := c.s.Store.Spend(c.Context(), account, most)
	if err != nil && c.Context().Err() == nil {
		c.s.Log.Warn("the shared budget cannot be queried; this server counts on its own", "error", err)
	}
	return spent
}

// holder returns the accounts for which a call holds bytes or a place on the stream.
func (c *call) holder() limit.Holder {
	var h limit.Holder
	if ip := clientIP(c.Request, c.s.TrustedProxies); !limit.Shared(ip, c.s.TrustedProxies) {
		h.Address = limit.Network(ip)
	}
	if company := cmp.Or(c.presumed.Company, c.counted); company != nil {
		h.Company, h.Known = company.Chain, true
	}
	return h
}
