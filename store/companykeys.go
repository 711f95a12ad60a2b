package store

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"attestd/chain"
	"attestd/crypto/cred"
	"attestd/crypto/keyring"
	"attestd/crypto/keys"
	"attestd/store/projection"
	"attestd/store/sqlite"
)

// MaxCompanyKeys is the maximum number of keys of a company over its lifetime: a new one each day
// for 27 years.
const MaxCompanyKeys = 10_000

// keysSchema is the first schema with the table company_key. In older schemas a company has one
// permanent key, with its seed in the company's row.
const keysSchema = 4

// KeyRing returns the origin of a log ("" in a file whose schema has no rotations) and all keys of
// its company since the log was created, oldest first, as stored. keyring.Flaws checks them. It
// returns ErrNotFound for an unknown company.
func (v *View) KeyRing(ctx context.Context, number int64) (origin string, ring []keyring.Key, err error) {
	err = v.read(ctx, func(r *conn) error {
		if v.store.schema.Load() < keysSchema {
			ring, err = oldKeyRing(r, number)
			return err
		}
		company, name := logOf(number)
		err = r.one([]any{&origin}, `SELECT coalesce(origin, '') FROM company LEFT JOIN log ON log.company = id
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

func (v *View) readKeyRing(r *conn, number int64) (ring []keyring.Key, err error) {
	company, _ := logOf(number)
	err = r.each(func(rows *sql.Rows) error {
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
		FROM `+v.since(twoLogs, "company_key JOIN log_key USING (generation)", ofOneLog("company_key"))+
		` WHERE company = ? AND chain = ? ORDER BY generation`, company, number)
	return ring, err
}

// oldKeyRing returns the only key of a company in a file of an older schema, which stores just the
// seed.
func oldKeyRing(r *conn, number int64) ([]keyring.Key, error) {
	var seed []byte
	var k keyring.Key
	if err := r.one([]any{&seed, &k.CreatedAt}, `SELECT seed, registered_at FROM company WHERE id = ?`,
		number); err != nil {
		return nil, err
	}
	if len(seed) == ed25519.SeedSize {
		k.Public = publicOf(seed)
	}
	return []keyring.Key{k}, nil
}

// KeySet implements chain.Reader. The action log, where the first key begins, proves which keys are
// the company's.
func (v *View) KeySet(ctx context.Context, number int64) (chain.KeySet, error) {
	origin, ring, err := v.KeyRing(ctx, number)
	if errors.Is(err, ErrNotFound) || err == nil && len(ring) == 0 {
		return nil, fmt.Errorf("keys of chain %d: %w", number, chain.ErrMissing)
	}
	if err != nil {
		return nil, err
	}
	flaws := keyring.Flaws(origin, ring)
	if company, name := logOf(number); name != Actions {
		// read after the other ring, or a key of it might be missing here
		first, all, err := v.KeyRing(ctx, Actions.ChainID(company))
		if err != nil {
			return nil, err
		}
		flaws = keyring.FlawsBeside(origin, ring, all, keyring.Flaws(first, all))
	}
	set := make(chain.KeySet, len(ring))
	for i, flaw := range flaws {
		set[i] = chain.KeyRange{From: ring[i].From, Key: ring[i].Public, Flaw: flaw}
	}
	return set, nil
}

// readKeys reads the keys of the records [from, to) without their proofs.
func readKeys(c *conn, number, from, to int64) (set chain.KeySet, err error) {
	company, _ := logOf(number)
	err = c.each(func(rows *sql.Rows) error {
		var r chain.KeyRange
		err := rows.Scan(&r.From, &r.Key)
		set = append(set, r)
		return err
	}, `SELECT first_record, public_key FROM log_key JOIN company_key USING (generation) WHERE chain = ?1 AND company = ?4 AND first_record < ?3
		AND generation >= (SELECT coalesce(max(generation), 0) FROM log_key WHERE chain = ?1 AND first_record <= ?2) ORDER BY generation`, number, from, to, company)
	return set, err
}

// findIssuer reads the keys that sign and verify a company's tokens, and its private key. Each key
// is checked against the control log.
func (s Companies) findIssuer(r *conn, c *Company) (_ *cred.Issuer, current ed25519.PrivateKey, err error) {
	number, id := c.Chain, c.ID
	var former []cred.Former
	var oldest time.Time // earliest end of a key that may still have valid tokens
	check := keyCheck{conn: r, company: c}
	enough := errors.New("older keys have no valid tokens")
	err = r.each(func(rows *sql.Rows) error {
		var generation int64
		var public, seed []byte
		var created string
		var ended, compromised sql.NullString
		if err := rows.Scan(&generation, &public, &seed, &created, &ended, &compromised); err != nil {
			return err
		}
		check.keys = append(check.keys, ringKey{generation, public, ended.String, compromised.Valid})
		if current == nil {
			began, err := parseTime(created)
			if err == nil {
				current, err = s.db.secrets.PrivateKey(number, generation, seed, public)
			}
			// A key that ended a day or more before this key began has no valid tokens while this
			// key signs.
			oldest = began.Add(-cred.MaxPassportTTL)
			return err
		}
		end, err := parseTime(ended.String)
		switch {
		case err != nil:
			return err
		case len(public) != ed25519.PublicKeySize:
			return fmt.Errorf("%w: a public key of %d bytes", ErrCorrupt, len(public))
		case !end.After(oldest):
			return enough
		case !compromised.Valid:
			former = append(former, cred.Former{Key: public, Ended: end})
		}
		return nil
	}, `SELECT generation, public_key, seed, created_at, ended_at, compromised_at FROM company_key WHERE company = ?
		ORDER BY generation DESC`, number)
	if err == nil && current == nil {
		err = fmt.Errorf("%w: it has no key", ErrCorrupt)
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
	return cred.NewIssuer(s.db.settings.Domain, id, current, &s.db.verified, former...), current, nil
}

func publicOf(seed []byte) ed25519.PublicKey {
	return ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
}

func parseTime(text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return at, nil
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
		if k.seed == nil || !s.unsealed {
			return ""
		}
		if _, err := s.secrets.PrivateKey(c.Chain, k.generation, k.seed, k.public); err != nil {
			return "its private part is of another key"
		}
		return ""
	},
}

// insertFirstKey inserts the first key of a new company.
func (s Companies) insertFirstKey(w *conn, company int64, private ed25519.PrivateKey, createdAt string) error {
	return s.insertKey(w, company, 0, private, createdAt)
}

func (s Companies) insertKey(w *conn, company, generation int64, private ed25519.PrivateKey, createdAt string) error {
	_, err := signingKeys.insert(w, &storedSigningKey{company: company, generation: generation, public: private.Public().(ed25519.PublicKey),
		seed: s.db.secrets.KeepSeed(company, generation, private), createdAt: createdAt}, "")
	return err
}

// registerFunctions registers the SQL function that upgrades and comparisons with older files need.
// It returns the public key of a seed.
func registerFunctions() {
	sqlite.DefineFunction("ed25519_public", 1, func(args []driver.Value) (driver.Value, error) {
		seed, ok := args[0].([]byte)
		if !ok || len(seed) != ed25519.SeedSize {
			return nil, errors.New("not the seed of an Ed25519 key")
		}
		return []byte(publicOf(seed)), nil
	})
}
