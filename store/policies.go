package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"attestd/store/projection"
)

// What a policy lets be recorded in an agent's name.
const (
	AttestAny = "any" // whatever a credential of the company says
	AttestKey = "key" // what one of the agent's keys has signed
)

// Set sets the policy of an agent, or with "" that of the company for all its agents. ErrNotFound
// of the agent.
func (s Policies) Set(ctx context.Context, by Caller, agentID, attest string) error {
	defer s.db.policies.forget() // whatever the outcome
	err := s.db.controlled(ctx, by, func(w *conn) ([]controlEvent, error) {
		event := controlEvent{CompanyPolicy, subjectPolicy(""), map[string]any{"attest": attest}}
		if agentID != "" {
			if _, err := findAgentState(w, by.Company.Chain, agentID); err != nil {
				return nil, err
			}
			event = controlEvent{AgentPolicy, subjectPolicy(agentID), map[string]any{"agentId": agentID, "attest": attest}}
		}
		before := AttestAny
		err := w.one([]any{&before}, `SELECT attest FROM attest_policy WHERE company = ? AND agent_id = ?`, by.Company.Chain, agentID)
		if err == nil && before == attest || errors.Is(err, ErrNotFound) && attest == AttestAny {
			return nil, nil
		}
		if err != nil && !errors.Is(err, ErrNotFound) {
			return nil, err
		}
		_, err = w.exec(`INSERT INTO attest_policy (company, agent_id, attest) VALUES (?, ?, ?) ON CONFLICT (company, agent_id) DO UPDATE SET attest = excluded.attest`,
			by.Company.Chain, agentID, attest)
		return []controlEvent{event}, err
	})
	if err != nil {
		return fmt.Errorf("set the policy of agent %q: %w", agentID, err)
	}
	return nil
}

// DemandsKey says whether only what a key of the agent has signed is recorded in its name: as the
// agent's policy says, or that of the company. Answers are cached; a change takes effect before Set
// returns.
func (s Policies) DemandsKey(ctx context.Context, by Caller, agentID string) (bool, error) {
	demands, err := lookup(s.db, &s.db.policies, owned{by.Company.Chain, agentID}, by.At, func() (demands bool, err error) {
		err = s.db.read(ctx, func(r *conn) error {
			ofAgent, err := s.load(r, by.Company, agentID)
			if err != nil {
				return err
			}
			ofCompany, err := s.load(r, by.Company, "")
			demands = ofAgent == AttestKey || ofCompany == AttestKey
			return err
		})
		return demands, err
	})
	if err != nil {
		return false, fmt.Errorf("policy of agent %q: %w", agentID, err)
	}
	return demands, nil
}

// load reads a policy and compares it with the newest control record about it.
func (s Policies) load(r *conn, company *Company, agentID string) (attest string, err error) {
	var stored sql.NullString
	var latest sql.NullInt64
	err = r.one([]any{&stored, &latest}, `SELECT attest, `+latestOf("CAST(?1 AS BIGINT)", "'policy:' || ?2")+`
		FROM (SELECT 1) AS one LEFT JOIN attest_policy ON company = ?1 AND agent_id = ?2`, company.Chain, agentID)
	if err != nil {
		return "", err
	}
	l, err := r.controlRecord(company, latest)
	if err != nil {
		return "", s.db.Tables.noted(company, err)
	}
	return stored.String, s.db.Tables.checked(company, l.Policy(agentID, projection.Policy{Attest: stored.String}))
}
