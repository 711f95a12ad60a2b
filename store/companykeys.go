package store

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"attestd/chain"
	"attestd/crypto/cred"
	"attestd/crypto/keyring"
	"attestd/crypto/keys"
	"attestd/store/db"
	"attestd/store/projection"
)

// MaxCompanyKeys is the maximum number of keys of a company over its lifetime: a new one each day
// for 27 years.
const MaxCompanyKeys = 10_000

// KeyRing returns the origin of a log ("" in a file whose schema has no rotations) and all keys of
// its company since the log was created, oldest first, as stored. keyring.Flaws checks them. It
// returns ErrNotFound for an unknown company.
func (v *View) KeyRing(ctx context.Context, number int64) (origin string, ring []keyring.Key, err error) {
	err = v.Read(ctx, func(r *db.Conn) error {
		if v.Schema() < db.KeysSchema {
			ring, err = oldKeyRing(r, number)
			return err
		}
		company, name := db.LogOf(number)
		err = r.One([]any{&origin}, `SELECT coalesce(origin, '') FROM company LEFT JOIN log ON log.company = id
			AND name = ? WHERE id = ?`, name, company)
		if err == nil {
			ring, err = v.readKeyRing(r, number)
		}
		return err
	})
	if err != nil {
		return "", nil, fmt.Errorf("keys of chain %d: %w", number, err)
	}
	return origin, ring, nil
}

func (v *View) readKeyRing(r *db.Conn, number int64) (ring []keyring.Key, err error) {
	company, _ := db.LogOf(number)
	err = r.Each(func(rows *sql.Rows) error {
		k := keyring.Key{Rotation: new(keyring.Rotation)}
		var ended, compromised, statement sql.NullString
		err := rows.Scan(&k.Generation, &k.Public, &k.From, &k.CreatedAt, &ended, &compromised,
			&statement, &k.Rotation.OldSignature, &k.Rotation.NewSignature)
		k.EndedAt, k.CompromisedAt, k.Rotation.Statement = ended.String, compromised.String, statement.String
		if !statement.Valid {
			k.Rotation = nil
		}
		ring = append(ring, k)
		return err
	}, `SELECT generation, public_key, first_record, created_at, ended_at, compromised_at, statement, old_signature, new_signature
		FROM `+v.Since(db.TwoLogs, "company_key JOIN log_key USING (generation)", db.OfOneLog("company_key"))+
		` WHERE company = ? AND chain = ? ORDER BY generation`, company, number)
	return ring, err
}

// oldKeyRing returns the only key of a company in a file of an older schema, which stores just the
// seed.
func oldKeyRing(r *db.Conn, number int64) ([]keyring.Key, error) {
	var seed []byte
	var k keyring.Key
	if err := r.One([]any{&seed, &k.CreatedAt}, `SELECT seed, registered_at FROM company WHERE id = ?`,
		number); err != nil {
		return nil, err
	}
	if len(seed) == ed25519.SeedSize {
		k.Public = db.PublicOf(seed)
	}
	return []keyring.Key{k}, nil
}

// KeySet implements chain.Reader. The action log, where the first key begins, proves which keys are
// the company's.
func (v *View) KeySet(ctx context.Context, number int64) (chain.KeySet, error) {
	origin, ring, err := v.KeyRing(ctx, number)
	if errors.Is(err, db.ErrNotFound) || err == nil && len(ring) == 0 {
		return nil, fmt.Errorf("keys of chain %d: %w", number, chain.ErrMissing)
	}
	if err != nil {
		return nil, err
	}
	flaws := keyring.Flaws(origin, ring)
	if company, name := db.LogOf(number); name != db.Actions {
		// read after the other ring, or a key of it might be missing here
		first, all, err := v.KeyRing(ctx, db.Actions.ChainID(company))
		if err != nil {
			return nil, err
		}
		flaws = keyring.FlawsWithProven(origin, ring, all, keyring.Flaws(first, all))
	}
	set := make(chain.KeySet, len(ring))
	for i, flaw := range flaws {
		set[i] = chain.KeyRange{From: ring[i].From, Key: ring[i].Public, Flaw: flaw}
	}
	return set, nil
}

// findIssuer reads the keys that sign and verify a company's tokens, and its private key. Each key
// is checked against the control log.
func (s Companies) findIssuer(r *db.Conn, c *Company) (_ *cred.Issuer, current ed25519.PrivateKey, err error) {
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
			err = s.db.Tables.checked(c, d)
		} else {
			err = s.db.Tables.noted(c, err)
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
	wrong: func(s *Store, c *Company, k *storedSigningKey) string {
		if k.seed == nil || !s.IsUnsealed() {
			return ""
		}
		if _, err := s.Secrets().PrivateKey(c.Chain, k.generation, k.seed, k.public); err != nil {
			return "its private part is of another key"
		}
		return ""
	},
}

// insertFirstKey inserts the first key of a new company.
func (s Companies) insertFirstKey(w *db.Conn, company int64, private ed25519.PrivateKey, createdAt string) error {
	return s.insertKey(w, company, 0, private, createdAt)
}

func (s Companies) insertKey(w *db.Conn, company, generation int64, private ed25519.PrivateKey, createdAt string) error {
	_, err := signingKeys.insert(w, &storedSigningKey{company: company, generation: generation, public: private.Public().(ed25519.PublicKey),
		seed: s.db.Secrets().KeepSeed(company, generation, private), createdAt: createdAt}, "")
	return err
}
