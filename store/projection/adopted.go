package projection

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
)

// adopt takes the row of the company itself, which stands in the record that ends an adoption or an
// operator's decision.
func (s *State) adopt(index int64, timestamp, action string, d *details) error {
	if action == TablesAdopted {
		at, err := time.Parse(time.RFC3339, timestamp)
		if err != nil {
			return fmt.Errorf("has no time: %w", err)
		}
		s.adopted, s.adoptedAt = true, at.Unix()
	}
	s.Company.Index = index
	return json.Unmarshal(d.Row, &s.Company.Row)
}

// set enters a row as a record holds it whole.
func (s *State) set(index int64, d *details) error {
	switch d.Table {
	case TableCompany:
		return json.Unmarshal(d.Row, &s.Company.Row)
	case TableSigningKey:
		return s.setKey(index, d)
	case TableName:
		s.Names[d.Name] = true
		return nil
	case TableSession: // follows from the actions
		return nil
	}
	for _, t := range s.tables() {
		if t.name == d.Table {
			return t.rows.set(index, d, t.ofCompany)
		}
	}
	return fmt.Errorf("is about a table %q, which is unknown", d.Table)
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
