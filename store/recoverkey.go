package store

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"attestd/crypto/keys"
	"attestd/store/db"
)

// The ways to show a key again, as named in the control record.
const (
	RecoveredByHTTP    = "http"
	RecoveredByCommand = "command line"
)

// RecoverKey returns the key of FirstKey, and records in its control log that the key
// was shown, and in which way. It returns ErrNotFound for an unknown company, and no key if the
// record cannot be written.
func (s Credentials) RecoverKey(ctx context.Context, companyID, via string, at time.Time) (APIKey, error) {
	key, err := s.FirstKey(ctx, companyID)
	if err != nil {
		return APIKey{}, err
	}
	c, err := s.companies.Get(ctx, companyID)
	if err != nil {
		return APIKey{}, err
	}
	if err = s.db.haltedChain(c.Control.Chain); err == nil {
		err = s.db.recorded(ctx, Caller{Company: c, At: at}, s.db.Change, func(*db.Conn) ([]controlEvent, error) {
			u := UnrecordedKey(companyID, key, via)
			return []controlEvent{{u.Action, u.Subject, u.Details}}, nil
		})
	}
	if err != nil {
		return APIKey{}, fmt.Errorf("record that a key of company %q is shown: %w", companyID, err)
	}
	return key, nil
}

// UnrecordedKey returns the pending control record about a shown key.
func UnrecordedKey(companyID string, key APIKey, via string) Unrecorded {
	fingerprint := keys.Fingerprint(sha256.Sum256([]byte(key.Key)))
	return Unrecorded{Action: APIKeyRecovered, Company: companyID, Subject: subjectRecovery(fingerprint),
		Details: map[string]any{"fingerprint": fingerprint, "via": via}}
}
