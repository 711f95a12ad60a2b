package search

import "attestd/chain"

// Builder makes summaries of chains while they grow. It omits a range of which it has not seen
// every record, as after a failed write or a write by another process. Summarize makes the summary
// of such a range from the stored records.
type Builder struct {
	chains map[int64]*growing
	open   []int64 // chains with records added since the last Keep or Drop
	size   int     // bytes of all summaries
	terms  Terms
}

// growing is the incomplete summary of the last range of a chain, and the index of the next record.
type growing struct {
	summary *Summary
	next    int64
	size    int
}

// maxBuilding bounds the memory of a Builder. A chain usually takes about 600 bytes, and 60 KB if
// each record has its own agent, action and ten principals. Over the bound, arbitrary chains are
// dropped.
const maxBuilding = 32 << 20

// Ready is a complete summary.
type Ready struct {
	Chain, Index int64
	Terms        []byte
}

// NewBuilder returns an empty Builder.
func NewBuilder() *Builder { return &Builder{chains: make(map[int64]*growing)} }

// Add adds consecutive records of a chain. It returns the summaries that they complete. leftOut
// reports whether it omitted one.
func (b *Builder) Add(chainID int64, records []chain.Record) (ready []Ready, leftOut bool) {
	if len(records) == 0 {
		return nil, false
	}
	b.open = append(b.open, chainID)
	var s *Summary
	if g := b.chains[chainID]; g != nil && g.next == records[0].Index {
		s = g.summary
	}
	for i := range records {
		r := &records[i]
		if r.Index%Width == 0 {
			s = new(Summary)
		}
		if s != nil && (r.IsPruned() || b.terms.Read(r) != nil || !s.Add(&b.terms)) {
			s = nil
		}
		if r.Index%Width == Width-1 {
			if leftOut = leftOut || s == nil; s != nil {
				ready = append(ready, Ready{chainID, r.Index / Width, s.Append(nil)})
			}
			s = nil
		}
	}
	b.put(chainID, s, records[len(records)-1].Index+1)
	return ready, leftOut
}

func (b *Builder) put(chainID int64, s *Summary, next int64) {
	b.forget(chainID)
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
	b.chains[chainID] = &growing{s, next, size}
	b.size += size
}

func (b *Builder) forget(chainID int64) {
	if g := b.chains[chainID]; g != nil {
		b.size -= g.size
		delete(b.chains, chainID)
	}
}

// Keep confirms that the added records are stored, except those of the listed chains.
func (b *Builder) Keep(but []int64) {
	for _, chainID := range but {
		b.forget(chainID)
	}
	b.open = b.open[:0]
}

// Drop discards the records added since the last Keep: they are not stored, or their outcome is
// unknown.
func (b *Builder) Drop() {
	for _, chainID := range b.open {
		b.forget(chainID)
	}
	b.open = b.open[:0]
}

// Clear discards everything, after a write by another process.
func (b *Builder) Clear() {
	clear(b.chains)
	b.open, b.size = b.open[:0], 0
}

// size estimates the memory of an incomplete summary.
func (s *Summary) size() int {
	size := 256 + 8*(cap(s.agents)+cap(s.principals)) + 72*cap(s.actions) + cap(s.records)
	for i := range s.combinations {
		size += 64 + 2*len(s.combinations[i].principals)
	}
	return size
}
