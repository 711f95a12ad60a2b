package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"attestd/chain"
	"attestd/chain/decision"
	"attestd/store/db"
	"attestd/store/projection"
)

// CedarPolicies are the policies by which calls of a company's agents are decided, in the language
// Cedar. Package decide reads their texts; here they are bytes.
type CedarPolicies struct {
	db *base

	sets   *db.Cache[int64, db.Dated[*CedarSet]]
	groups *db.Cache[owned, db.Dated[[]string]]
}

// CedarPolicy is a policy as it was put.
type CedarPolicy struct {
	company     int64
	ID, Cedar   string
	Description *string
	PutAt       string
	MadeBy      string // fingerprint of the credential
}

// SHA256 returns the SHA-256 of the text, in hex.
func (p *CedarPolicy) SHA256() string { return decision.HashText(p.Cedar) }

// CedarSet is the policies of a company at one time. It MUST NOT be changed.
type CedarSet struct {
	company  int64
	Revision int64 // how often the set has changed
	// SHA256 is that of the RFC 8785 form of {policyId: SHA-256 of the text}, both in hex.
	SHA256   string
	Policies []CedarPolicy // by ID
}

var cedarPolicies = right[CedarPolicy, projection.CedarPolicy]{
	table: projection.TableCedarPolicy, subject: "cedar-policy:", title: "policy_id", order: "policy_id",
	columns: func(p *CedarPolicy) []column {
		return []column{
			plain("company", &p.company),
			plain("policy_id", &p.ID).as("policyId"),
			plain("cedar", &p.Cedar).as("cedar"),
			nullable("description", &p.Description).as("description"),
			plain("put_at", &p.PutAt),
			optional("made_by", &p.MadeBy),
		}
	},
	row: func(p *CedarPolicy) projection.CedarPolicy {
		return projection.CedarPolicy{SHA256: p.SHA256(), Description: projection.TextOf(p.Description)}
	},
}

var cedarSets = right[CedarSet, projection.CedarSet]{
	table: projection.TableCedarSet, subject: AboutPolicies, order: "company",
	columns: func(s *CedarSet) []column {
		return []column{
			plain("company", &s.company),
			plain("revision", &s.Revision).as("revision"),
			plain("sha256", &s.SHA256).as("set"),
		}
	},
	row: func(s *CedarSet) projection.CedarSet {
		return projection.CedarSet{Revision: s.Revision, SHA256: s.SHA256}
	},
}

// NoCedarPolicies is the hash of a set without policies.
var NoCedarPolicies = decision.HashSet(nil)

func hashOfPolicies(all []CedarPolicy) string {
	sums := make(map[string]string, len(all))
	for i := range all {
		sums[all[i].ID] = all[i].SHA256()
	}
	return decision.HashSet(sums)
}

// Put puts a policy in the place of one with its ID. It calls admit with the set that results,
// perhaps more than once, and returns its error. What is there already, with the same description,
// is put no second time.
func (s CedarPolicies) Put(ctx context.Context, by Caller, p CedarPolicy, admit func([]CedarPolicy) error) (stored CedarPolicy, err error) {
	p.company, p.PutAt, p.MadeBy = by.Company.Chain, chain.FormatTime(by.At), by.Credential
	err = s.change(ctx, by, func(set *CedarSet) (*cedarChange, error) {
		at, is := set.find(p.ID)
		if !is {
			set.Policies = slices.Insert(set.Policies, at, p)
		} else if old := &set.Policies[at]; old.Cedar == p.Cedar && valueOrEmpty(old.Description) == valueOrEmpty(p.Description) {
			stored = *old
			return nil, nil
		}
		set.Policies[at], stored = p, p
		event := cedarPolicies.created(PolicyPut, &p, map[string]any{"sha256": p.SHA256()})
		return &cedarChange{event, func(w *db.Conn) error {
			_, err := cedarPolicies.insert(w, &p, `ON CONFLICT (company, policy_id) DO UPDATE SET
				cedar = excluded.cedar, description = excluded.description, put_at = excluded.put_at, made_by = excluded.made_by`)
			return err
		}}, admit(set.Policies)
	})
	if err != nil {
		return CedarPolicy{}, fmt.Errorf("put policy %q: %w", p.ID, err)
	}
	return stored, nil
}

func valueOrEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// find returns the place of a policy in the set, or where it would be.
func (set *CedarSet) find(id string) (int, bool) {
	return slices.BinarySearchFunc(set.Policies, id, func(p CedarPolicy, id string) int { return strings.Compare(p.ID, id) })
}

// Delete deletes a policy; ErrNotFound.
func (s CedarPolicies) Delete(ctx context.Context, by Caller, id string) error {
	err := s.change(ctx, by, func(set *CedarSet) (*cedarChange, error) {
		at, is := set.find(id)
		if !is {
			return nil, ErrNotFound
		}
		set.Policies = slices.Delete(set.Policies, at, at+1)
		event := controlEvent{action: PolicyDeleted, details: map[string]any{"policyId": id}}
		return &cedarChange{event, func(w *db.Conn) error {
			_, err := w.Exec(`DELETE FROM cedar_policy WHERE company = ? AND policy_id = ?`, by.Company.Chain, id)
			return err
		}}, nil
	})
	if err != nil {
		return fmt.Errorf("delete policy %q: %w", id, err)
	}
	return nil
}

// cedarChange is a change of a policy: its control record, and what writes the row.
type cedarChange struct {
	event controlEvent
	write func(*db.Conn) error
}

// maxCedarRetries bounds how often a change is made anew, because another one came first.
const maxCedarRetries = 100

var errCedarMoved = fmt.Errorf("%w: the policies change too often", db.ErrUnavailable)

// change has the set changed, a copy of the one in force, and writes that with the control record
// that says what the set is then; a nil change changes nothing. What it takes to judge a set
// happens before the transaction, in which all companies wait. The records of all servers' actions
// are decided by the new set from then on.
//
// The set in force agrees with the control log: one that was altered past the log is not made right
// by a change of it.
func (s CedarPolicies) change(ctx context.Context, by Caller, change func(*CedarSet) (*cedarChange, error)) (err error) {
	for range maxCedarRetries {
		set, err := s.Set(ctx, by)
		if err != nil {
			return err
		}
		next := *set
		next.Policies = slices.Clone(set.Policies)
		made, err := change(&next)
		if err != nil || made == nil {
			return err
		}
		next.Revision++
		next.SHA256 = hashOfPolicies(next.Policies)
		made.event.subject = cedarSets.subject
		made.event.details["revision"], made.event.details["set"] = next.Revision, next.SHA256
		err = s.db.controlled(ctx, by, func(w *db.Conn) ([]controlEvent, error) {
			if err := next.follow(w); err != nil {
				return nil, err
			}
			if err := made.write(w); err != nil {
				return nil, err
			}
			return []controlEvent{made.event}, s.db.redecide(w, by.Company)
		})
		s.sets.Forget(by.Company.Chain) // whatever the outcome
		if !errors.Is(err, errCedarMoved) {
			return err
		}
	}
	return errCedarMoved
}

// follow writes the row of a set, unless that of another revision than the one before it is there.
func (set *CedarSet) follow(w *db.Conn) error {
	rows, err := cedarSets.insert(w, set, `ON CONFLICT (company) DO UPDATE SET revision = excluded.revision, sha256 = excluded.sha256
		WHERE cedar_set.revision = excluded.revision - 1`)
	if err == nil && rows == 0 {
		err = errCedarMoved
	}
	return err
}

// writeSet makes the row of a company's set that of its policies, which an operator has
// accepted as they are.
func (s CedarPolicies) writeSet(w *db.Conn, company *Company) error {
	set, _, err := s.read(w, company)
	if err != nil {
		return err
	}
	set.Revision++
	set.SHA256 = hashOfPolicies(set.Policies)
	return set.follow(w)
}

// redecide makes the writers of all servers read the revision of a company's policies again before
// they append to its actions.
func (s *base) redecide(w *db.Conn, c *Company) error {
	_, err := w.Rekey(c.Actions.Chain)
	s.Rekeyed(c.Actions.Chain)
	return err
}

// Set returns the policies of a company that are in force. Answers are cached; a change takes
// effect before it returns to its caller.
func (s CedarPolicies) Set(ctx context.Context, by Caller) (*CedarSet, error) {
	set, err := db.Lookup(s.sets, by.Company.Chain, by.At, func() (set *CedarSet, err error) {
		err = s.db.Read(ctx, func(r *db.Conn) error {
			set, err = s.load(r, by.Company)
			return err
		})
		return set, err
	})
	if err != nil {
		return nil, fmt.Errorf("policies of company %q: %w", by.Company.ID, err)
	}
	return set, nil
}

// Forget drops what is cached of a company's policies, which the log found to have changed.
func (s CedarPolicies) Forget(by Caller) { s.sets.Forget(by.Company.Chain) }

// load reads the policies and compares them, as a whole, with the newest control record about them.
func (s CedarPolicies) load(r *db.Conn, company *Company) (*CedarSet, error) {
	for {
		set, latest, err := s.read(r, company)
		if err != nil {
			return nil, err
		}
		wrong := s.whole(company, set)
		if wrong != nil { // it may have changed between the statements
			again, _, err := s.read(r, company)
			if err != nil {
				return nil, err
			}
			if again.Revision != set.Revision {
				continue
			}
		}
		has := cedarSets.row(set)
		err = s.db.compared(r, company, latest, func(l *projection.Latest) *projection.Difference { return l.CedarSet(has) })
		if err != nil {
			return nil, err
		}
		if wrong != nil {
			return nil, s.db.noted(company, wrong)
		}
		if set.SHA256 == "" {
			set.SHA256 = NoCedarPolicies
		}
		return set, nil
	}
}

// read reads the set as the tables have it, and the ID of the newest control record about it. The
// policies may be newer than the rest.
func (s CedarPolicies) read(r *db.Conn, company *Company) (set *CedarSet, latest sql.NullInt64, err error) {
	set = &CedarSet{company: company.Chain}
	var sum sql.NullString
	var revision sql.NullInt64
	err = r.One([]any{&revision, &sum, &latest}, `SELECT revision, sha256, `+latestOf("CAST(?1 AS BIGINT)", "?2")+`
		FROM (SELECT 1) AS one LEFT JOIN cedar_set ON company = ?1`, company.Chain, cedarSets.subject)
	if err != nil {
		return nil, latest, err
	}
	set.Revision, set.SHA256 = revision.Int64, sum.String
	set.Policies, err = db.All(r, cedarPolicies.scan,
		"SELECT "+cedarPolicies.list("cedar_policy")+" FROM cedar_policy WHERE company = ? ORDER BY policy_id", company.Chain)
	return set, latest, err
}

// whole returns an error where the policies do not make the set.
func (s CedarPolicies) whole(company *Company, set *CedarSet) error {
	is := hashOfPolicies(set.Policies)
	if is == set.SHA256 || set.SHA256 == "" && len(set.Policies) == 0 {
		return nil
	}
	return changedTables(company, &projection.Difference{Table: projection.TableCedarPolicy, Index: -1,
		What: fmt.Sprintf("its rows make the set %s, and %s is in force", is, set.SHA256)})
}

// agentGroups is the groups of an agent.
type agentGroups struct {
	company        int64
	agentID, names string // names is a JSON array in the form of RFC 8785
}

var groupsOfAgents = right[agentGroups, projection.AgentGroups]{
	table: projection.TableAgentGroups, subject: "agent-groups:", title: "agent_id", order: "agent_id",
	columns: func(g *agentGroups) []column {
		return []column{
			plain("company", &g.company),
			plain("agent_id", &g.agentID).as("agentId"),
			plain("names", &g.names).asJSON("groups"),
		}
	},
	row: func(g *agentGroups) projection.AgentGroups { return projection.AgentGroups{Groups: g.names} },
}

// setGroups writes the groups of an agent, which are in ascending order. The event is nil where
// they were those already.
func (s CedarPolicies) setGroups(w *db.Conn, by Caller, agentID string, groups []string) (*controlEvent, error) {
	before, err := s.loadGroups(w, by.Company, agentID)
	if err != nil || slices.Equal(before, groups) {
		return nil, err
	}
	g := agentGroups{by.Company.Chain, agentID, canonicalStrings(groups)}
	_, err = groupsOfAgents.insert(w, &g, `ON CONFLICT (company, agent_id) DO UPDATE SET names = excluded.names`)
	event := groupsOfAgents.created(AgentPolicy, &g, nil)
	return &event, err
}

// Groups returns the groups of an agent, ascending. Answers are cached; a change takes effect
// before Policies.Set returns.
func (s CedarPolicies) Groups(ctx context.Context, by Caller, agentID string) ([]string, error) {
	groups, err := db.Lookup(s.groups, owned{by.Company.Chain, agentID}, by.At, func() (groups []string, err error) {
		err = s.db.Read(ctx, func(r *db.Conn) error {
			groups, err = s.loadGroups(r, by.Company, agentID)
			return err
		})
		return groups, err
	})
	if err != nil {
		return nil, fmt.Errorf("groups of agent %q: %w", agentID, err)
	}
	return groups, nil
}

func (s CedarPolicies) loadGroups(r *db.Conn, company *Company, agentID string) (groups []string, err error) {
	var stored sql.NullString
	var latest sql.NullInt64
	err = r.One([]any{&stored, &latest}, `SELECT names, `+latestOf("CAST(?1 AS BIGINT)", "'"+groupsOfAgents.subject+"' || ?2")+`
		FROM (SELECT 1) AS one LEFT JOIN agent_groups ON company = ?1 AND agent_id = ?2`, company.Chain, agentID)
	if err != nil {
		return nil, err
	}
	has := projection.AgentGroups{Groups: stored.String}
	err = s.db.compared(r, company, latest, func(l *projection.Latest) *projection.Difference { return l.AgentGroups(agentID, has) })
	if err != nil || !stored.Valid {
		return nil, err
	}
	return stringsIn(stored.String)
}

// What becomes a record by itself of the decisions about a company's agents.
const (
	DecisionsDenied = "denied" // those that deny
	DecisionsAll    = "all"
)

// decisionPolicy says which decisions become records by themselves.
type decisionPolicy struct {
	company   int64
	decisions string
}

var decisionPolicies = right[decisionPolicy, projection.DecisionPolicy]{
	table: projection.TableDecisionPolicy, subject: "decisions", order: "company",
	columns: func(p *decisionPolicy) []column {
		return []column{plain("company", &p.company), plain("decisions", &p.decisions).as("decisions")}
	},
	row: func(p *decisionPolicy) projection.DecisionPolicy {
		return projection.DecisionPolicy{Decisions: p.decisions}
	},
}

// setDecisions writes which decisions become records.
func setDecisions(w *db.Conn, by Caller, decisions string) (*controlEvent, error) {
	p := decisionPolicy{by.Company.Chain, decisions}
	_, err := decisionPolicies.insert(w, &p, `ON CONFLICT (company) DO UPDATE SET decisions = excluded.decisions`)
	event := decisionPolicies.created(CompanyPolicy, &p, nil)
	return &event, err
}

// Decisions returns which decisions of a company become records. Answers are cached; a change takes
// effect before SetCompany returns.
func (s Policies) Decisions(ctx context.Context, by Caller) (string, error) {
	decisions, err := db.Lookup(s.decisions, by.Company.Chain, by.At, func() (decisions string, err error) {
		err = s.db.Read(ctx, func(r *db.Conn) error {
			decisions, err = s.loadDecisions(r, by.Company)
			return err
		})
		return decisions, err
	})
	if err != nil {
		return "", fmt.Errorf("recorded decisions of company %q: %w", by.Company.ID, err)
	}
	return decisions, nil
}

func (s Policies) loadDecisions(r *db.Conn, company *Company) (string, error) {
	var stored sql.NullString
	var latest sql.NullInt64
	err := r.One([]any{&stored, &latest}, `SELECT decisions, `+latestOf("CAST(?1 AS BIGINT)", "?2")+`
		FROM (SELECT 1) AS one LEFT JOIN decision_policy ON company = ?1`, company.Chain, decisionPolicies.subject)
	if err != nil {
		return "", err
	}
	has := projection.DecisionPolicy{Decisions: stored.String}
	err = s.db.compared(r, company, latest, func(l *projection.Latest) *projection.Difference { return l.DecisionPolicy(has) })
	if err != nil || !stored.Valid {
		return DecisionsDenied, err
	}
	return stored.String, nil
}
