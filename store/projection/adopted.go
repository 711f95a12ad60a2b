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
	case TableAPIKey:
		return enter(s.APIKeys, index, d)
	case TableClient:
		return enter(s.Clients, index, d)
	case TableAgent:
		return enter(s.Agents, index, d)
	case TablePassport:
		return enter(s.Passports, index, d)
	case TableWebhook:
		return enter(s.Webhooks, index, d)
	case TableAgentKey:
		return enter(s.AgentKeys, index, d)
	case TableTokenKey:
		return enter(s.TokenKeys, index, d)
	case TableEnrolment:
		return enter(s.Enrolments, index, d)
	case TableFederation:
		return enter(s.Federations, index, d)
	case TablePolicy:
		return enterAny(s.Policies, index, d)
	case TableCompanyPolicy:
		return enterAny(s.CompanyPolicies, index, d)
	case TableSuspension:
		return enterAny(s.Suspensions, index, d)
	case TableQuota:
		return enterAny(s.Quotas, index, d)
	case TableName:
		s.Names[d.Name] = true
		return nil
	case TableSession: // follows from the actions
		return nil
	}
	return fmt.Errorf("is about a table %q, which is unknown", d.Table)
}

func enter[R comparable](rows map[string]Entry[R], index int64, d *details) error {
	if string(d.Row) == "null" {
		delete(rows, d.Name)
		return nil
	}
	return put(rows, d.Name, index, func() (row R, err error) {
		err = json.Unmarshal(d.Row, &row)
		return row, err
	})
}

// enterAny enters a row whose name may be "", which stands for the company.
func enterAny[R comparable](rows map[string]Entry[R], index int64, d *details) error {
	if string(d.Row) == "null" {
		delete(rows, d.Name)
		return nil
	}
	var row R
	err := json.Unmarshal(d.Row, &row)
	rows[d.Name] = Entry[R]{row, index}
	return err
}

// setKey enters a signing key. The one that has not ended is the one that signs.
func (s *State) setKey(index int64, d *details) error {
	err := enter(s.SigningKeys, index, d)
	delete(s.endedBy, d.Name)
	if k, is := s.SigningKeys[d.Name]; is && k.Row.EndedAt == "" {
		s.current = d.Name
	}
	return err
}
