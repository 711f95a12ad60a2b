package search

import (
	"context"
	"encoding/binary"
	"errors"

	"attestd/chain"
)

// nameScan tells which agents, or which actions, the records [from, to) of a chain are of.
type nameScan struct {
	reader            Reader
	chainID, from, to int64
	ofActions         bool
	terms             Terms
}

// noName is the hash of the name of records whose payload was pruned, as far as no summary has
// theirs.
var noName = hashOf([]byte(nil))

// namesRead bounds how many names are read for each that is returned, where payloads were pruned.
const namesRead = 4

// nameRange tells which names, of agents or actions, at most Width neighbouring records have.
type nameRange struct {
	names []uint64 // as hashes
	short [][]byte // of each, what a summary has in full; nil for others
	n     int
	of    [Width]uint8 // number of the name of each of the n records
}

// run calls yield for all records, in order. What it gives is only valid during the call.
func (s *nameScan) run(ctx context.Context, yield func(first int64, g *nameRange)) error {
	var g nameRange
	for next := s.from; next < s.to; {
		last := min(next/Width+windowSummaries, (s.to-1)/Width+1)
		err := s.reader.Summaries(ctx, s.chainID, next/Width, last, false, func(index int64, summary []byte) error {
			if index != next/Width || !g.set(summary, s.ofActions) {
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
// least one. The name in a record whose payload was pruned is "", which no other has.
func (s *nameScan) read(ctx context.Context, next, to int64, g *nameRange) error {
	g.names, g.short, g.n = g.names[:0], g.short[:0], 0
	size := 0
	err := s.reader.Records(ctx, s.chainID, next, to, func(r *chain.Record) error {
		if r.Index != next+int64(g.n) {
			return &DamageError{next + int64(g.n), chain.ErrMissing}
		}
		if err := s.terms.Read(r); err != nil {
			return err
		}
		g.of[g.n] = uint8(indexOf(&g.names, hashOf(s.name())))
		for len(g.short) < len(g.names) {
			g.short = append(g.short, nil)
		}
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

// name returns the name in the record that was read last.
func (s *nameScan) name() []byte {
	if s.ofActions {
		return s.terms.Action
	}
	return s.terms.Agent
}

// nameAt returns the name in a record.
func (s *nameScan) nameAt(ctx context.Context, index int64) (name string, err error) {
	err = s.read(ctx, index, index+1, new(nameRange))
	return string(s.name()), err
}

// set sets g to what a summary says. It returns false if the summary is malformed.
func (g *nameRange) set(summary []byte, ofActions bool) bool {
	agents, actions, _, rest, err := (&Filter{}).lists(summary)
	if err != nil {
		return false
	}
	var nameOf [Width]uint8 // by combination
	records, rest, ok := combinations(rest, agents.len, actions.len, func(i, agent, action int, _ []byte) {
		if nameOf[i] = uint8(agent); ofActions {
			nameOf[i] = uint8(action)
		}
	})
	if !ok {
		return false
	}
	if _, ok = decisions(rest, summary[0], "", func(int, byte, Verdict) {}); !ok {
		return false
	}
	g.names, g.short, g.n = g.names[:0], g.short[:0], Width
	after := 2 + agents.len*hashSize
	if ofActions {
		g.setActions(summary[after+1:], actions.len)
	} else {
		for at := 2; at < after; at += hashSize {
			g.names, g.short = append(g.names, binary.BigEndian.Uint64(summary[at:])), append(g.short, nil)
		}
	}
	for i := range g.of {
		g.of[i] = nameOf[numberAt(records, i)]
	}
	return true
}

// setActions sets the names to the actions in the list of a well-formed summary.
func (g *nameRange) setActions(list []byte, count int) {
	for range count {
		if length := int(list[0]); length != longAction {
			name := list[1 : 1+length]
			g.names, g.short = append(g.names, hashOf(name)), append(g.short, name)
			list = list[1+length:]
			continue
		}
		list = list[1+actionStart:]
		g.names, g.short = append(g.names, binary.BigEndian.Uint64(list)), append(g.short, nil)
		list = list[hashSize:]
	}
}

// cut leaves the records [from, to) of a range.
func (g *nameRange) cut(from, to int) {
	copy(g.of[:], g.of[from:to])
	g.n = to - from
}
