package tlog

import (
	"cmp"
	"slices"
)

// Policy says which checkpoints are trusted: see the package comment.
type Policy struct {
	Logs      []PolicyLog
	Witnesses []PolicyWitness
	groups    []group // each after the groups that are its members
	quorum    string  // a witness, a group or noQuorum; "" when the policy has no quorum line
}

// PolicyLog is one key of a log whose checkpoints are trusted.
type PolicyLog struct {
	Key VKey   // its name is the log's origin
	URL string // "" when the line has none
}

// PolicyWitness is a witness of a policy.
type PolicyWitness struct {
	Name string // only used within the policy
	Key  VKey
	URL  string // "" when the line has none
}

// group has cosigned when k of its members have: witnesses or groups.
type group struct {
	name    string
	k       int
	members []string
}

// noQuorum is the quorum that demands no witness.
const noQuorum = "none"

// Witnessed is a checkpoint, and what a policy says of its cosignatures.
type Witnessed struct {
	Checkpoint
	By     map[string]Cosignature // the newest of each witness, by the witness's name in the policy
	Quorum bool                   // whether these witnesses are a quorum
}

// Open parses and verifies a signed checkpoint. One of the policy's logs MUST have signed it. A
// signature that claims to be by one of the policy's keys and does not verify is an error. Open
// accepts cosignatures dated in the future; the caller decides about those. Errors wrap
// ErrMalformed or ErrSignature.
func (p *Policy) Open(signed []byte) (Witnessed, error) {
	logs := make([]VKey, len(p.Logs))
	for i, l := range p.Logs {
		logs[i] = l.Key
	}
	c, n, err := OpenCheckpoint(signed, logs...)
	if err != nil {
		return Witnessed{}, err
	}
	w := Witnessed{Checkpoint: c, By: make(map[string]Cosignature)}
	for _, witness := range p.Witnesses {
		list, err := c.cosignatures(n.UnverifiedSigs, []VKey{witness.Key})
		if err != nil {
			return Witnessed{}, err
		}
		if len(list) > 0 {
			w.By[witness.Name] = slices.MaxFunc(list, func(a, b Cosignature) int { return cmp.Compare(a.Time, b.Time) })
		}
	}
	w.Quorum = p.isQuorum(w.By)
	return w, nil
}

// isQuorum reports whether the witnesses that have cosigned are a quorum.
func (p *Policy) isQuorum(by map[string]Cosignature) bool {
	cosigned := map[string]bool{noQuorum: true}
	for name := range by {
		cosigned[name] = true
	}
	for _, g := range p.groups {
		n := 0
		for _, name := range g.members {
			if cosigned[name] {
				n++
			}
		}
		cosigned[g.name] = n >= g.k
	}
	return cosigned[p.quorum]
}
