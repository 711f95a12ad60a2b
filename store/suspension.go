package store

import "attestd/store/projection"

// Suspension says since when a company is suspended, and why. The zero value is of none.
type Suspension struct {
	At     string
	Reason string
}

type storedSuspension struct {
	company int64
	Suspension
}

var suspensions = right[storedSuspension, projection.Suspension]{
	table: projection.TableSuspension, subject: "suspension", order: "company",
	columns: func(s *storedSuspension) []column {
		return []column{
			plain("company", &s.company),
			optional("suspended_at", &s.At).as("suspendedAt").ifAny(),
			optional("reason", &s.Reason).as("reason"),
		}
	},
	row: func(s *storedSuspension) projection.Suspension {
		return projection.Suspension{SuspendedAt: s.At, Reason: s.Reason}
	},
}
