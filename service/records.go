package service

import (
	"context"
	"encoding/json"
	"fmt"

	"attestd/chain"
	"attestd/crypto/statement"
	"attestd/store"
)

// DamagedError means that a record of the actions has no payload, although none was pruned there.
type DamagedError struct{ Index int64 }

func (e *DamagedError) Error() string {
	return fmt.Sprintf("record %d has no payload, and no control record says that it was pruned", e.Index)
}

// PrunedError is the refusal of what needs the payload of a record of the actions, if that is
// missing; nil if it is there. It says which archive has the record, by the control record of the
// prune. Where there is none it is a *DamagedError.
func PrunedError(ctx context.Context, v *store.View, c *store.Company, r *chain.Record) error {
	if !r.IsPruned() {
		return nil
	}
	p, err := v.PruneOf(ctx, c.Actions.Chain, r.Index)
	switch {
	case err != nil:
		return err
	case p.Records == 0:
		return &DamagedError{r.Index}
	}
	return &Error{Kind: Gone, Code: "PAYLOAD_PRUNED", Message: fmt.Sprintf(
		"The payload of record %d was pruned: the archive with the SHA-256 %s has it", r.Index, p.Archive)}
}

// recordAt reads a record; ErrNotFound.
func recordAt(ctx context.Context, v *store.View, l store.Log, index int64) (record chain.Record, err error) {
	found := false
	err = v.Records(ctx, l.Chain, index, index+1, func(r *chain.Record) error {
		found, record = true, r.Clone()
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("log %s: record %d is missing on disk: %w", l.ID, index, store.ErrNotFound)
	}
	return record, err
}

// statementOf reads the statement of a record; nil where it has none.
func statementOf(r *chain.Record) (stmt *statement.Statement, err error) {
	var payload struct{ Statement string }
	if err = json.Unmarshal(r.Payload, &payload); err == nil && payload.Statement != "" {
		stmt, err = statement.Parse(payload.Statement)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the statement of record %d: %w", store.ErrCorrupt, r.Index, err)
	}
	return stmt, nil
}
