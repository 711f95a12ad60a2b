package store

import (
	"context"
	"fmt"
	"time"

	"attestd/crypto/cred"
	"attestd/store/projection"
)

// Passports deletes passports that expired long ago, revoked ones too. A row that the control log
// describes may be missing only where a later record of its company shows that it had expired (see
// projection.PassportsGone), so a company that writes nothing keeps its last ones. A company that
// was rolled back, or whose tables differ, keeps all.
func (s Expired) Passports(ctx context.Context, w Sweep) error {
	if w.Keep.Passports == Forever {
		return nil
	}
	return s.sweep(ctx, "passports", w, func(now time.Time) error {
		for company, err := range s.companies.Numbers(ctx, 0) {
			if err != nil {
				return err
			}
			if s.db.intact(company) != nil {
				continue
			}
			newest, err := s.db.newestOf(ctx, company)
			if err != nil {
				return err
			}
			ended := min(now.Add(-w.Keep.Passports).Unix(), projection.PassportsGone(newest))
			// no passport is issued longer before its end, and there is an index by that time
			issued := ended - int64(cred.MaxPassportTTL/time.Second)
			err = s.delete(ctx, w, KindPassport,
				`SELECT 1 FROM passport WHERE company = ? AND issued_at <= ? AND expires_at <= ? LIMIT 1`,
				fmt.Sprintf(`DELETE FROM passport WHERE id IN (SELECT id FROM passport
					WHERE company = ? AND issued_at <= ? AND expires_at <= ? ORDER BY issued_at LIMIT %d)`, sweepRows),
				company, issued, ended)
			if err != nil {
				return err
			}
		}
		return nil
	})
}
