package store

import (
	"database/sql"
	"fmt"

	"attestd/chain"
	"attestd/crypto/cred"
	"attestd/crypto/keys"
	"attestd/store/db"
	"attestd/store/projection"
)

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
