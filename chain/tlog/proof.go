package tlog

import (
	"bytes"
	"fmt"
	"strings"

	"filippo.io/torchwood"
)

const (
	proofHeader = "c2sp.org/tlog-proof@v1\n"

	maxExtra  = 64 << 10 // bytes before encoding
	maxHashes = 60       // hashes of a proof: one for each level of the largest tree
	maxProof  = maxCheckpoint + maxExtra*3/2 + 4096
)

// Proof is a tlog-proof. It proves offline that a leaf is in a log.
type Proof struct {
	Extra      []byte // nothing authenticates it; nil when there is none
	Index      int64
	Hashes     []Hash // the inclusion proof, from the leaf up
	Checkpoint []byte // the signed checkpoint, as published
}

// Format returns the text of the proof. Extra MUST have at most 64 KiB.
func (p Proof) Format() []byte {
	if len(p.Extra) == 0 {
		return torchwood.FormatProof(p.Index, p.Hashes, p.Checkpoint)
	}
	return torchwood.FormatProofWithExtraData(p.Index, p.Extra, p.Hashes, p.Checkpoint)
}

// ParseProof parses the text of a proof. It checks neither signatures nor hashes: Check does.
// Errors wrap ErrMalformed.
func ParseProof(text []byte) (Proof, error) {
	malformed := fmt.Errorf("%w tlog-proof", ErrMalformed)
	head, signed, ok := bytes.Cut(text, []byte("\n\n"))
	if !ok || len(text) > maxProof {
		return Proof{}, malformed
	}
	if _, _, err := ParseSignedCheckpoint(signed); err != nil {
		return Proof{}, err
	}
	rest, ok := strings.CutPrefix(string(head), proofHeader)
	if !ok {
		return Proof{}, malformed
	}
	p := Proof{Checkpoint: bytes.Clone(signed)}
	lines := strings.Split(rest, "\n")
	if extra, ok := strings.CutPrefix(lines[0], "extra "); ok {
		if p.Extra, ok = parseBase64(extra); !ok || len(p.Extra) == 0 || len(p.Extra) > maxExtra || len(lines) < 2 {
			return Proof{}, malformed
		}
		lines = lines[1:]
	}
	index, ok := strings.CutPrefix(lines[0], "index ")
	if !ok || len(lines)-1 > maxHashes {
		return Proof{}, malformed
	}
	if p.Index, ok = ParseDecimal(index); !ok {
		return Proof{}, malformed
	}
	for _, line := range lines[1:] {
		hash, ok := ParseHash(line)
		if !ok {
			return Proof{}, malformed
		}
		p.Hashes = append(p.Hashes, hash)
	}
	return p, nil
}

// Check verifies that the leaf with this hash is in the tree of the proof's checkpoint, and that
// one of the log's keys has signed the checkpoint, as [OpenCheckpoint] demands. It returns the
// checkpoint. Errors wrap ErrMalformed, ErrSignature or ErrProof.
func (p Proof) Check(leaf Hash, keys ...VKey) (Checkpoint, error) {
	c, _, err := OpenCheckpoint(p.Checkpoint, keys...)
	if err == nil {
		err = CheckInclusion(p.Hashes, c.Tree, p.Index, leaf)
	}
	if err != nil {
		return Checkpoint{}, err
	}
	return c, nil
}
