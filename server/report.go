package server

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"attestd/chain"
	"attestd/chain/evidence"
	"attestd/chain/tlog"
	"attestd/store"
)

type reportRequest struct {
	From string `query:"from"`
	To   string `query:"to"`
}

// firstTime is before every record.
const firstTime = "0001-01-01T00:00:00.000Z"

// report answers with all records of a period of both logs. It is asked for by times: the logs have
// sizes of their own, and one clock.
func (s *Server) report(ctx context.Context, by store.Caller, r reportRequest) (report, error) {
	// the end is no part of the period, and what has just happened is
	now := chain.FormatTime(by.At.Add(time.Millisecond))
	from, to := cmp.Or(r.From, firstTime), cmp.Or(r.To, now)
	if !chain.IsTimestamp(from) || !chain.IsTimestamp(to) || from > to || to > now {
		return report{}, fail(http.StatusBadRequest, "from and to must be times, as in 2026-03-02T09:05:04.218Z, with from ≤ to ≤ now")
	}
	return settled(func() (report, error) { return s.gatherReport(ctx, by, from, to) })
}

// report is an answer of the records of a period, as they stand on disk, in constant memory at any
// length.
type report struct {
	evidence.Report
	chains [2]int64
}

func (s *Server) gatherReport(ctx context.Context, by store.Caller, from, to string) (a report, err error) {
	g, err := s.newGatherer(ctx, by)
	if err != nil {
		return a, err
	}
	a.Report = evidence.Report{From: from, To: to, File: g.file}
	for i, l := range g.by.Company.Logs() {
		a.chains[i] = l.Chain
		if a.Periods[i], err = g.period(ctx, l, from, to); err != nil {
			return a, err
		}
	}
	return a, g.keys(ctx)
}

// period finds where a log began and ended in a period. Both checkpoints are of the present key,
// and of beginnings of a tree that is published: nothing else is signed here, also where the
// database was rolled back and nothing more is published.
func (g *gatherer) period(ctx context.Context, l store.Log, from, to string) (p evidence.Period, err error) {
	head, _, err := g.Store.Tip(ctx, l.Chain)
	if err != nil {
		return p, err
	}
	var sizes [2]int64
	for i, at := range []string{from, to} {
		if sizes[i], err = g.Store.SizeAt(ctx, l.Chain, head.Length, at); err != nil {
			return p, err
		}
	}
	signed, err := g.checkpoints.covering(ctx, g.by, l, sizes[1]-1)
	if err != nil {
		return p, err
	}
	published, _, err := tlog.ParseSignedCheckpoint(signed)
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
	lines, witnesses, err := g.Store.Cosignatures(ctx, l.ID, trees[1].Size)
	g.cosigned(witnesses)
	g.highest[l.Name] = trees[1].Size - 1
	return evidence.Period{Start: string(notes[0]), Frontier: trees[0], End: string(notes[1]) + lines}, err
}

// frontier returns that of the first size records, when they are a beginning of a tree.
func (g *gatherer) frontier(ctx context.Context, l store.Log, size int64, whole tlog.Tree) (f tlog.Frontier, err error) {
	tree := g.Store.LogTree(l)
	proof, err := tlog.ProveConsistency(ctx, tree, size, whole)
	if err == nil {
		f, err = tlog.FrontierAt(ctx, tree, size)
	}
	if err == nil && tlog.CheckConsistency(proof, f.Tree(), whole) != nil {
		err = fmt.Errorf("log %s: hashes on disk do not lead from size %d to the root of size %d", l.ID, size, whole.Size)
	}
	return f, err
}

func (report) setHeader(h http.Header) { h.Set("Cache-Control", "no-store") }

func (a report) writeTo(c *call, status int) error {
	c.w.Header().Set("Content-Type", jsonLines.contentType)
	c.w.WriteHeader(status)
	if c.Method == http.MethodHead {
		return nil
	}
	buf := bytes.NewBuffer(append(a.Header(), '\n'))
	for _, i := range []int{1, 0} { // what was changed before what was done
		l := &a.File.Logs[i]
		checkpoint, _, err := tlog.ParseSignedCheckpoint([]byte(a.Periods[i].End))
		if err == nil {
			err = c.eachRecord(buf, a.chains[i], a.Periods[i].Frontier.Size, checkpoint.Size, func(r *chain.Record) {
				buf.Write(append(evidence.AppendLine(buf.AvailableBuffer(), l.Name, r), '\n'))
			})
		}
		if err != nil {
			return err
		}
	}
	_, err := buf.WriteTo(c.w)
	return err
}
