package chain

import (
	"maps"
	"slices"

	"attestd/chain/tlog"
)

// Prefix says that the first Length records of a chain were verified. It holds for exactly the
// bytes of its Digest under exactly its Terms, whoever reads them, at any time: it says nothing of
// what stands on disk now.
type Prefix struct {
	Length int64
	Terms  Hash // of what the records were checked against: their owner and their keys
	// over the encodings of the records (see rowRange.add) and the stored nodes that they complete
	Digest Hash
	Log    tlog.Frontier // frontier of the log tree
}

// Prefixes returns what the verifier remembers, by chain, and a number that grows with each change
// of it.
func (v *Verifier) Prefixes() (known map[int64]Prefix, version int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.verified), v.remembered
}

// Version returns the number of Prefixes alone.
func (v *Verifier) Version() int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.remembered
}

// Recall makes the verifier remember what another one has verified. The caller MUST know that a
// Verifier of the same program returned it: signatures over the same bytes are not checked again.
func (v *Verifier) Recall(known map[int64]Prefix) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for chain, p := range known {
		if _, is := v.verified[chain]; !is {
			cachePut(v.verified, maxVerified, chain, p)
		}
	}
}

func (v *Verifier) recall(chain int64) (Prefix, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	known, ok := v.verified[chain]
	return known, ok
}

func (v *Verifier) remember(chain int64, known Prefix) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.put(chain, known)
}

// rememberProgress remembers how far a run has come, unless more of the chain is known.
func (v *Verifier) rememberProgress(run *verifyRun) {
	known, ok := run.known()
	if !ok || known.Length == 0 {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.verified[run.chain].Length < known.Length {
		v.put(run.chain, known)
	}
}

func (v *Verifier) put(chain int64, known Prefix) {
	if was, is := v.verified[chain]; is && was.Digest == known.Digest && was.Terms == known.Terms {
		return
	}
	cachePut(v.verified, maxVerified, chain, known)
	v.remembered++
}

// known returns what the run has verified so far, unless it ended inside a range.
func (v *verifyRun) known() (Prefix, bool) {
	length := v.tree.length
	if v.log.Size != length {
		return Prefix{}, false
	}
	return Prefix{length, v.terms(length), v.digestSoFar(), tlog.Frontier{Size: length, Roots: slices.Clone(v.log.Roots)}}, true
}

func (v *verifyRun) terms(length int64) Hash { return v.keys.terms(length, v.owner, v.hasLog) }
