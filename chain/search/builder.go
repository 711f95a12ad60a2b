package search

import "attestd/chain"

// Builder makes summaries of chains while these grow. It has seen a range from its first record on
// or leaves it out: where others extend a chain too, or what was added did not come to stay, its
// summary is to be made of what is on disk, by Summarize.
type Builder struct {
	chains map[int64]*growing
	open   []int64 // chains to which was added since the last Keep or Drop
	size   int     // of all, in bytes
	terms  Terms
}

// growing is the summary of the last range of a chain, and the number of the record that comes
// next.
type growing struct {
	summary *Summary
	next    int64
	size    int
}

// maxBuilding bounds what a Builder holds. A chain takes some 600 bytes most often, and 60 KB where
// each record has an agent, an action and ten principals of its own; one that does not find room is
// forgotten.
const maxBuilding = 32 << 20

// Ready is a summary that is complete.
type Ready struct {
	Chain, Index int64
	Terms        []byte
}

// NewBuilder returns one that has seen nothing.
func NewBuilder() *Builder { return &Builder{chains: make(map[int64]*growing)} }

// Add takes in records that follow one another in a chain. It returns the summaries that they
// complete, and whether one of these is left out.
func (b *Builder) Add(number int64, records []chain.Record) (ready []Ready, leftOut bool) {
	if len(records) == 0 {
		return nil, false
	}
	b.open = append(b.open, number)
	var s *Summary
	if g := b.chains[number]; g != nil && g.next == records[0].Index {
		s = g.summary
	}
	for i := range records {
		r := &records[i]
		if r.Index%Width == 0 {
			s = new(Summary)
		}
		if s != nil && (b.terms.Read(r) != nil || !s.Add(&b.terms)) {
			s = nil
		}
		if r.Index%Width == Width-1 {
			if leftOut = leftOut || s == nil; s != nil {
				ready = append(ready, Ready{number, r.Index / Width, s.Append(nil)})
			}
			s = nil
		}
	}
	b.put(number, s, records[len(records)-1].Index+1)
	return ready, leftOut
}

func (b *Builder) put(number int64, s *Summary, next int64) {
	b.forget(number)
	if s == nil {
		return
	}
	size := s.size()
	for other := range b.chains { // an arbitrary one
		if b.size+size <= maxBuilding {
			break
		}
		b.forget(other)
	}
	b.chains[number] = &growing{s, next, size}
	b.size += size
}

func (b *Builder) forget(number int64) {
	if g := b.chains[number]; g != nil {
		b.size -= g.size
		delete(b.chains, number)
	}
}

// Keep says that all that was added has come to stay, but for what was added to some chains.
func (b *Builder) Keep(but []int64) {
	for _, number := range but {
		b.forget(number)
	}
	b.open = b.open[:0]
}

// Drop says that nothing of what was added since the last Keep has come to stay, as far as is
// known.
func (b *Builder) Drop() {
	for _, number := range b.open {
		b.forget(number)
	}
	b.open = b.open[:0]
}

// Clear forgets all: someone else has written.
func (b *Builder) Clear() {
	clear(b.chains)
	b.open, b.size = b.open[:0], 0
}

// size is about how much memory a summary in the making takes.
func (s *Summary) size() int {
	size := 256 + 8*(cap(s.agents)+cap(s.principals)) + 72*cap(s.actions) + cap(s.records)
	for i := range s.combinations {
		size += 64 + 2*len(s.combinations[i].principals)
	}
	return size
}
