package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"

	"attestd/store/db"
	"attestd/store/projection"
)

// Look detects external writes of the file, which ExternalWrites counts, although this process
// writes nothing. It does nothing on PostgreSQL, where other servers write.
func (s Tables) Look(ctx context.Context) error {
	if s.db.IsReadOnly() || s.db.MultiWriter() {
		return nil
	}
	return s.db.Write(ctx, func(*db.Conn) error { return nil })
}

// RowsAreSigned reports whether the control logs demand that each row which may have an HMAC has
// one.
func (s Tables) RowsAreSigned() bool { return s.keys.required.Load() }

// WebhookWatch knows the rows of webhooks that were compared. Its zero value knows none.
type WebhookWatch struct {
	compared map[webhookName][sha256.Size]byte // a hash of what a delivery does not change
}

type webhookName struct {
	company int64
	id      string
}

// CheckWebhooks compares the rows of all webhooks with their HMACs, and those that are new to a
// watch, have changed or are gone with the control logs. A difference is remembered: see Changed.
// The servers obey these rows without a request, so the watch compares them.
func (s Tables) CheckWebhooks(ctx context.Context, w *WebhookWatch) error {
	now := map[webhookName][sha256.Size]byte{}
	for after, n := any(int64(0)), tablePage; n == tablePage; {
		var page []macRow
		err := s.db.Read(ctx, func(c *db.Conn) (err error) {
			k, err := s.keys.rowKey(c)
			if err != nil {
				return err
			}
			page, err = db.All(c, webhookTable.scan, fmt.Sprintf(`SELECT %s FROM webhook WHERE id > ? ORDER BY id LIMIT %d`, webhookTable.all(), tablePage), after)
			for i := 0; err == nil && i < len(page); i++ {
				if wrong := s.keys.authentic(c, &k, &page[i]); !errors.Is(wrong, ErrTablesChanged) {
					err = wrong
				}
			}
			return err
		})
		if err != nil {
			return err
		}
		if n = len(page); n > 0 {
			after = page[n-1].values[0]
		}
		for i := range page {
			name := webhookName{page[i].number("company"), page[i].text("webhook_id")}
			if now[name] = page[i].still(); now[name] != w.compared[name] {
				if err := s.checkWebhook(ctx, name); err != nil {
					return err
				}
			}
		}
	}
	for name := range w.compared {
		if _, is := now[name]; !is {
			if err := s.checkWebhook(ctx, name); err != nil {
				return err
			}
		}
	}
	w.compared = now
	return nil
}

// still hashes what of a webhook no delivery changes.
func (r *macRow) still() [sha256.Size]byte {
	same := macRow{table: r.table, values: append([]any(nil), r.values...)}
	for i, column := range r.table.columns {
		switch column {
		case "next_record", "next_control", "attempts", "retry_at":
			same.values[i] = nil
		}
	}
	return [sha256.Size]byte(same.sum(nil))
}

// checkWebhook compares the row of a webhook, or that there is none, with the control log.
func (s Tables) checkWebhook(ctx context.Context, name webhookName) error {
	c, err := s.companies.OfChain(ctx, name.company)
	if err == nil {
		err = s.db.Read(ctx, func(r *db.Conn) error {
			err := s.webhooks.check(r, c, name.id)
			if !errors.Is(err, db.ErrNotFound) {
				return err
			}
			var id sql.NullInt64
			if err := r.One([]any{&id}, `SELECT `+aboutSubject("CAST(?1 AS BIGINT)", "?2", "", "DESC"), c.Chain, webhookTable.about(name.id)); err != nil {
				return err
			}
			l, err := controlRecord(r, c, id)
			if err != nil || l == nil || l.Action() == string(WebhookDeleted) {
				return err
			}
			return changedTables(c, &projection.Difference{Table: projection.TableWebhook, Row: name.id, Index: l.Index,
				What: fmt.Sprintf("is missing, and control record %d tells of it", l.Index)})
		})
	}
	if errors.Is(err, ErrTablesChanged) {
		_ = s.db.noted(&Company{Chain: name.company}, err)
		return nil
	}
	if errors.Is(err, db.ErrNotFound) { // a company that is gone, which verification reports
		return nil
	}
	return err
}

// ExternalWrites returns the number of external writes of the file that this process has detected.
// On PostgreSQL nothing reveals them.
func (s Tables) ExternalWrites() int64 { return s.db.Names().Now() }

// Doubted has a token after an external write of the file, or when a company waits for the
// comparison of its names. Waiting says which companies wait.
func (s Tables) Doubted() <-chan struct{} { return s.db.Names().Wake }

// Waiting returns the companies that wait for the comparison of their names, by number, and forgets
// them.
func (s Tables) Waiting() (numbers []int64) {
	for _, number := range s.db.Names().Drain() {
		company, _ := db.LogOf(number)
		numbers = append(numbers, company)
	}
	return numbers
}

// CheckIdentity compares what the database says that it is with the control log, and with what this
// process has read at its start, and looks at what the next start is to record. A difference is a
// *TablesChangedError, is remembered, and stops the changes of all companies.
func (s Tables) CheckIdentity(ctx context.Context) error {
	return s.db.Read(ctx, func(c *db.Conn) error {
		logged, _, err := loggedSettings(c, installation())
		if err != nil {
			return s.db.noted(theDatabase, err)
		}
		has, err := s.keys.readIdentity(c)
		if err != nil {
			return err
		}
		d := logged.Fixed(has)
		if d == nil {
			now := projection.New(db.InstallationID)
			now.Settings = map[string]string{projection.SettingService: s.db.Domain().Service, projection.SettingTrustDomain: s.db.Domain().TrustDomain}
			d = now.Fixed(has)
		}
		if d != nil {
			return s.db.noted(theDatabase, changedTables(theDatabase, d))
		}
		waiting, err := ReadUnrecorded(c)
		for i := 0; err == nil && i < len(waiting); i++ {
			err = waiting[i].check()
		}
		if err != nil {
			return s.db.noted(theDatabase, err)
		}
		s.db.changed.remove(theDatabase.Chain)
		return nil
	})
}

// Changeable returns nil if the caller's company may be changed, a *RolledBackError if one of its
// logs was rolled back, a *TablesChangedError if its tables differ from its control log, or
// ErrSuspended. Operations that change rights or issue tokens call it first.
func (s Tables) Changeable(ctx context.Context, by Caller) error {
	return s.companies.changeable(ctx, by)
}

// Changed returns the first difference of each company that has one, each a *TablesChangedError.
func (s Tables) Changed() []error { return s.db.changed.all() }

// Differing returns the numbers of the companies that have a difference, with the lengths of their
// control logs: a longer one may say what the tables have.
func (s Tables) Differing(ctx context.Context) (map[int64]int64, error) {
	lengths := map[int64]int64{}
	for _, number := range s.db.changed.companies() {
		head, _, err := s.db.now.Tip(ctx, ControlChain(number))
		if err != nil {
			return nil, err
		}
		lengths[number] = head.Length
	}
	return lengths, nil
}
