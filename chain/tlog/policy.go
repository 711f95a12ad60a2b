package tlog

import (
	"cmp"
	"slices"
)

// Policy says which checkpoints are trusted.
type Policy struct {
	Logs      []PolicyLog
	Witnesses []PolicyWitness
	groups    []group // members stand before those that they are members of
	quorum    string  // "" when no line says it
}

// PolicyLog is a log whose checkpoints are trusted. A log with several keys has several lines.
type PolicyLog struct {
	Key VKey // its name is the log's origin
	URL string
}

// PolicyWitness is a witness. Its name has a meaning in the policy alone.
type PolicyWitness struct {
	Name string
	Key  VKey
	URL  string
}

// group has cosigned when k of its members, witnesses or groups, have.
type group struct {
	name    string
	k       int
	members []string
}

// noQuorum is the name of the quorum that asks for no witness.
const noQuorum = "none"

// Witnessed is a checkpoint as a policy sees it.
type Witnessed struct {
	Checkpoint
	// the newest of each witness that has cosigned, by its name in the policy
	By     map[string]Cosignature
	Quorum bool // whether those are a quorum; of a policy without one, false
}

// Open reads a checkpoint that one of the policy's logs must have signed, and says which of its
// witnesses have cosigned it. A signature that says it is of one of the policy's keys and does not
// verify is refused. Whether times lie in the future is for the caller to say. Errors wrap
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
	for _, known := range p.Witnesses {
		list, err := c.cosignatures(n.UnverifiedSigs, []VKey{known.Key})
		if err != nil {
			return Witnessed{}, err
		}
		if len(list) > 0 {
			w.By[known.Name] = slices.MaxFunc(list, func(a, b Cosignature) int { return cmp.Compare(a.Time, b.Time) })
		}
	}
	w.Quorum = p.isQuorum(w.By)
	return w, nil
}

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
