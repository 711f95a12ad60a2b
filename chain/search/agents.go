package search

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"attestd/chain"
)

// AgentCounts is how many records of an agent there are, in all and between each two neighbours of
// the borders.
type AgentCounts struct {
	Agent  string
	Total  int64
	Counts []int64
}

// maxAgents is how many agents are told apart while their records are counted. Agents that come
// after so many others in a period are not counted by themselves.
const maxAgents = 1 << 16

// CountAgents counts the records of a chain between each two neighbours in borders, which MUST
// ascend, for those agents that have the most of them, at most so many; the first has the most. It
// reads only the records of ranges without a summary, and one for the name of each agent. agents is
// how many there are, at most maxAgents.
func CountAgents(ctx context.Context, r Reader, chainID int64, borders []int64, most int) (top []AgentCounts, agents int, err error) {
	type total struct {
		hash         uint64
		count, index int64 // index of the first record
	}
	totals := map[uint64]*total{}
	from, to := borders[0], borders[len(borders)-1]
	s := agentScan{reader: r, chainID: chainID, from: from, to: to}
	err = s.run(ctx, func(first int64, g *agentRange) {
		var counts, firsts [Width]int64
		for i := g.n - 1; i >= 0; i-- {
			counts[g.of[i]]++
			firsts[g.of[i]] = first + int64(i)
		}
		for i, agent := range g.agents {
			if t := totals[agent]; t != nil {
				t.count += counts[i]
			} else if counts[i] > 0 && len(totals) < maxAgents {
				totals[agent] = &total{agent, counts[i], firsts[i]}
			}
		}
	})
	if err != nil {
		return nil, 0, err
	}
	order := make([]*total, 0, len(totals))
	for _, t := range totals {
		order = append(order, t)
	}
	slices.SortFunc(order, func(a, b *total) int { return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.index, b.index)) })
	order = order[:min(most, len(order))]
	place := make(map[uint64]int, len(order))
	top = make([]AgentCounts, len(order))
	for i, t := range order {
		place[t.hash] = i
		if top[i].Agent, err = s.nameAt(ctx, t.index); err != nil {
			return nil, 0, err
		}
		top[i].Total, top[i].Counts = t.count, make([]int64, len(borders)-1)
	}
	at := 0
	err = s.run(ctx, func(first int64, g *agentRange) {
		var places [Width]int
		for i, agent := range g.agents {
			places[i] = -1
			if p, is := place[agent]; is {
				places[i] = p
			}
		}
		for i := range g.n {
			for first+int64(i) >= borders[at+1] {
				at++
			}
			if p := places[g.of[i]]; p >= 0 {
				top[p].Counts[at]++
			}
		}
	})
	return top, len(totals), err
}

// agentScan tells which agents the records [from, to) of a chain are of.
type agentScan struct {
	reader            Reader
	chainID, from, to int64
	terms             Terms
}

// agentRange tells which agents at most Width neighbouring records are of.
type agentRange struct {
	agents []uint64 // as hashes
	n      int
	of     [Width]uint8 // number of the agent of each of the n records
}

// run calls yield for all records, in order. What it gives is only valid during the call.
func (s *agentScan) run(ctx context.Context, yield func(first int64, g *agentRange)) error {
	var g agentRange
	for next := s.from; next < s.to; {
		last := min(next/Width+windowSummaries, (s.to-1)/Width+1)
		err := s.reader.Summaries(ctx, s.chainID, next/Width, last, false, func(index int64, summary []byte) error {
			if index != next/Width || !g.set(summary) {
				return errStop
			}
			g.cut(int(next%Width), int(min(Width, s.to-index*Width)))
			yield(next, &g)
			next += int64(g.n)
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			return err
		}
		if next >= min(last*Width, s.to) {
			continue
		}
		// no summary decides the range of next
		if err = s.read(ctx, next, min((next/Width+1)*Width, s.to), &g); err != nil {
			return err
		}
		yield(next, &g)
		next += int64(g.n)
	}
	return nil
}

// read sets g to what records say of themselves, in one short read: to those from next on, and at
// least one.
func (s *agentScan) read(ctx context.Context, next, to int64, g *agentRange) error {
	g.agents, g.n = g.agents[:0], 0
	size := 0
	err := s.reader.Records(ctx, s.chainID, next, to, func(r *chain.Record) error {
		if r.Index != next+int64(g.n) {
			return &DamageError{next + int64(g.n), chain.ErrMissing}
		}
		if err := s.terms.Read(r); err != nil {
			return err
		}
		g.of[g.n] = uint8(indexOf(&g.agents, hashOf(s.terms.Agent)))
		g.n++
		if size += len(r.Payload) + len(r.Delegation); size >= stepBytes {
			return errStop
		}
		return nil
	})
	if errors.Is(err, errStop) {
		return nil
	}
	if at := next + int64(g.n); err == nil && at < to {
		err = &DamageError{at, chain.ErrMissing}
	}
	return err
}

// nameAt returns the agent of a record.
func (s *agentScan) nameAt(ctx context.Context, index int64) (name string, err error) {
	err = s.read(ctx, index, index+1, new(agentRange))
	return string(s.terms.Agent), err
}

// set sets g to what a summary says. It returns false if the summary is malformed.
func (g *agentRange) set(summary []byte) bool {
	agents, actions, _, rest, err := (&Filter{}).lists(summary)
	if err != nil {
		return false
	}
	var agentOf [Width]uint8 // by combination
	count, rest, ok := combinations(rest, agents.len, actions.len, func(i, agent, _ int, _ []byte) { agentOf[i] = uint8(agent) })
	if !ok {
		return false
	}
	g.agents, g.n = g.agents[:0], Width
	for i := range agents.len {
		g.agents = append(g.agents, binary.BigEndian.Uint64(summary[2+i*hashSize:]))
	}
	for i := range g.of {
		if g.of[i] = agentOf[0]; count > 1 {
			g.of[i] = agentOf[rest[i]]
		}
	}
	return true
}

// cut leaves the records [from, to) of a range.
func (g *agentRange) cut(from, to int) {
	copy(g.of[:], g.of[from:to])
	g.n = to - from
}
