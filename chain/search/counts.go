package search

import (
	"cmp"
	"context"
	"slices"
)

// ActionCount is how many records have an action.
type ActionCount struct {
	Action string
	Total  int64
}

// maxActions is how many actions are told apart while their records are counted.
const maxActions = 1 << 16

// CountActions counts the records [from, to) of a chain for those actions that have the most of
// them, at most so many; the first has the most. It reads only the records of ranges without a
// summary, and one for the name of each long action. actions is how many there are, at most
// maxActions. It treats pruned records like CountAgents.
func CountActions(
	ctx context.Context, r Reader, chainID, from, to int64, most int,
) (top []ActionCount, actions int, err error) {
	type total struct {
		name               string // "" if it is not known yet
		count, index, last int64  // indexes of the first and last record
	}
	totals := map[uint64]*total{}
	s := nameScan{reader: r, chainID: chainID, from: from, to: to, ofActions: true}
	err = s.run(ctx, func(first int64, g *nameRange) {
		var counts, firsts, lasts [Width]int64
		for i := g.n - 1; i >= 0; i-- {
			counts[g.of[i]]++
			firsts[g.of[i]] = first + int64(i)
			lasts[g.of[i]] = max(lasts[g.of[i]], first+int64(i))
		}
		for i, action := range g.names {
			if t := totals[action]; t != nil {
				t.count += counts[i]
				t.last = max(t.last, lasts[i])
			} else if counts[i] > 0 && len(totals) < maxActions {
				totals[action] = &total{string(g.short[i]), counts[i], firsts[i], lasts[i]}
			}
		}
	})
	if err != nil {
		return nil, 0, err
	}
	delete(totals, noName)
	order := make([]*total, 0, len(totals))
	for _, t := range totals {
		order = append(order, t)
	}
	slices.SortFunc(order, func(a, b *total) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.index, b.index))
	})
	for _, t := range order[:min(namesRead*most, len(order))] {
		if len(top) == most {
			break
		}
		if t.name == "" {
			if t.name, err = s.nameAt(ctx, t.last); err != nil {
				return nil, 0, err
			}
		}
		if t.name != "" {
			top = append(top, ActionCount{t.name, t.count})
		}
	}
	return top, len(totals), nil
}

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
// how many there are, at most maxAgents. An agent all of whose records were pruned has no name, and
// is not among those. Pruned records in ranges without a summary count for no agent.
func CountAgents(ctx context.Context, r Reader, chainID int64, borders []int64, most int) (top []AgentCounts, agents int, err error) {
	type total struct {
		hash               uint64
		count, index, last int64 // indexes of the first and last record
	}
	totals := map[uint64]*total{}
	from, to := borders[0], borders[len(borders)-1]
	s := nameScan{reader: r, chainID: chainID, from: from, to: to}
	err = s.run(ctx, func(first int64, g *nameRange) {
		var counts, firsts, lasts [Width]int64
		for i := g.n - 1; i >= 0; i-- {
			counts[g.of[i]]++
			firsts[g.of[i]] = first + int64(i)
			lasts[g.of[i]] = max(lasts[g.of[i]], first+int64(i))
		}
		for i, agent := range g.names {
			if t := totals[agent]; t != nil {
				t.count += counts[i]
				t.last = max(t.last, lasts[i])
			} else if counts[i] > 0 && len(totals) < maxAgents {
				totals[agent] = &total{agent, counts[i], firsts[i], lasts[i]}
			}
		}
	})
	if err != nil {
		return nil, 0, err
	}
	delete(totals, noName)
	order := make([]*total, 0, len(totals))
	for _, t := range totals {
		order = append(order, t)
	}
	slices.SortFunc(order, func(a, b *total) int { return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.index, b.index)) })
	place := make(map[uint64]int, most)
	for _, t := range order[:min(namesRead*most, len(order))] {
		if len(top) == most {
			break
		}
		// Payloads are pruned from the beginning, so the last record has the name if any has.
		name, err := s.nameAt(ctx, t.last)
		if err != nil {
			return nil, 0, err
		}
		if name != "" {
			place[t.hash] = len(top)
			top = append(top, AgentCounts{name, t.count, make([]int64, len(borders)-1)})
		}
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
