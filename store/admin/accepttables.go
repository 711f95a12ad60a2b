package admin

import (
	"context"
	"fmt"
	"slices"

	"attestd/store"
	"attestd/store/db"
	"attestd/store/projection"
)

// AcceptTablesOptions are the options of AcceptTables.
type AcceptTablesOptions struct {
	Company string
	Reason  string // in the operator's words, for the control log
}

// AcceptTables appends control records so that a company's control log matches its tables: one for
// each differing row, and one with the reason. Names and sessions, which follow from the actions,
// become what those say. Access tokens that the service has not written are deleted. Differences in
// signing keys, records, logs, secrets, the companies that there are, and what the database is
// cannot be accepted. It returns the differences. Run of s MUST be running. It returns ErrRefused,
// also if nothing differs, and ErrNotFound.
func AcceptTables(ctx context.Context, s *store.Store, o AcceptTablesOptions) ([]*projection.Difference, error) {
	if err := checkReason(o.Reason); err != nil {
		return nil, err
	}
	c, differences, more, err := s.Tables.Compare(ctx, o.Company)
	if err != nil {
		return nil, err
	}
	if len(differences) == 0 {
		return nil, fmt.Errorf("%w: the tables of company %q are what its control log says, so there is nothing to accept",
			store.ErrRefused, o.Company)
	}
	if more > 0 {
		return nil, fmt.Errorf("%w: more than %d rows of company %q differ; put a backup in place", store.ErrRefused,
			len(differences), o.Company)
	}
	for _, d := range differences {
		if what := refused(o.Company, d); what != "" {
			return nil, fmt.Errorf("%w: %v; %s: put a backup in place", store.ErrRefused, d, what)
		}
	}
	if err := s.Tables.Accept(ctx, c, differences, o.Reason); err != nil {
		return nil, err
	}
	return differences, nil
}

// refused says what makes it impossible to accept a difference, or returns "".
func refused(company string, d *projection.Difference) string {
	const which = "this is not accepted"
	switch d.Table {
	case projection.TableSetting:
		if slices.Contains(projection.FixedSettings, d.Row) {
			return which
		}
		return ""
	case projection.TableToken, projection.TableFederatedToken: // they are deleted
		return ""
	case projection.TableSigningKey, "record", "log":
		return which
	}
	switch {
	case company == db.InstallationID:
		return "which companies there are is not accepted"
	case d.Secret:
		return "no record can make that right"
	}
	return ""
}
