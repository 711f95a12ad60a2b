package search

import (
	"cmp"
	"context"
	"maps"
	"slices"
)

// ActionCount is how many records have an action.
type ActionCount struct {
	Action string
	Total  int64
}

// maxActions is how many actions are distinguished while their records are counted.
const maxActions = 1 << 16

// CountActions counts the records [from, to) of a chain for those actions that have the most of
// them, at most so many; the first has the most. It reads only the records of ranges without a
// summary, and one for the name of each long action. actions is how many there are, at most
// maxActions. It treats pruned records like CountAgents.
func CountActions(
	ctx context.Context, r Reader, chainID, from, to int64, most int,
) (top []ActionCount, actions int, err error) {
	s := nameScan{reader: r, chainID: chainID, from: from, to: to, ofActions: true}
	order, err := s.totals(ctx, maxActions)
	if err != nil {
		return nil, 0, err
	}
	for _, t := range order[:min(namesRead*most, len(order))] {
		if len(top) == most {
			break
		}
		name := t.short
		if name == "" {
			if name, err = s.nameAt(ctx, t.last); err != nil {
				return nil, 0, err
			}
		}
		if name != "" {
			top = append(top, ActionCount{name, t.count})
		}
	}
	return top, len(order), nil
}

// AgentCounts is how many records of an agent there are, in all and between each two neighbours of
// the borders.
type AgentCounts struct {
	Agent  string
	Total  int64
	Counts []int64
}

// maxAgents is how many agents are distinguished while their records are counted. Agents that come
// after so many others in a period are not counted by themselves.
const maxAgents = 1 << 16

// CountAgents counts the records of a chain between each two neighbours in borders, which MUST
// ascend, for those agents that have the most of them, at most so many; the first has the most. It
// reads only the records of ranges without a summary, and one for the name of each agent. agents is
// how many there are, at most maxAgents. An agent all of whose records were pruned has no name, and
// is not among those. Pruned records in ranges without a summary count for no agent.
func CountAgents(ctx context.Context, r Reader, chainID int64, borders []int64, most int) (top []AgentCounts, agents int, err error) {
	s := nameScan{reader: r, chainID: chainID, from: borders[0], to: borders[len(borders)-1]}
	order, err := s.totals(ctx, maxAgents)
	if err != nil {
		return nil, 0, err
	}
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
	return top, len(order), err
}

// total is how many records have a name.
type total struct {
	hash               uint64
	short              string // the name, "" if the summaries do not have it in full
	count, index, last int64  // indexes of the first and last record
}

// totals counts the records of each name, of at most so many names. The first has the most records.
func (s *nameScan) totals(ctx context.Context, most int) ([]*total, error) {
	found := map[uint64]*total{}
	err := s.run(ctx, func(first int64, g *nameRange) {
		var counts, firsts, lasts [Width]int64
		for i := g.n - 1; i >= 0; i-- {
			counts[g.of[i]]++
			firsts[g.of[i]] = first + int64(i)
			lasts[g.of[i]] = max(lasts[g.of[i]], first+int64(i))
		}
		for i, name := range g.names {
			if t := found[name]; t != nil {
				t.count += counts[i]
				t.last = max(t.last, lasts[i])
			} else if counts[i] > 0 && len(found) < most {
				found[name] = &total{name, string(g.short[i]), counts[i], firsts[i], lasts[i]}
			}
		}
	})
	if err != nil {
		return nil, err
	}
	delete(found, noName)
	return slices.SortedFunc(maps.Values(found), func(a, b *total) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.index, b.index))
	}), nil
}
