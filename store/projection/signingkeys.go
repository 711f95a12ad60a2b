package projection

import (
	"fmt"
	"time"

	"attestd/crypto/cred"
)

// TableSigningKey is the table as differences and records name it.
const TableSigningKey = "company_key"

// SigningKey is one of the keys that sign the company's records and tokens.
type SigningKey struct {
	Generation  int64  `json:"generation"`
	EndedAt     string `json:"endedAt"` // "" while it signs
	Compromised bool   `json:"compromised"`
}

// rotated ends the key before. A rotation after a theft declares those compromised too whose tokens
// may be valid still.
func (s *State) rotated(index int64, timestamp string, d *details) error {
	ended := d.EndedAt
	if ended == "" { // a record of a version that did not record it
		ended, s.endedBy[s.current] = timestamp, true
	}
	next := Entry[SigningKey]{Index: index}
	if before, is := s.SigningKeys[s.current]; is {
		next.Row.Generation = before.Row.Generation + 1
		before.Row.EndedAt, before.Index = ended, index
		s.SigningKeys[s.current] = before
	}
	if d.Compromised {
		at, err := time.Parse(time.RFC3339, ended)
		if err != nil {
			return fmt.Errorf("has no time: %w", err)
		}
		oldest := at.Add(-cred.MaxPassportTTL).UTC().Format(milliseconds)
		for name, k := range s.SigningKeys {
			if k.Row.EndedAt > oldest && !k.Row.Compromised {
				k.Row.Compromised, k.Index = true, index
				s.SigningKeys[name] = k
			}
		}
	}
	s.SigningKeys[d.Fingerprint], s.current = next, d.Fingerprint
	return nil
}

// setKey enters a signing key. The one that has not ended is the one that signs.
func (s *State) setKey(index int64, d *details) error {
	err := s.SigningKeys.set(index, d, false)
	delete(s.endedBy, d.Name)
	if k, is := s.SigningKeys[d.Name]; is && k.Row.EndedAt == "" {
		s.current = d.Name
	}
	return err
}

// signingKey takes a key by the fingerprint of its public part.
func (c Comparison) signingKey(fingerprint string, has SigningKey) *Difference {
	if !c.state.Complete() {
		delete(c.state.SigningKeys, fingerprint)
		return unrecorded(TableSigningKey, fingerprint, has)
	}
	compared := has
	if want := c.state.SigningKeys[fingerprint].Row.EndedAt; c.state.endedBy[fingerprint] && has.EndedAt != "" && has.EndedAt <= want {
		compared.EndedAt = want
	}
	d := c.state.SigningKeys.take(TableSigningKey, fingerprint, compared)
	if d != nil {
		d.Has = has
	}
	return d
}

// KeyOrigin is what the record that brought a signing key says of it, and of the key before.
type KeyOrigin struct {
	Fingerprint string
	// the row as it was adopted; nil for a key that a registration or a rotation brought
	Adopted *SigningKey
	// when the key before ended: at the latest, where Exact does not hold; "" where it is unknown
	PreviousEnded string
	Exact         bool
	Compromised   bool // the rotation was one after a theft
}

// KeyOrigin reads the record that brought a signing key.
func (l *Latest) KeyOrigin() (o KeyOrigin, err error) {
	adopted, _, is, err := row[SigningKey](l)
	if is {
		return KeyOrigin{Fingerprint: l.Payload.Name, Adopted: &adopted}, err
	}
	o = KeyOrigin{Fingerprint: l.Payload.Fingerprint, PreviousEnded: l.Payload.EndedAt, Exact: true, Compromised: l.Payload.Compromised}
	if o.PreviousEnded == "" {
		o.PreviousEnded, o.Exact = l.Timestamp, false
	}
	return o, nil
}
