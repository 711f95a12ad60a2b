package store_test

import (
	"testing"

	"attestd/internal/must"
	"attestd/store/storetest"
)

// A webhook of an older schema, enabled or not, begins with what comes after the upgrade: it sends
// no earlier control record.
func TestUpgradedWebhookSendsNoOldControlRecord(t *testing.T) {
	t.Parallel()
	storetest.AboutFile(t)
	for _, version := range []string{"9", "10", "12"} {
		path, companies := written(t, version)
		db := other(t, path, `INSERT INTO webhook (company, webhook_id, url, created_at, public_key, fingerprint, secret, next_record, disabled_at)
			SELECT id, 'wh_' || company_id || kind, 'https://hooks.example/', '', zeroblob(32), '', zeroblob(64), 2, disabled
			FROM company, (SELECT 'on' kind, NULL disabled UNION SELECT 'off', '2026-03-04T05:06:07.008Z')`)
		ends := map[string]int64{}
		for id := range companies {
			var end int64
			must.OK(t, db.QueryRow(`SELECT length FROM head WHERE chain = -(SELECT id FROM company WHERE company_id = ?)`, id).Scan(&end))
			ends[id] = end
		}
		must.OK(t, db.Close())
		s := open(t, path)
		for id, end := range ends {
			c := got(s.Companies.Get(ctx, id))(t)
			for _, kind := range []string{"on", "off"} {
				if h := got(s.Webhooks.Get(ctx, by(c, now), "wh_"+id+kind))(t); h.Next != 2 || h.NextControl != end || end < 2 {
					t.Errorf("schema %s, %s: it begins with record %d, and control record %d of %d", version, id, h.Next, h.NextControl, end)
				}
			}
		}
		must.OK(t, s.Close())
	}
}
