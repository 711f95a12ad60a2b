package search

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"attestd/chain"
	"attestd/chain/decision"
	"attestd/internal/bounded"
)

const (
	version        = 1
	versionDecided = 2 // of ranges in which a record has a decision

	maxAction   = 32  // maximum bytes of an action that a summary stores in full
	longAction  = 255 // in place of the length of a longer one
	actionStart = 24  // stored prefix of a longer one
	hashSize    = 8

	maxPrincipals = 16 // of a record; a delegation that attestd issues has at most ten

	maxPolicies  = 8   // of a decision that a summary lists
	manyPolicies = 255 // in place of the number of more
)

// verdicts of decisions, in a summary by their numbers from 1.
var verdicts = []string{decision.Allow, decision.Deny, decision.Ask}

// indexOfVerdict returns the number of a verdict less one; -1 if it is unknown.
func indexOfVerdict(verdict []byte) int {
	return slices.IndexFunc(verdicts, func(v string) bool { return v == string(verdict) })
}

// Summary is an incomplete summary of a range of records.
type Summary struct {
	// as hashes; a search for one of two names with the same hash finds the records of both
	agents, principals []uint64
	// in stored form; with hashes alone, a collision could hide an action
	actions      [][]byte
	combinations []combination
	records      []byte // combination of each record

	// empty until the first record with a decision; decided has the decision of each record so far
	policies  []uint64
	decisions []decided
	decided   []byte
}

type decided struct {
	verdict  uint8 // 0 for no decision
	isMany   bool  // made by more than maxPolicies
	policies []uint16
}

type combination struct {
	agent, action uint8
	principals    []uint16
}

// Len returns the number of added records, at most Width.
func (s *Summary) Len() int { return len(s.records) }

// Add adds the terms of the next record. It returns false if the record has more than
// maxPrincipals, which attestd never writes: such a range has no summary.
func (s *Summary) Add(t *Terms) bool {
	if len(t.Principals) > maxPrincipals {
		return false
	}
	agent, action := indexOf(&s.agents, hashOf(t.Agent)), s.action(t.Action)
	var fixed [maxPrincipals]uint16
	principals := fixed[:0]
	for _, p := range t.Principals {
		principals = append(principals, uint16(indexOf(&s.principals, hashOf(p))))
	}
	same := func(c combination) bool {
		return c.agent == uint8(agent) && c.action == uint8(action) && slices.Equal(c.principals, principals)
	}
	at := slices.IndexFunc(s.combinations, same)
	if at < 0 {
		at = len(s.combinations)
		s.combinations = append(s.combinations, combination{uint8(agent), uint8(action), slices.Clone(principals)})
	}
	s.records = append(s.records, uint8(at))
	if t.Verdict != nil || len(s.decisions) > 0 {
		s.addDecision(t)
	}
	return true
}

// addDecision adds the decision of the last record, or that it has none.
func (s *Summary) addDecision(t *Terms) {
	if before := len(s.records) - 1; len(s.decisions) == 0 && before > 0 {
		s.decisions, s.decided = append(s.decisions, decided{}), make([]byte, before, Width)
	}
	var fixed [maxPolicies]uint16
	d := decided{policies: fixed[:0]}
	if t.Verdict != nil {
		d.verdict = uint8(indexOfVerdict(t.Verdict) + 1)
	}
	if d.isMany = len(t.Policies) > maxPolicies; !d.isMany {
		for _, id := range t.Policies {
			d.policies = append(d.policies, uint16(indexOf(&s.policies, hashOf(id))))
		}
	}
	at := slices.IndexFunc(s.decisions, func(o decided) bool {
		return o.verdict == d.verdict && o.isMany == d.isMany && slices.Equal(o.policies, d.policies)
	})
	if at < 0 {
		at = len(s.decisions)
		d.policies = slices.Clone(d.policies)
		s.decisions = append(s.decisions, d)
	}
	s.decided = append(s.decided, uint8(at))
}

// Append appends the encoded summary, which MUST have Width records.
func (s *Summary) Append(dst []byte) []byte {
	if len(s.decisions) == 0 {
		dst = append(dst, version)
	} else {
		dst = append(dst, versionDecided)
	}
	dst = appendHashes(append(dst, byte(len(s.agents)-1)), s.agents)
	dst = append(dst, byte(len(s.actions)-1))
	for _, action := range s.actions {
		dst = append(dst, action...)
	}
	dst = appendHashes(binary.BigEndian.AppendUint16(dst, uint16(len(s.principals))), s.principals)
	dst = append(dst, byte(len(s.combinations)-1))
	for _, c := range s.combinations {
		dst = append(dst, c.agent, c.action, byte(len(c.principals)))
		for _, p := range c.principals {
			dst = binary.BigEndian.AppendUint16(dst, p)
		}
	}
	if len(s.combinations) > 1 {
		dst = append(dst, s.records...)
	}
	if len(s.decisions) == 0 {
		return dst
	}
	dst = appendHashes(binary.BigEndian.AppendUint16(dst, uint16(len(s.policies))), s.policies)
	dst = append(dst, byte(len(s.decisions)-1))
	for _, d := range s.decisions {
		if dst = append(dst, d.verdict); d.isMany {
			dst = append(dst, manyPolicies)
			continue
		}
		dst = append(dst, byte(len(d.policies)))
		for _, p := range d.policies {
			dst = binary.BigEndian.AppendUint16(dst, p)
		}
	}
	if len(s.decisions) > 1 {
		dst = append(dst, s.decided...)
	}
	return dst
}

// indexOf returns the index of a hash in a list, to which it adds a new one.
func indexOf(list *[]uint64, hash uint64) int {
	at := slices.Index(*list, hash)
	if at < 0 {
		at = len(*list)
		*list = append(*list, hash)
	}
	return at
}

// action returns the index of an action in the list, to which it adds a new one.
func (s *Summary) action(action []byte) int {
	var fixed [1 + max(maxAction, actionStart+hashSize)]byte
	stored := appendAction(fixed[:0], action)
	at := slices.IndexFunc(s.actions, func(other []byte) bool { return bytes.Equal(other, stored) })
	if at < 0 {
		at = len(s.actions)
		s.actions = append(s.actions, bytes.Clone(stored))
	}
	return at
}

func hashOf[T string | []byte](text T) uint64 {
	sum := sha256.Sum256([]byte(text))
	return binary.BigEndian.Uint64(sum[:])
}

func appendHashes(dst []byte, hashes []uint64) []byte {
	for _, h := range hashes {
		dst = binary.BigEndian.AppendUint64(dst, h)
	}
	return dst
}

func appendAction(dst, action []byte) []byte {
	if len(action) <= maxAction {
		return append(append(dst, byte(len(action))), action...)
	}
	dst = append(append(dst, longAction), action[:actionStart]...)
	return binary.BigEndian.AppendUint64(dst, hashOf(action))
}

// Builder makes summaries of chains while they grow. It omits a range of which it has not seen
// every record, as after a failed write or a write by another process. Summarize makes the summary
// of such a range from the stored records.
type Builder struct {
	chains *bounded.Map[int64, growing]
	open   []int64 // chains with records added since the last Confirm or Drop
	terms  Terms
}

// growing is the incomplete summary of the last range of a chain, and the index of the next record.
type growing struct {
	summary *Summary
	next    int64
	size    int // of the summary then, which grows in place
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
func NewBuilder() *Builder {
	return &Builder{chains: bounded.NewWeighted(maxBuilding, func(_ int64, g growing) int { return g.size })}
}

// Add adds consecutive records of a chain. It returns the summaries that they complete. omitted
// reports whether it omitted one.
func (b *Builder) Add(chainID int64, records []chain.Record) (ready []Ready, omitted bool) {
	if len(records) == 0 {
		return nil, false
	}
	b.open = append(b.open, chainID)
	var s *Summary
	if g, is := b.chains.Get(chainID); is && g.next == records[0].Index {
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
			if omitted = omitted || s == nil; s != nil {
				ready = append(ready, Ready{chainID, r.Index / Width, s.Append(nil)})
			}
			s = nil
		}
	}
	if s == nil {
		b.chains.Delete(chainID)
	} else {
		b.chains.Put(chainID, growing{s, records[len(records)-1].Index + 1, s.size()})
	}
	return ready, omitted
}

// Confirm confirms that the added records are stored, except those of the listed chains.
func (b *Builder) Confirm(but []int64) {
	for _, chainID := range but {
		b.chains.Delete(chainID)
	}
	b.open = b.open[:0]
}

// Drop discards the records added since the last Confirm: they are not stored, or their outcome is
// unknown.
func (b *Builder) Drop() {
	for _, chainID := range b.open {
		b.chains.Delete(chainID)
	}
	b.open = b.open[:0]
}

// Clear discards everything, after a write by another process.
func (b *Builder) Clear() {
	b.chains.Clear()
	b.open = b.open[:0]
}

// size estimates the memory of an incomplete summary.
func (s *Summary) size() int {
	size := 256 + 8*(cap(s.agents)+cap(s.principals)) + 72*cap(s.actions) + cap(s.records)
	for i := range s.combinations {
		size += 64 + 2*len(s.combinations[i].principals)
	}
	size += 8*cap(s.policies) + cap(s.decided)
	for i := range s.decisions {
		size += 64 + 2*len(s.decisions[i].policies)
	}
	return size
}

// Summarize makes the summary with an index from stored records, in short reads. It returns nil if
// a record does not fit into a summary or its payload was pruned, and a *DamageError for a damaged
// record.
func Summarize(ctx context.Context, r Reader, chainID, index int64) ([]byte, error) {
	var s Summary
	var t Terms
	var err error
	fits := true
	scan := NewScan(r, chainID, Filter{}, index*Width, (index+1)*Width, false)
	for err == nil && fits && !scan.Done() {
		var readErr error
		err = scan.Step(ctx, func(r *chain.Record) bool {
			if readErr = t.Read(r); readErr == nil {
				fits = !r.IsPruned() && s.Add(&t)
			}
			return readErr == nil && fits
		})
		if err == nil {
			err = readErr
		}
	}
	if err != nil || !fits {
		return nil, err
	}
	return s.Append(nil), nil
}
