package httpapi

import (
	"cmp"
	"crypto/sha256"
	"net/http"

	"attestd/server/limit"
	"attestd/store/db"
)

// Spend counts a call against a limit, as many times as it has items, and refuses a call over the
// limit. It counts for the credential and the company. On a route without a credential it also
// counts for the address, so that a fake or new credential does not evade the address's limit.
func (c *Call) Spend(tier limit.Tier, items int) error {
	of := c.account(tier, items)
	spent := c.spendShared(of)
	var q limit.Quota
	if spent.Counted && !spent.OK {
		q = c.api.Limiter.Refusal(tier, c.receivedAt.Add(spent.Frees))
	} else if q = c.api.Limiter.Take(of, c.receivedAt); spent.Counted {
		q = q.Within(spent.Left, c.receivedAt.Add(spent.Frees))
	}
	q.Header(c.W.Header(), c.receivedAt)
	if !q.OK {
		c.api.Limiter.Refused(tier)
		return Fail(http.StatusTooManyRequests, "Too Many Requests")
	}
	return nil
}

// account returns the accounts that a call counts for.
func (c *Call) account(tier limit.Tier, items int) limit.Call {
	of := limit.Call{Tier: tier, Items: items}
	company := cmp.Or(c.presumed.Company, c.counted)
	if company != nil {
		of.Credential, of.Company = c.Hash, company.Chain
	}
	if company == nil || c.needs.Who&Anonymous != 0 {
		of.Address = limit.Network(clientIP(c.Request, c.api.TrustedProxies))
	}
	return of
}

// mostShared is the largest limit that servers count together. With a larger one, each server
// counts on its own.
const mostShared = 100

// spendShared counts a call of the sensitive tier together with the calls to other servers on the
// same database, for its address if that is counted, otherwise for its credential. If the database
// cannot be queried, only the server's own counter applies, which counts every admitted call.
func (c *Call) spendShared(of limit.Call) db.Spent {
	most := c.api.Limiter.Most(of.Tier)
	if of.Tier != limit.Sensitive || most == 0 || most > mostShared {
		return db.Spent{}
	}
	account := sha256.Sum256(append([]byte("credential\n"), of.Credential[:]...))
	if of.Address.IsValid() {
		account = sha256.Sum256([]byte("address\n" + of.Address.String()))
	}
	spent, err := c.api.Store.Spend(c.Context(), account, most)
	if err != nil && c.Context().Err() == nil {
		c.api.Log.Warn("the shared budget cannot be queried; this server counts on its own", "error", err)
	}
	return spent
}

// Holder returns the accounts for which a call holds bytes or a place on the stream.
func (c *Call) Holder() limit.Holder {
	var h limit.Holder
	if ip := clientIP(c.Request, c.api.TrustedProxies); !limit.Shared(ip, c.api.TrustedProxies) {
		h.Address = limit.Network(ip)
	}
	if company := cmp.Or(c.presumed.Company, c.counted); company != nil {
		h.Company, h.Known = company.Chain, true
	}
	return h
}

// Most returns how many calls of a tier a credential has in a minute; 0 for no limit.
func (c *Call) Most(tier limit.Tier) int { return c.api.Limiter.Most(tier) }

// Room returns how many more calls of a tier may be counted now.
func (c *Call) Room(tier limit.Tier) int { return c.api.Limiter.Room(c.account(tier, 0), c.receivedAt) }
