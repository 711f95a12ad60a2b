package store

import (
	"context"
	"fmt"

	"attestd/store/db"
	"attestd/store/projection"
)

// ResealWebhooks replaces the stored secrets of all webhooks, each of whose rows must be what its
// HMAC says. reseal returns how the secret of a webhook of a company and the one before are stored
// from now on.
func (s Tables) ResealWebhooks(w *db.Conn, reseal func(company int64, id string, secret, former []byte) (newSecret, newFormer []byte, err error)) error {
	k, err := s.keys.rowKey(w)
	if err != nil {
		return err
	}
	rows, err := db.All(w, webhookTable.scan, `SELECT `+webhookTable.all()+` FROM webhook`)
	for i := 0; err == nil && i < len(rows); i++ {
		r := &rows[i]
		if err = s.keys.authentic(w, &k, r); err != nil {
			break
		}
		var secret, former []byte
		secret, former, err = reseal(r.number("company"), r.text("webhook_id"), r.bytes("secret"), r.bytes("former_secret"))
		if err == nil {
			err = s.keys.change(w, r, "secret = ?, former_secret = ?", secret, former)
		}
	}
	return err
}

// readMACs checks the HMACs of all rows of the company.
func (r *comparison) readMACs(ctx context.Context) error {
	required := r.state.Settings[projection.SettingRowKey] != ""
	for _, t := range macTables {
		if err := r.readMACsOf(ctx, t, required); err != nil {
			return err
		}
	}
	return nil
}

func (r *comparison) readMACsOf(ctx context.Context, t *macTable, required bool) error {
	query := fmt.Sprintf(`SELECT %s FROM %s WHERE company = ? AND %s > ? ORDER BY %s LIMIT %d`, t.all(), t.name, t.columns[0], t.columns[0], tablePage)
	for after, n := any(int64(0)), tablePage; n == tablePage; {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := r.tables.db.Read(ctx, func(c *db.Conn) error {
			k, err := r.tables.keys.rowKey(c)
			if err != nil {
				return err
			}
			k.required = k.required || required
			page, err := db.All(c, t.scan, query, r.company.Chain, after)
			if n = len(page); n > 0 {
				after = page[n-1].values[0]
			}
			for i := range page {
				r.add(k.difference(&page[i]))
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
