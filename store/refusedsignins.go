package store

import (
	"context"
	"fmt"
	"time"

	"attestd/chain"
	"attestd/store/db"
)

// How somebody tries to sign in: of a SignInsRefused.
const (
	RefusedPasskey    = "passkey"    // a person, by a passkey
	RefusedAccount    = "oidc"       // a person, by an account at the identity provider
	RefusedToken      = "token"      // an OAuth client or an agent, at an OAuth endpoint
	RefusedFederation = "federation" // a workload or a client, by an assertion of another issuer
)

// SignInsRefused are the sign-ins of one kind that a server refused in a minute.
type SignInsRefused struct {
	How    string
	Minute time.Time // its begin
	Count  int64
}

// RefuseSignIns appends a control record of the caller's company for each kind and minute. It says
// nothing of what was presented.
func (s Companies) RefuseSignIns(ctx context.Context, by Caller, refused []SignInsRefused) error {
	err := s.db.controlled(ctx, by, func(*db.Conn) ([]controlEvent, error) {
		events := make([]controlEvent, len(refused))
		for i, r := range refused {
			events[i] = controlEvent{SignInRefused, "refused-sign-ins:" + r.How, map[string]any{
				"how": r.How, "minute": chain.FormatTime(r.Minute), "count": r.Count,
			}}
		}
		return events, nil
	})
	if err != nil {
		return fmt.Errorf("record refused sign-ins of company %q: %w", by.Company.ID, err)
	}
	return nil
}
