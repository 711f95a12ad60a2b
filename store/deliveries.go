package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"time"

	"attestd/store/db"
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
	return db.List(ctx, s.db.DB, "enabled webhooks", scan,
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
	var row macRow
	if d.Company, err = s.companies.OfChain(ctx, company); err != nil {
		return Delivery{}, fmt.Errorf("delivery of a webhook: %w", err)
	}
	err = s.db.Read(ctx, func(r *db.Conn) error {
		if d.Webhook, row, err = s.find(r, company, id); err != nil {
			return err
		}
		if err := s.check(r, d.Company, id); err != nil {
			return err
		}
		found, err := s.companies.loadSuspension(r, d.Company)
		if err == nil && found.At != "" {
			err = ErrSuspended
		}
		return err
	})
	if err == nil {
		d.Until = expiry(row.optional("former_until"))
		d.Secret, d.Former, err = s.db.Secrets().OpenWebhook(company, id, row.bytes("secret"), row.bytes("former_secret"))
	}
	if err != nil {
		return Delivery{}, fmt.Errorf("delivery of a webhook: %w", err)
	}
	return d, nil
}

// SaveProgress stores the progress of webhooks, by their IDs, in one transaction. It leaves alone a
// row that is not what its HMAC says, which Tables.Changed reports then, and every row when the
// duty to deliver has gone to another server.
func (s Webhooks) SaveProgress(ctx context.Context, duty *db.Held, progress map[string]Progress) error {
	mine, args := duty.Fence()
	s.keys.knowTokenKey(ctx)
	err := s.db.Write(ctx, func(w *db.Conn) error {
		k, err := s.keys.rowKey(w)
		if err != nil {
			return err
		}
		for id, p := range progress {
			r, err := db.Row(w, webhookTable.scan, "SELECT "+webhookTable.all()+" FROM webhook WHERE webhook_id = ?", id)
			switch {
			case errors.Is(err, db.ErrNotFound): // deleted meanwhile
				continue
			case err == nil:
				err = s.keys.authentic(w, &k, &r)
			}
			if errors.Is(err, ErrTablesChanged) {
				continue
			}
			retry := sql.NullInt64{Int64: p.RetryAt.UnixMilli(), Valid: !p.RetryAt.IsZero()}
			if err == nil {
				err = s.keys.changeIf(w, &r, mine, args, "next_record = ?, next_control = ?, attempts = ?, retry_at = ?",
					p.Next, p.NextControl, p.Failed, retry)
			}
			if err != nil {
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
