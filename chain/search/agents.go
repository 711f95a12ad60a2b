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
	err = s.run(ctx, func(index int64, agent uint64) {
		if t := totals[agent]; t != nil {
			t.count++
		} else if len(totals) < maxAgents {
			totals[agent] = &total{agent, 1, index}
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
	err = s.run(ctx, func(index int64, agent uint64) {
		for index >= borders[at+1] {
			at++
		}
		if i, is := place[agent]; is {
			top[i].Counts[at]++
		}
	})
	return top, len(totals), err
}

// agentScan tells which agents the records [from, to) of a chain are of, as hashes.
type agentScan struct {
	reader            Reader
	chainID, from, to int64
	terms             Terms
}

// run calls yield for each record, in order.
func (s *agentScan) run(ctx context.Context, yield func(index int64, agent uint64)) error {
	var agents [Width]uint64
	for next := s.from; next < s.to; {
		last := min(next/Width+windowSummaries, (s.to-1)/Width+1)
		err := s.reader.Summaries(ctx, s.chainID, next/Width, last, false, func(index int64, summary []byte) error {
			if index != next/Width || !agentsOf(summary, &agents) {
				return errStop
			}
			for end := min((index+1)*Width, s.to); next < end; next++ {
				yield(next, agents[next%Width])
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			return err
		}
		if next >= min(last*Width, s.to) {
			continue
		}
		// no summary decides the range of next
		if next, err = s.read(ctx, next, min((next/Width+1)*Width, s.to), yield); err != nil {
			return err
		}
	}
	return nil
}

// read reads records in one short read, and returns the index after the last.
func (s *agentScan) read(ctx context.Context, next, to int64, yield func(index int64, agent uint64)) (int64, error) {
	first, size := next, 0
	err := s.reader.Records(ctx, s.chainID, next, to, func(r *chain.Record) error {
		if r.Index != next {
			return &DamageError{next, chain.ErrMissing}
		}
		if err := s.terms.Read(r); err != nil {
			return err
		}
		yield(next, hashOf(s.terms.Agent))
		next++
		if size += len(r.Payload) + len(r.Delegation); size >= stepBytes {
			return errStop
		}
		return nil
	})
	if errors.Is(err, errStop) {
		return next, nil
	}
	if err == nil && (next < to || next == first) {
		err = &DamageError{next, chain.ErrMissing}
	}
	return next, err
}

// nameAt returns the agent of a record.
func (s *agentScan) nameAt(ctx context.Context, index int64) (name string, err error) {
	_, err = s.read(ctx, index, index+1, func(int64, uint64) { name = string(s.terms.Agent) })
	return name, err
}

// agentsOf sets the agents of the records that a summary covers, as hashes. It returns false if the
// summary is malformed.
func agentsOf(summary []byte, of *[Width]uint64) bool {
	agents, actions, _, rest, err := (&Filter{}).lists(summary)
	if err != nil {
		return false
	}
	var hashes [Width]uint64 // by combination
	count, rest, ok := combinations(rest, agents.len, actions.len, func(i, agent, _ int, _ []byte) {
		hashes[i] = binary.BigEndian.Uint64(summary[2+agent*hashSize:])
	})
	if !ok {
		return false
	}
	for i := range of {
		if of[i] = hashes[0]; count > 1 {
			of[i] = hashes[rest[i]]
		}
	}
	return true
}
