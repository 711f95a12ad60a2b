package projection

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
)

// TableCompany is the table as differences and records name it.
const TableCompany = "company"

// Company is the row of the company itself.
type Company struct {
	RegisteredAt string `json:"registeredAt"`
	MetadataHash string `json:"metadataHash"` // SHA-256 in hex; "" for none
	Actions      string `json:"actions"`      // origin of the log
	Control      string `json:"control"`
}

func (d *details) origins() (actions, control string, err error) {
	var origins struct {
		Actions string `json:"actions"`
		Control string `json:"control"`
	}
	if err := json.Unmarshal(d.Logs, &origins); err != nil {
		return "", "", fmt.Errorf("logs: %w", err)
	}
	return origins.Actions, origins.Control, nil
}

func (s *State) registered(index int64, d *details) error {
	if index != 0 {
		return fmt.Errorf("is not the first of its log")
	}
	actions, control, err := d.origins()
	if err != nil {
		return err
	}
	s.whole = true
	s.Company = Entry[Company]{Company{d.RegisteredAt, valueOf(d.MetadataHash), actions, control}, index}
	s.SigningKeys[d.Fingerprint], s.current = Entry[SigningKey]{Index: index}, d.Fingerprint
	for name, value := range d.Settings {
		s.Settings[name] = value
	}
	s.identified(d.RegisteredAt)
	return nil
}

// adopt reads the row of the company itself from the record that ends an adoption or an operator's
// decision.
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

// Company compares the row of the company.
func (c Comparison) Company(has Company) *Difference {
	if !c.state.Complete() {
		return unrecorded(TableCompany, "", has)
	}
	return differs(TableCompany, "", has, c.state.Company)
}

// Company compares the row of a company with its registration, or with what was adopted or accepted
// of it since.
func (l *Latest) Company(has Company) *Difference {
	want, err := l.company()
	return l.compare(TableCompany, "", false, err, func() *Difference { return differs(TableCompany, "", has, Entry[Company]{want, l.Index}) })
}

func (l *Latest) company() (want Company, err error) {
	if l.ActionType != "company.registered" {
		err = json.Unmarshal(l.Payload.Row, &want)
		return want, err
	}
	want = Company{RegisteredAt: l.Payload.RegisteredAt, MetadataHash: valueOf(l.Payload.MetadataHash)}
	want.Actions, want.Control, err = l.Payload.origins()
	return want, err
}

// Tells reports whether a log that has this record about its company describes every row.
func (l *Latest) Tells() bool {
	return l != nil && (l.ActionType == "company.registered" || l.ActionType == TablesAdopted || l.ActionType == TablesAccepted)
}
