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
