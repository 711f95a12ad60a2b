package service

import (
	"context"
	"errors"
	"fmt"

	"attestd/chain"
	"attestd/chain/lines"
	"attestd/chain/tlog"
	"attestd/chain/witness"
	"attestd/store"
)

// Archive returns what an archive of the company's records from before a time has in addition to
// the records. The time is at most that of the caller; Invalid. Where payloads were pruned the
// actions begin with the first that has one, and the control records end with that of the last
// prune at the earliest: it says which archive this one continues.
func (e *Evidence) Archive(ctx context.Context, by store.Caller, before string) (f lines.Frame, err error) {
	if !chain.IsTimestamp(before) || before > chain.FormatTime(by.At) {
		return f, refuse(Invalid, "the time must be one as in 2026-03-02T09:05:04.218Z, and not in the future")
	}
	pruned, err := e.Store.PrunedRecords(ctx, by.Company.Actions.Chain)
	if err != nil {
		return f, err
	}
	logs := [2]store.Log{by.Company.Control, by.Company.Actions}
	var sizes [2]int64
	for i, l := range logs {
		head, _, err := e.Store.Tip(ctx, l.Chain)
		if err != nil {
			return f, err
		}
		if sizes[i], err = e.Store.SizeAt(ctx, l.Chain, head.Length, before); err != nil {
			return f, err
		}
	}
	switch {
	case sizes[0]+sizes[1] == 0:
		return f, refuse(Invalid, "the company has no record from before "+before)
	case sizes[1] < pruned.Records:
		return f, refuse(Invalid, fmt.Sprintf(
			"the payloads of the first %d actions were pruned, and only the first %d are from before %s: the archive with the SHA-256 %s has them",
			pruned.Records, sizes[1], before, pruned.Archive))
	case pruned.Records > 0:
		sizes[0] = max(sizes[0], pruned.Index+1)
	}
	for i, l := range logs {
		if _, err := e.Checkpoints.Covering(ctx, by, l, sizes[i]-1); err != nil {
			return f, err
		}
	}
	opens := [2]int64{0, pruned.Records}
	err = e.Store.Snapshot(ctx, func(v *store.View) error {
		g := gatherer{by: by}
		if err := g.begin(ctx, v); err != nil {
			return err
		}
		var archived [2]lines.Archived
		for i, l := range logs {
			if archived[i], err = g.archived(ctx, l, opens[i], sizes[i]); err != nil {
				return err
			}
		}
		f = lines.NewFrame(g.file, before, archived)
		return nil
	})
	return f, err
}

// archived proves that the first records of a log are its beginning: the first opens ones, behind
// which the archive begins, and the first size ones.
func (g *gatherer) archived(ctx context.Context, l store.Log, opens, size int64) (a lines.Archived, err error) {
	at, err := g.proverAt(ctx, l, size-1)
	if err != nil {
		return a, err
	}
	before, err := g.frontier(ctx, l, opens, at.tree)
	if err != nil {
		return a, err
	}
	frontier, err := g.frontier(ctx, l, size, at.tree)
	if err != nil {
		return a, err
	}
	mark := func(f tlog.Frontier) (lines.Mark, error) {
		proof, err := tlog.ProveConsistency(ctx, g.view.LogTree(l), f.Size, at.tree)
		return lines.Mark{CompanyID: g.by.Company.ID, Log: string(l.Name), Frontier: f, At: g.by.At,
			Consistency: witness.Request{Old: f.Size, Proof: proof, Checkpoint: at.checkpoint}.Format()}, err
	}
	var err1, err2, err3 error
	a.Opening, err1 = mark(before)
	a.End, err2 = mark(frontier)
	a.Checkpoint, err3 = g.by.Company.SignCheckpoint(l, frontier.Tree())
	if err := errors.Join(err1, err2, err3); err != nil {
		return a, fmt.Errorf("log %s: %w", l.ID, err)
	}
	return a, nil
}
