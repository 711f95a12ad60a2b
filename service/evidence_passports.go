package service

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"attestd/chain"
	"attestd/chain/decision"
	"attestd/chain/evidence"
	"attestd/store"
)

// passports returns the control records of the passport that the decision of the file's record
// names; none where it names none, or one of another agent.
func (g *gatherer) passports(ctx context.Context, size int64) ([]int64, error) {
	d, err := decision.Of(g.file.Record.Payload)
	if err != nil || d == nil || d.Passport == "" {
		return nil, err
	}
	var of struct{ AgentID string }
	if err := json.Unmarshal(g.file.Record.Payload, &of); err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	q := authorityQuery{view: g.view, company: g.by.Company, size: size, sameTimeReported: true}
	issued, revoked, err := q.issueAndRevocation(ctx, d.Passport, of.AgentID)
	if issued != nil {
		g.file.Passports = new(evidence.Passports)
	}
	return placesOf(issued, revoked), err
}

// sessionPassports returns the control records of the passports that the agent of a session had at
// its first record or at its last, at most maxAuthorityPassports for each. Which ones its decisions
// name is known only when its records are read.
func (g *gatherer) sessionPassports(ctx context.Context, f *SessionFile, first, last *chain.Record, size int64) ([]int64, error) {
	q := authorityQuery{view: g.view, company: g.by.Company, size: size, sameTimeReported: true}
	var entries []*ControlEntry
	for _, record := range []*chain.Record{first, last} {
		at, err := time.Parse(time.RFC3339, record.Timestamp)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
		}
		found, err := g.view.PassportsAt(ctx, g.by.Company, f.of.AgentID, at, maxAuthorityPassports)
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			issued, revoked, err := q.issueAndRevocation(ctx, p.JTI, f.of.AgentID)
			if err != nil {
				return nil, err
			}
			if issued != nil {
				entries = append(entries, issued, revoked)
			}
		}
	}
	return placesOf(entries...), nil
}

// isDecided reports whether a record holds a decision.
func isDecided(r *chain.Record) bool {
	d, err := decision.Of(r.Payload)
	return err == nil && d != nil
}
