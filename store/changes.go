package store

import (
	"database/sql"
	"slices"

	"attestd/store/db"
	"attestd/store/projection"
)

// Who may change what control records tell of.
const (
	ChangesAny    = "any"    // whoever has a credential that may
	ChangesPeople = "people" // people who have signed in
)

// changePolicy says who may change rights.
type changePolicy struct {
	company int64
	changes string
}

var changePolicies = right[changePolicy, projection.ChangePolicy]{
	table: projection.TableChangePolicy, subject: "changes", order: "company",
	columns: func(p *changePolicy) []column {
		return []column{plain("company", &p.company), plain("changes", &p.changes).as("changes")}
	},
	row: func(p *changePolicy) projection.ChangePolicy { return projection.ChangePolicy{Changes: p.changes} },
}

// setChanges writes who may change rights. A key that let only people do it could shut everybody
// out: a person says so.
func setChanges(w *db.Conn, by Caller, changes string) (*controlEvent, error) {
	if by.Person == "" {
		return nil, ErrPersonRequired
	}
	p := changePolicy{by.Company.Chain, changes}
	_, err := changePolicies.insert(w, &p, `ON CONFLICT (company) DO UPDATE SET changes = excluded.changes`)
	event := changePolicies.created(CompanyPolicy, &p, nil)
	return &event, err
}

// loadChanges reads who may change rights, and compares that with the newest control record about
// it.
func (s *base) loadChanges(r *db.Conn, company *Company) (string, error) {
	var stored sql.NullString
	var latest sql.NullInt64
	err := r.One([]any{&stored, &latest}, `SELECT changes, `+latestOf("CAST(?1 AS BIGINT)", "?2")+`
		FROM (SELECT 1) AS one LEFT JOIN change_policy ON company = ?1`, company.Chain, changePolicies.subject)
	if err != nil {
		return "", err
	}
	has := projection.ChangePolicy{Changes: stored.String}
	err = s.compared(r, company, latest, func(l *projection.Latest) *projection.Difference { return l.ChangePolicy(has) })
	if err != nil || !stored.Valid {
		return ChangesAny, err
	}
	return stored.String, nil
}

// changesNoRight reports whether a change happens by itself, where somebody signs in, out, or is
// issued a token for the first time, or is about one approval, which has its own assertion.
func (e controlEvent) changesNoRight() bool {
	switch e.action {
	case PersonSignedIn, PersonSignedOut, TokenKeyCreated, FederationUsed, ApprovalGranted, ApprovalDenied, ApprovalUsed, ApprovalWithdrawn:
		return true
	}
	return false
}

// mayChange refuses changes of rights by a person whose passkey has not signed for a while:
// ErrReauthenticate. Where the company lets only people change rights, it refuses those of all
// other credentials but an agent's own: ErrPersonRequired.
//
// Every change passes it, in its transaction, so that no route can forget it. What an operator does
// has no credential.
func (s *base) mayChange(w *db.Conn, by Caller, events []controlEvent) error {
	if !slices.ContainsFunc(events, func(e controlEvent) bool { return !e.changesNoRight() }) {
		return nil
	}
	if by.Person != "" {
		return by.Fresh()
	}
	if by.Credential == "" || by.Operator || by.Agent != "" || by.Company == nil {
		return nil
	}
	changes, err := s.loadChanges(w, by.Company)
	if err == nil && changes == ChangesPeople {
		err = ErrPersonRequired
	}
	return err
}
