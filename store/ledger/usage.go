package ledger

import (
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"attestd/chain"
	"attestd/store/db"
)

// Quotas limit what companies make a server store. 0 is no limit. Bytes are those of payloads and
// delegations; the number of records limits what a record needs in addition.
type Quotas struct {
	Records, Bytes       int64 // of each log of a company that has no quota of its own
	AllRecords, AllBytes int64 // of all logs together
	Companies            int64 // that may register
	CompaniesPerDay      int64 // that may register within 24 hours
}

// String is in the form of the flags.
func (q Quotas) String() string {
	return fmt.Sprintf("records=%d,bytes=%d,total-records=%d,total-bytes=%d,companies=%d,companies-per-day=%d", q.Records, q.Bytes,
		q.AllRecords, q.AllBytes, q.Companies, q.CompaniesPerDay)
}

// Limits is what the rows of a company say of it.
type Limits struct {
	Suspended      bool
	Records, Bytes sql.NullInt64 // NULL for those of Quotas
}

// limit returns the limit of a log of a company. The log of the companies has none of its own.
func (q *Quotas) limit(company int64, has Limits) chain.Limit {
	if company == db.Installation {
		return chain.Limit{}
	}
	l := chain.Limit{Records: q.Records, Bytes: q.Bytes, Closed: has.Suspended}
	if has.Records.Valid {
		l.Records = has.Records.Int64
	}
	if has.Bytes.Valid {
		l.Bytes = has.Bytes.Int64
	}
	return l
}

// usage is how much logs have.
type usage struct{ records, bytes int64 }

func (u *usage) add(more usage) { u.records, u.bytes = u.records+more.records, u.bytes+more.bytes }

func usageOf(e *chain.Extension) usage {
	return usage{e.Head.Length - e.From.Length, e.Head.Bytes - e.From.Bytes}
}

// used is what all logs together have, as the writer has read it and has added to since. On a file
// that is exact. Other servers that share a database add to it unseen until it is read again. So
// each server uses its share of what is left, and reads again when it has added its share of a
// tenth of the bound: all together add at most a tenth, and a transaction each, beyond it.
type used struct {
	usage
	since   usage // what the writer has added since it was read
	known   bool
	read    time.Time // by the process's clock
	servers int64     // that have written within a minute, at least 1

	// the same for other goroutines
	records, bytes atomic.Int64
}

const (
	usedAgain = 10 * time.Second // until what other servers have added is read
	usedSoon  = time.Second      // the same near a bound
)

func (u *used) add(more usage) {
	u.usage.add(more)
	if u.since.add(more); u.known {
		u.show()
	}
}

func (u *used) show() {
	u.records.Store(u.usage.records)
	u.bytes.Store(u.usage.bytes)
}

// room returns how much may be added to all logs together. If that cannot be read, nothing may be:
// the error of the read is the transaction's.
func (w *writer) room(c *db.Conn) chain.Room {
	q := &w.quotas
	isBounded := q.AllRecords > 0 || q.AllBytes > 0
	if !isBounded && (w.used.known || c.IsRemote()) {
		return chain.Room{}
	}
	if w.used.isOld(q, c.IsRemote()) {
		if err := w.used.count(c); err != nil {
			return chain.Room{Bounded: true}
		}
	}
	if !isBounded {
		return chain.Room{}
	}
	left := func(most, has, since int64) int64 {
		if most == 0 {
			return unbounded
		}
		return w.used.share(most-(has-since)) - since
	}
	return chain.Room{Bounded: true, Records: left(q.AllRecords, w.used.usage.records, w.used.since.records),
		Bytes: left(q.AllBytes, w.used.usage.bytes, w.used.since.bytes)}
}

const unbounded = 1 << 62

// share is the part of one server, rounded up.
func (u *used) share(n int64) int64 { return (n + u.servers - 1) / u.servers }

func (u *used) isOld(q *Quotas, shared bool) bool {
	if !u.known || !shared {
		return !u.known
	}
	age := time.Since(u.read)
	isNear := q.AllRecords > 0 && u.usage.records > q.AllRecords/10*9 || q.AllBytes > 0 && u.usage.bytes > q.AllBytes/10*9
	return age > usedAgain || isNear && age > usedSoon ||
		u.spent(q.AllRecords, u.usage.records, u.since.records) || u.spent(q.AllBytes, u.usage.bytes, u.since.bytes)
}

// spent reports whether the writer has added its share since usage was read. It has not where
// nothing was left then: a server that refuses all does not read for each request.
func (u *used) spent(most, has, since int64) bool {
	return most > 0 && since > 0 && since >= u.share(min(most-(has-since), most/10))
}

// count reads the heads, not the records.
func (u *used) count(c *db.Conn) error {
	var now usage
	servers := int64(1)
	if err := c.One([]any{&now.records, &now.bytes}, CountUsed); err != nil {
		return err
	}
	if c.IsRemote() {
		if err := c.One([]any{&servers}, countWriters); err != nil {
			return err
		}
	}
	u.usage, u.since, u.known, u.read, u.servers = now, usage{}, true, time.Now(), max(servers, 1)
	u.show()
	return nil
}

const countWriters = `SELECT count(*) FROM writer WHERE touched > now() - interval '1 minute'`

const CountUsed = `SELECT CAST(coalesce(sum(length), 0) AS BIGINT), CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM head`

// updateQuotas applies the quotas that were set since the previous transaction.
func (w *writer) updateQuotas() {
	if w.wanted == nil {
		return
	}
	if q := *w.wanted.Load(); q != w.quotas {
		w.quotas, w.relimited = q, true
	}
}

// changedLimits implements Rekeyed of chain.Transaction.
func (w *writer) changedLimits() (chains []int64, all bool) {
	all = w.relimited
	w.relimited = false
	return w.rekeyed, all
}

// refusedCount counts what quotas and suspensions have refused.
type refusedCount struct{ quota, suspended atomic.Int64 }

// count counts an error of a write, and returns it.
func (r *refusedCount) count(err error) error {
	switch {
	case err == nil:
	case errors.Is(err, chain.ErrQuota):
		r.quota.Add(1)
	case errors.Is(err, chain.ErrClosedChain):
		r.suspended.Add(1)
	}
	return err
}

// QuotaStatus is what the writer knows of quotas.
type QuotaStatus struct {
	Quotas         Quotas
	Records, Bytes int64 // of all logs; on a database that other servers write, as read last
	// since the start: what was refused beyond a quota, and of companies that are suspended
	RefusedByQuota, RefusedSuspended int64
}

// Obeyed returns what the control log says of the limits of a company, whose rows say has.
type Obeyed func(c *db.Conn, company int64, has Limits) (Limits, error)
