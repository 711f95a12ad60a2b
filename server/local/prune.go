package local

import (
	"context"
	"fmt"

	"attestd/chain/tlog"
	"attestd/store"
)

// Prune asks that payloads of a company's actions are pruned.
type Prune struct {
	CompanyID string `json:"companyId"`
	// Records is how many of the first records the archive has, and Root the root of their log
	// tree; 0 asks to go on with what was begun.
	Records int64     `json:"records"`
	Root    tlog.Hash `json:"root"`
	Archive string    `json:"archive"` // SHA-256 of the archive, in lower-case hex
}

// Pruned is how far the pruning of a company is.
type Pruned struct {
	Records int64  `json:"records"` // whose payloads go
	Left    int64  `json:"left"`    // that still have theirs
	Archive string `json:"archive"`
}

// prunedAtOnce is how many payloads one call takes away, so that who asks sees progress.
const prunedAtOnce = 4096

// Prune begins to prune payloads, or goes on: one call takes some thousands away. The caller calls
// it until none is left, with 0 records after the first time.
func (o *Operations) Prune(ctx context.Context, p Prune) (Pruned, error) {
	if p.CompanyID == store.InstallationID {
		return Pruned{}, fmt.Errorf("%w: %s is no company", store.ErrRefused, p.CompanyID)
	}
	by, err := o.operator(ctx, p.CompanyID)
	if err != nil {
		return Pruned{}, err
	}
	if p.Records > 0 {
		if _, err := o.Store.BeginPrune(ctx, by, p.Records, p.Root, p.Archive); err != nil {
			return Pruned{}, err
		}
	}
	said, err := o.Store.PrunedRecords(ctx, by.Company.Actions.Chain)
	if err != nil {
		return Pruned{}, err
	}
	if said.Records == 0 {
		return Pruned{}, fmt.Errorf("%w: no payload of %s was pruned: give --before and --out", store.ErrRefused, p.CompanyID)
	}
	left, err := o.Store.PruneNext(ctx, by, prunedAtOnce)
	return Pruned{Records: said.Records, Left: left, Archive: said.Archive}, err
}

// Prune is that of Operations.
func (c *Client) Prune(ctx context.Context, p Prune) (found Pruned, err error) {
	return found, c.call(ctx, "/prune", p, &found)
}
