package store

import (
	"database/sql"
	"errors"
	"fmt"

	"attestd/chain"
	"attestd/crypto/cred"
	"attestd/crypto/keys"
	"attestd/store/db"
	"attestd/store/projection"
)

// check compares the row of a company, and the names of its logs, with its control log, and sets
// c.complete. latest is the newest record about the company.
func (s companyCache) check(r *db.Conn, c *Company, metadata sql.NullString, latest sql.NullInt64) error {
	// the first record always names the company
	first, err := controlRecord(r, c, sql.NullInt64{Int64: db.RecordID(c.Control.Chain, 0), Valid: true})
	if errors.Is(err, db.ErrNotFound) {
		return nil // nothing was recorded yet
	}
	if err != nil {
		return s.db.noted(c, err)
	}
	newest, err := controlRecord(r, c, latest)
	if err != nil {
		return s.db.noted(c, err)
	}
	if !newest.Tells() {
		if first.Tells() {
			return s.db.noted(c, changedTables(c,
				&projection.Difference{Table: projection.TableCompany, Index: first.Index,
					What: "is not the company that was registered"}))
		}
		return nil
	}
	c.complete = true
	return s.db.checked(c, newest.Company(projection.Company{
		RegisteredAt: c.RegisteredAt, MetadataHash: hashOf(rawOrNil(metadata)), Actions: c.Actions.Origin, Control: c.Control.Origin,
	}))
}

// noted remembers a *TablesChangedError of a company.
func (s *base) noted(c *Company, err error) error {
	if errors.Is(err, ErrTablesChanged) {
		s.changed.add(c.Chain, err)
	}
	return err
}

// ringKey is a row of company_key.
type ringKey struct {
	generation  int64
	public      []byte
	ended       string
	compromised bool
}

// keyCheck compares the relevant keys of a company, newest first, with the control log.
type keyCheck struct {
	*db.Conn
	company *Company
	keys    []ringKey

	// end of the current key according to the record of the next one; "" if unknown
	endedAt string
	exact   bool
	// keys that ended later are compromised; "" if no rotation declared it
	compromisedFrom string
}

// difference returns the first difference. Each key but the first came with a rotation, which has a
// record about it.
func (k *keyCheck) difference() (*projection.Difference, error) {
	for _, key := range k.keys {
		name := keys.Describe(key.public).Fingerprint
		origin, index, err := k.origin(key)
		if err != nil {
			return nil, err
		}
		if origin == nil {
			if k.company.complete {
				return &projection.Difference{Table: projection.TableSigningKey, Row: name, Index: -1,
					What: "no control record tells of it", Has: key}, nil
			}
			k.endedAt = ""
			continue
		}
		if what := k.wrong(key, name, origin); what != "" {
			return &projection.Difference{Table: projection.TableSigningKey, Row: name, Index: index, What: what}, nil
		}
		k.endedAt, k.exact = origin.PreviousEnded, origin.Exact
		if at, err := db.ParseTime(origin.PreviousEnded); err == nil && origin.Compromised {
			k.compromisedFrom = chain.FormatTime(at.Add(-cred.MaxPassportTTL))
		}
	}
	return nil, nil
}

func (k *keyCheck) wrong(key ringKey, name string, origin *projection.KeyOrigin) string {
	switch adopted := origin.Adopted; {
	case origin.Fingerprint != name:
		return "its public key is another one than the control log says"
	case k.endedAt != "" && (key.ended == "" || key.ended > k.endedAt || k.exact && key.ended != k.endedAt):
		return fmt.Sprintf("it ended at %q, and the control log says %q", key.ended, k.endedAt)
	case k.compromisedFrom != "" && key.ended > k.compromisedFrom && !key.compromised, adopted != nil &&
		adopted.Compromised && !key.compromised:
		return "it was declared compromised, and the table does not say so"
	case adopted != nil && adopted.EndedAt != "" && adopted.EndedAt != key.ended:
		return fmt.Sprintf("it ended at %q, and the control log says %q", key.ended, adopted.EndedAt)
	}
	return ""
}

// origin returns what the control log says about the creation of a key, or nil.
func (k *keyCheck) origin(key ringKey) (*projection.KeyOrigin, int64, error) {
	for _, subject := range []string{signingKeys.about(keys.Describe(key.public).KID), subjectCompany(k.company.ID)} {
		var id sql.NullInt64
		err := k.One([]any{&id}, `SELECT `+aboutSubject("CAST(?1 AS BIGINT)", "?2", "", "ASC"), k.company.Chain, subject)
		if err != nil {
			return nil, -1, err
		}
		l, err := controlRecord(k.Conn, k.company, id)
		if err != nil {
			return nil, -1, err
		}
		if l != nil && l.Action() != projection.TablesAdopted {
			o, err := l.KeyOrigin()
			return &o, l.Index, err
		}
		if key.generation > 0 { // the registration names only the first key
			break
		}
	}
	return nil, -1, nil
}
