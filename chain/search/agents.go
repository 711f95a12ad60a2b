package search

import (
	"cmp"
	"context"
	"slices"
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
	s := nameScan{reader: r, chainID: chainID, from: from, to: to}
	err = s.run(ctx, func(first int64, g *nameRange) {
		var counts, firsts [Width]int64
		for i := g.n - 1; i >= 0; i-- {
			counts[g.of[i]]++
			firsts[g.of[i]] = first + int64(i)
		}
		for i, agent := range g.names {
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
	err = s.run(ctx, func(first int64, g *nameRange) {
		var places [Width]int
		for i, agent := range g.names {
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
