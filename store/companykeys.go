package store

import (
	"crypto/ed25519"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"attestd/crypto/cred"
	"attestd/crypto/keys"
	"attestd/store/db"
	"attestd/store/projection"
)

// findIssuer reads the keys that sign and verify a company's tokens, and its private key. Each key
// is checked against the control log.
func (s companyCache) findIssuer(r *db.Conn, c *Company) (_ *cred.Issuer, current ed25519.PrivateKey, err error) {
	number, id := c.Chain, c.ID
	var former []cred.Former
	var oldest time.Time // earliest end of a key that may still have valid tokens
	check := keyCheck{Conn: r, company: c}
	enough := errors.New("older keys have no valid tokens")
	err = r.Each(func(rows *sql.Rows) error {
		var generation int64
		var public, seed []byte
		var created string
		var ended, compromised sql.NullString
		if err := rows.Scan(&generation, &public, &seed, &created, &ended, &compromised); err != nil {
			return err
		}
		check.keys = append(check.keys, ringKey{generation, public, ended.String, compromised.Valid})
		if current == nil {
			began, err := db.ParseTime(created)
			if err == nil {
				current, err = s.db.Secrets().PrivateKey(number, generation, seed, public)
			}
			// A key that ended a day or more before this key began has no valid tokens while this
			// key signs.
			oldest = began.Add(-cred.MaxPassportTTL)
			return err
		}
		end, err := db.ParseTime(ended.String)
		switch {
		case err != nil:
			return err
		case len(public) != ed25519.PublicKeySize:
			return fmt.Errorf("%w: a public key of %d bytes", db.ErrCorrupt, len(public))
		case !end.After(oldest):
			return enough
		case !compromised.Valid:
			former = append(former, cred.Former{Key: public, Ended: end})
		}
		return nil
	}, `SELECT generation, public_key, seed, created_at, ended_at, compromised_at FROM company_key WHERE company = ?
		ORDER BY generation DESC`, number)
	if err == nil && current == nil {
		err = fmt.Errorf("%w: it has no key", db.ErrCorrupt)
	}
	if err == nil || errors.Is(err, enough) {
		var d *projection.Difference
		if d, err = check.difference(); err == nil {
			err = s.db.checked(c, d)
		} else {
			err = s.db.noted(c, err)
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("keys of company %q: %w", id, err)
	}
	return cred.NewIssuer(s.db.Domain(), id, current, s.verified, former...), current, nil
}

// storedSigningKey is a row of company_key.
type storedSigningKey struct {
	company, generation int64
	public, seed        []byte // the seed is nil once the key signs no more
	createdAt           string
	endedAt             string // "" while it signs
	compromisedAt       string // "" unless it was declared compromised
}

var signingKeys = right[storedSigningKey, projection.SigningKey]{
	table: projection.TableSigningKey, subject: "signing-key:", title: "generation", order: "generation",
	columns: func(k *storedSigningKey) []column {
		return []column{
			plain("company", &k.company), plain("generation", &k.generation), plain("public_key", &k.public), optional("seed", &k.seed),
			plain("created_at", &k.createdAt), optional("ended_at", &k.endedAt), optional("compromised_at", &k.compromisedAt),
		}
	},
	row: func(k *storedSigningKey) projection.SigningKey {
		return projection.SigningKey{Generation: k.generation, EndedAt: k.endedAt, Compromised: k.compromisedAt != ""}
	},
	name: func(k *storedSigningKey) string { return keys.Describe(k.public).Fingerprint },
	wrong: func(s *base, c *Company, k *storedSigningKey) string {
		if k.seed == nil || !s.IsUnsealed() {
			return ""
		}
		if _, err := s.Secrets().PrivateKey(c.Chain, k.generation, k.seed, k.public); err != nil {
			return "its private part is of another key"
		}
		return ""
	},
}
