package service

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"attestd/chain"
	"attestd/chain/evidence"
	"attestd/chain/tlog"
	"attestd/store"
)

// firstTime is before every record.
const firstTime = "0001-01-01T00:00:00.000Z"

// Report returns the header of a report of a period of both logs, and says which records it has:
// those between the two checkpoints of each. It is asked for by times, "" for the first and for
// now: the logs have sizes of their own, and one clock.
func (e *Evidence) Report(ctx context.Context, by store.Caller, from, to string) (evidence.Report, error) {
	// the end is no part of the period, and what has just happened is
	now := chain.FormatTime(by.At.Add(time.Millisecond))
	from, to = cmp.Or(from, firstTime), cmp.Or(to, now)
	if !chain.IsTimestamp(from) || !chain.IsTimestamp(to) || from > to || to > now {
		return evidence.Report{}, refuse(Invalid, "from and to must be times, as in 2026-03-02T09:05:04.218Z, with from ≤ to ≤ now")
	}
	return e.reportOf(ctx, by, from, to)
}

// reportOf is Report of a period that was checked.
func (e *Evidence) reportOf(ctx context.Context, by store.Caller, from, to string) (evidence.Report, error) {
	g := gatherer{by: by}
	r := evidence.Report{From: from, To: to}
	var periods [2][2]int64 // sizes of the logs
	for i, l := range by.Company.Logs() {
		head, _, err := e.Store.Tip(ctx, l.Chain)
		if err != nil {
			return r, err
		}
		for j, at := range []string{from, to} {
			if periods[i][j], err = e.Store.SizeAt(ctx, l.Chain, head.Length, at); err != nil {
				return r, err
			}
		}
		if _, err := e.Checkpoints.Covering(ctx, by, l, periods[i][1]-1); err != nil {
			return r, err
		}
	}
	err := e.Store.Snapshot(ctx, func(v *store.View) (err error) {
		if err := g.begin(ctx, v); err != nil {
			return err
		}
		for i, l := range g.by.Company.Logs() {
			if r.Periods[i], err = g.period(ctx, l, periods[i]); err != nil {
				return err
			}
		}
		return g.reportPolicies(ctx, periods[1], r.Periods[1].End)
	})
	r.File = g.file
	return r, err
}

// reportPolicies gathers what makes the policies in force at the start of a period of the control
// log. The report itself has the changes in the period.
func (g *gatherer) reportPolicies(ctx context.Context, sizes [2]int64, end string) error {
	base, _, ok, err := g.policyQuery(sizes[1]).since(ctx, sizes[0], sizes[1])
	if err != nil || !ok {
		return err
	}
	checkpoint, _, err := tlog.ParseSignedCheckpoint([]byte(end))
	if err != nil {
		return err
	}
	prover := tlog.NewProver(ctx, g.view.LogTree(g.by.Company.Control), checkpoint.Tree)
	g.file.Policies = new(evidence.Policies)
	g.file.Policies.Entries, err = g.entries(ctx, base, func(index int64) (string, error) {
		hashes, err := prover.Prove(index)
		return string(tlog.Proof{Index: index, Hashes: hashes, Checkpoint: []byte(end)}.Format()), err
	})
	return err
}

// period is where a log began and ended in a period.
func (g *gatherer) period(ctx context.Context, l store.Log, sizes [2]int64) (p evidence.Period, err error) {
	published, _, err := g.published(ctx, l, sizes[1]-1)
	if err != nil {
		return p, err
	}
	var trees [2]tlog.Frontier
	var notes [2][]byte
	for i, size := range sizes {
		if trees[i], err = g.frontier(ctx, l, size, published.Tree); err != nil {
			return p, err
		}
		if notes[i], err = g.by.Company.SignCheckpoint(l, trees[i].Tree()); err != nil {
			return p, err
		}
	}
	lines, witnesses, err := g.view.Cosignatures(ctx, l.ID, trees[1].Size)
	g.cosigned(witnesses)
	return evidence.Period{Start: string(notes[0]), Frontier: trees[0], End: string(notes[1]) + lines}, err
}

// frontier returns that of the first size records, when they are a beginning of a tree.
func (g *gatherer) frontier(ctx context.Context, l store.Log, size int64, full tlog.Tree) (f tlog.Frontier, err error) {
	tree := g.view.LogTree(l)
	proof, err := tlog.ProveConsistency(ctx, tree, size, full)
	if err == nil {
		f, err = tlog.FrontierAt(ctx, tree, size)
	}
	if err == nil && tlog.CheckConsistency(proof, f.Tree(), full) != nil {
		err = fmt.Errorf("log %s: hashes on disk do not lead from size %d to the log root of size %d", l.ID, size, full.Size)
	}
	return f, err
}
