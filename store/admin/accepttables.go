package admin

import (
	"context"
	"fmt"
	"slices"

	"attestd/store"
	"attestd/store/projection"
)

// AcceptTablesOptions are the options of AcceptTables.
type AcceptTablesOptions struct {
	Company string
	Reason  string // in the operator's words, for the control log
}

// AcceptTables appends control records so that a company's control log matches its tables: one for
// each differing row, and one with the reason. Names and sessions, which follow from the actions,
// become what those say. Differences in signing keys, records, logs, the companies that there are,
// and what the database is cannot be accepted. It returns the differences. Run of s MUST be
// running. It returns ErrRefused, also if nothing differs, and ErrNotFound.
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
		switch {
		case d.Table == projection.TableSetting && !slices.Contains(projection.FixedSettings, d.Row): // of any company
		case o.Company == store.InstallationID:
			return nil, fmt.Errorf("%w: %v; which companies there are is not accepted: put a backup in place", store.ErrRefused, d)
		case d.Table == projection.TableSigningKey || d.Table == "record" || d.Table == "log" || d.Table == projection.TableSetting:
			return nil, fmt.Errorf("%w: %v; this is not accepted: put a backup in place", store.ErrRefused, d)
		}
	}
	if err := s.Tables.Accept(ctx, c, differences, o.Reason); err != nil {
		return nil, err
	}
	return differences, nil
}
