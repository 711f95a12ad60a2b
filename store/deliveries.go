package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"iter"
	"time"
)

// Delivery has all that is needed to send records to a webhook.
type Delivery struct {
	Webhook
	Company *Company
	Secret  []byte
	Former  []byte    // previous secret, which also signs until Until; nil for none
	Until   time.Time // end of Former
}

// Enabled yields the enabled webhooks of all companies that are not suspended.
func (s Webhooks) Enabled(ctx context.Context) iter.Seq2[EnabledWebhook, error] {
	scan := func(rows *sql.Rows) (e EnabledWebhook, err error) {
		err = rows.Scan(&e.row, &e.Company, &e.ID)
		return e, err
	}
	return list(ctx, s.db, "enabled webhooks", scan,
		`SELECT id, company, webhook_id FROM webhook WHERE disabled_at IS NULL AND id > ?
			AND NOT EXISTS (SELECT 1 FROM company_suspension s WHERE s.company = webhook.company AND suspended_at IS NOT NULL) ORDER BY id`,
		func(last EnabledWebhook) []any { return []any{last.row} })
}

// EnabledWebhook identifies a webhook and its company by number.
type EnabledWebhook struct {
	Company int64
	ID      string

	row int64
}

// Delivery reads what is needed to send records to a webhook of a company. It returns ErrNotFound,
// and ErrSuspended while nothing may be sent.
func (s Webhooks) Delivery(ctx context.Context, company int64, id string) (d Delivery, err error) {
	var secret, former []byte
	var until sql.NullInt64
	if d.Company, err = s.db.Companies.OfChain(ctx, company); err != nil {
		return Delivery{}, fmt.Errorf("delivery of a webhook: %w", err)
	}
	err = s.db.read(ctx, func(r *conn) error {
		if d.Webhook, err = findWebhook(r, company, id); err != nil {
			return err
		}
		if err := s.check(r, d.Company, id); err != nil {
			return err
		}
		if found, err := s.db.Companies.loadSuspension(r, d.Company); err != nil || found.At != "" {
			return cmp.Or(err, ErrSuspended)
		}
		return r.one([]any{&secret, &former, &until}, `SELECT secret, former_secret, former_until FROM webhook WHERE id = ?`,
			d.row)
	})
	if err == nil {
		d.Until = expiry(until)
		d.Secret, d.Former, err = s.db.secrets.OpenWebhook(company, id, secret, former)
	}
	if err != nil {
		return Delivery{}, fmt.Errorf("delivery of a webhook: %w", err)
	}
	return d, nil
}

// SaveProgress stores the progress of webhooks, by their IDs, in one transaction.
func (s Webhooks) SaveProgress(ctx context.Context, progress map[string]Progress) error {
	err := s.db.write(ctx, func(w *conn) error {
		for id, p := range progress {
			retry := sql.NullInt64{Int64: p.RetryAt.UnixMilli(), Valid: !p.RetryAt.IsZero()}
			if _, err := w.exec(`UPDATE webhook SET next_record = ?, next_control = ?, attempts = ?, retry_at = ? WHERE webhook_id = ?`,
				p.Next, p.NextControl, p.Failed, retry, id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("save the progress of webhooks: %w", err)
	}
	return nil
}
