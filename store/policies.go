package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"attestd/crypto/jcs"
	"attestd/store/db"
	"attestd/store/projection"
)

// Policies say what may be recorded in an agent's name.
type Policies struct {
	db    *base
	cedar CedarPolicies

	// whether only what a key signed counts
	demands *db.Cache[owned, db.Dated[bool]]
	// whether a company has named the audience with a hash for exchanges
	exchanges *db.Cache[tenantHash, db.Dated[bool]]
	decisions *db.Cache[int64, db.Dated[string]] // which become records
}

// What a policy allows to be recorded in an agent's name.
const (
	AttestAny = "any" // whatever a credential of the company says
	AttestKey = "key" // what one of the agent's keys has signed
)

// AgentChange is a change of an agent's policy: of the members that it names.
type AgentChange struct {
	Attest string   // "" leaves what may be recorded in its name as it is
	Groups []string // ascending; nil leaves them as they are
}

// CompanyChange is a change of a company's policy: of the members that it names.
type CompanyChange struct {
	Attest            string   // "" leaves what may be recorded in its agents' names as it is
	ExchangeAudiences []string // for which its tokens may be exchanged; nil leaves them as they are
	// which become records: DecisionsDenied or DecisionsAll; "" leaves that as it is
	Decisions string
	Changes   string // who may change rights: ChangesAny or ChangesPeople; "" leaves that as it is
}

// CompanySetting is the policy of a company.
type CompanySetting struct {
	Attest            string
	ExchangeAudiences []string // ascending
	Decisions         string
	Changes           string
}

// attestPolicy is the policy of an agent, or with "" of the company.
type attestPolicy struct {
	company         int64
	agentID, attest string
}

var attestPolicies = right[attestPolicy, projection.Policy]{
	table: projection.TablePolicy, subject: "policy:", title: "agent_id", order: "agent_id",
	columns: func(p *attestPolicy) []column {
		return []column{
			plain("company", &p.company),
			plain("agent_id", &p.agentID).as("agentId").ifAny(),
			plain("attest", &p.attest).as("attest"),
		}
	},
	row: func(p *attestPolicy) projection.Policy { return projection.Policy{Attest: p.attest} },
}

// companyPolicy is the company's further policy, in its own row.
type companyPolicy struct {
	company           int64
	exchangeAudiences string // a JSON array in the form of RFC 8785
}

var companyPolicies = right[companyPolicy, projection.CompanyPolicy]{
	table: projection.TableCompanyPolicy, subject: "company-policy", order: "company",
	columns: func(p *companyPolicy) []column {
		return []column{
			plain("company", &p.company),
			plain("exchange_audiences", &p.exchangeAudiences).asJSON("exchangeAudiences"),
		}
	},
	row: func(p *companyPolicy) projection.CompanyPolicy {
		return projection.CompanyPolicy{ExchangeAudiences: p.exchangeAudiences}
	},
}

// Set changes the policy of an agent, in one transaction. ErrNotFound of the agent.
func (s Policies) Set(ctx context.Context, by Caller, agentID string, change AgentChange) error {
	defer s.demands.Forget() // whatever the outcome
	defer s.cedar.groups.Forget(owned{by.Company.Chain, agentID})
	err := s.db.controlled(ctx, by, func(w *db.Conn) (events []controlEvent, err error) {
		if _, err := findAgentState(w, by.Company.Chain, agentID); err != nil {
			return nil, err
		}
		if change.Attest != "" {
			event, err := s.setAttest(w, by, agentID, change.Attest, AgentPolicy)
			if err != nil {
				return nil, err
			}
			if event != nil {
				events = append(events, *event)
			}
		}
		if change.Groups != nil {
			event, err := s.cedar.setGroups(w, by, agentID, change.Groups)
			if err != nil {
				return nil, err
			}
			if event != nil {
				events = append(events, *event)
			}
		}
		return events, nil
	})
	if err != nil {
		return fmt.Errorf("set the policy of agent %q: %w", agentID, err)
	}
	return nil
}

// SetCompany changes the policy of the company, and returns it. Each member has its own row and
// control record, all written in one transaction.
func (s Policies) SetCompany(ctx context.Context, by Caller, change CompanyChange) (now CompanySetting, err error) {
	defer s.demands.Forget() // whatever the outcome
	defer s.exchanges.Forget()
	defer s.decisions.Forget(by.Company.Chain)
	err = s.db.controlled(ctx, by, func(w *db.Conn) (events []controlEvent, err error) {
		if now.Decisions, err = s.loadDecisions(w, by.Company); err != nil {
			return nil, err
		}
		var set []func() (*controlEvent, error)
		if change.Attest != "" {
			set = append(set, func() (*controlEvent, error) { return s.setAttest(w, by, "", change.Attest, CompanyPolicy) })
		}
		if change.ExchangeAudiences != nil {
			set = append(set, func() (*controlEvent, error) { return s.setExchanges(w, by, change.ExchangeAudiences) })
		}
		if change.Decisions != "" && change.Decisions != now.Decisions {
			now.Decisions = change.Decisions
			set = append(set, func() (*controlEvent, error) { return setDecisions(w, by, change.Decisions) })
		}
		if now.Changes, err = s.db.loadChanges(w, by.Company); err != nil {
			return nil, err
		}
		if change.Changes != "" && change.Changes != now.Changes {
			now.Changes = change.Changes
			set = append(set, func() (*controlEvent, error) { return setChanges(w, by, change.Changes) })
		}
		for _, write := range set {
			event, err := write()
			if err != nil {
				return nil, err
			}
			if event != nil {
				events = append(events, *event)
			}
		}
		if now.Attest, err = storedAttest(w, by, ""); err == nil {
			now.ExchangeAudiences, err = storedExchanges(w, by)
		}
		return events, err
	})
	if err != nil {
		return CompanySetting{}, fmt.Errorf("set the policy of company %q: %w", by.Company.ID, err)
	}
	return now, nil
}

// setAttest writes what may be recorded in the name of an agent, or with "" in that of any. The
// event is nil where that was so already.
func (s Policies) setAttest(w *db.Conn, by Caller, agentID, attest string, action ControlAction) (*controlEvent, error) {
	before, err := storedAttest(w, by, agentID)
	if err != nil || before == attest {
		return nil, err
	}
	p := attestPolicy{by.Company.Chain, agentID, attest}
	_, err = attestPolicies.insert(w, &p, `ON CONFLICT (company, agent_id) DO UPDATE SET attest = excluded.attest`)
	event := attestPolicies.created(action, &p, nil)
	if attest == AttestKey {
		event.details["attest"] = narrower{json.RawMessage(`"` + AttestKey + `"`)}
	}
	return &event, err
}

func storedAttest(w *db.Conn, by Caller, agentID string) (attest string, err error) {
	err = w.One([]any{&attest}, `SELECT attest FROM attest_policy WHERE company = ? AND agent_id = ?`, by.Company.Chain, agentID)
	if errors.Is(err, db.ErrNotFound) {
		return AttestAny, nil
	}
	return attest, err
}

// setExchanges writes the audiences of exchanges. The event is nil where they were those already.
func (s Policies) setExchanges(w *db.Conn, by Caller, audiences []string) (*controlEvent, error) {
	before, err := storedExchanges(w, by)
	next := slices.Sorted(slices.Values(audiences))
	if err != nil || slices.Equal(before, next) {
		return nil, err
	}
	text := canonicalStrings(next)
	gives := slices.ContainsFunc(next, func(audience string) bool { return !slices.Contains(before, audience) })
	p := companyPolicy{by.Company.Chain, text}
	_, err = companyPolicies.insert(w, &p, `ON CONFLICT (company) DO UPDATE SET exchange_audiences = excluded.exchange_audiences`)
	event := companyPolicies.created(CompanyPolicy, &p, nil)
	if !gives {
		event.details["exchangeAudiences"] = narrower{json.RawMessage(text)}
	}
	return &event, err
}

func storedExchanges(w *db.Conn, by Caller) ([]string, error) {
	var text string
	err := w.One([]any{&text}, `SELECT exchange_audiences FROM company_policy WHERE company = ?`, by.Company.Chain)
	if errors.Is(err, db.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return stringsIn(text)
}

// canonicalStrings returns a JSON array of strings in the form of RFC 8785; stringsIn reads it.
func canonicalStrings(list []string) string {
	text := []byte{'['}
	for n, one := range list {
		if n > 0 {
			text = append(text, ',')
		}
		text = jcs.AppendString(text, one)
	}
	return string(append(text, ']'))
}

func stringsIn(text string) (list []string, err error) {
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("%w: a list in a policy: %w", db.ErrCorrupt, err)
	}
	return list, nil
}

// MayExchange says whether the company has named an audience for exchanges. Answers are cached; a
// change takes effect before SetCompany returns.
func (s Policies) MayExchange(ctx context.Context, by Caller, audience string) (bool, error) {
	name := tenantHash{by.Company.Chain, sha256.Sum256([]byte(audience))}
	named, err := db.Lookup(s.exchanges, name, by.At, func() (named bool, err error) {
		err = s.db.Read(ctx, func(r *db.Conn) error {
			audiences, err := s.loadExchanges(r, by.Company)
			named = slices.Contains(audiences, audience)
			return err
		})
		return named, err
	})
	if err != nil {
		return false, fmt.Errorf("audiences of exchanges of company %q: %w", by.Company.ID, err)
	}
	return named, nil
}

// loadExchanges reads the audiences of exchanges and compares them with the newest control record
// about them.
func (s Policies) loadExchanges(r *db.Conn, company *Company) ([]string, error) {
	var stored sql.NullString
	var latest sql.NullInt64
	err := r.One([]any{&stored, &latest}, `SELECT exchange_audiences, `+latestOf("CAST(?1 AS BIGINT)", "?2")+`
		FROM (SELECT 1) AS one LEFT JOIN company_policy ON company = ?1`, company.Chain, companyPolicies.subject)
	if err != nil {
		return nil, err
	}
	has := companyPolicies.row(&companyPolicy{exchangeAudiences: stored.String})
	err = s.db.compared(r, company, latest, func(l *projection.Latest) *projection.Difference { return l.CompanyPolicy(has) })
	if err != nil || !stored.Valid {
		return nil, err
	}
	return stringsIn(stored.String)
}

// DemandsKey says whether only what a key of the agent has signed is recorded in its name: as the
// agent's policy says, or that of the company. Answers are cached; a change takes effect before Set
// returns.
func (s Policies) DemandsKey(ctx context.Context, by Caller, agentID string) (bool, error) {
	demands, err := db.Lookup(s.demands, owned{by.Company.Chain, agentID}, by.At, func() (demands bool, err error) {
		err = s.db.Read(ctx, func(r *db.Conn) error {
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
func (s Policies) load(r *db.Conn, company *Company, agentID string) (attest string, err error) {
	var stored sql.NullString
	var latest sql.NullInt64
	err = r.One([]any{&stored, &latest}, `SELECT attest, `+latestOf("CAST(?1 AS BIGINT)", "'"+attestPolicies.subject+"' || ?2")+`
		FROM (SELECT 1) AS one LEFT JOIN attest_policy ON company = ?1 AND agent_id = ?2`, company.Chain, agentID)
	if err != nil {
		return "", err
	}
	has := projection.Policy{Attest: stored.String}
	return stored.String, s.db.compared(r, company, latest, func(l *projection.Latest) *projection.Difference { return l.Policy(agentID, has) })
}
