package store

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"errors"
	"fmt"

	"attestd/chain"
	"attestd/crypto/keyring"
	"attestd/store/db"
)

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
