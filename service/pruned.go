package service

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"

	"attestd/chain"
	"attestd/crypto/jcs"
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
	archive, err := archiveOf(ctx, v, c, r.Index)
	switch {
	case err != nil:
		return err
	case archive == "":
		return &DamagedError{r.Index}
	}
	return &Error{Kind: Gone, Code: "PAYLOAD_PRUNED", Message: fmt.Sprintf(
		"The payload of record %d was pruned: the archive with the SHA-256 %s has it", r.Index, archive)}
}

// archiveOf returns the SHA-256 of the archive that has a pruned record, or "". Each archive after
// a prune continues the one before, so it is that of the first prune that covers the record.
func archiveOf(ctx context.Context, v *store.View, c *store.Company, index int64) (archive string, err error) {
	last, err := v.PrunedRecords(ctx, c.Actions.Chain)
	if err != nil || index >= last.Records {
		return "", err
	}
	set, err := v.KeySet(ctx, c.Control.Chain)
	if err != nil {
		return "", err
	}
	q := store.ControlQuery{Subject: "payloads", Action: store.PayloadsPruned, To: last.Index}
	for {
		found, err := v.ControlEntry(ctx, c, q)
		if err != nil {
			return "", err
		}
		if found == nil {
			return last.Archive, nil
		}
		record, err := recordAt(ctx, v, c.Control, found.Index)
		if err != nil {
			return "", err
		}
		said, err := readPrune(&record, c, set)
		if err != nil {
			return "", fmt.Errorf("%w: control record %d about pruned payloads: %w", store.ErrCorrupt, record.Index, err)
		}
		if index < said.Records {
			return said.Archive, nil
		}
		q.From = found.Index + 1
	}
}

// prune is what the control record of a prune says.
type prune struct {
	Records int64
	Archive string
}

// readPrune reads a control record of a prune, which the company must have signed.
func readPrune(r *chain.Record, c *store.Company, set chain.KeySet) (said prune, err error) {
	var payload struct {
		CompanyID, Log string
		Payload        prune
	}
	if err := json.Unmarshal(r.Payload, &payload); err != nil {
		return said, err
	}
	canonical, err := jcs.Append(nil, r.Payload, MaxDepth)
	if err != nil {
		return said, err
	}
	if r.ComputeHash(canonical) != r.Hash || !ed25519.Verify(set.At(r.Index).Key, r.Hash[:], r.Signature[:]) ||
		payload.CompanyID != c.ID || payload.Log != string(store.Control) {
		return said, errors.New("it is not one that the company has signed")
	}
	return payload.Payload, nil
}
