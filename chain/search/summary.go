package search

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

const (
	version = 1

	maxAction   = 32  // maximum bytes of an action that a summary stores whole
	longAction  = 255 // in place of the length of a longer one
	actionStart = 24  // stored prefix of a longer one
	hashSize    = 8

	maxPrincipals = 16 // of a record; a delegation that attestd issues has at most ten
)

// Summary is an incomplete summary of a range of records.
type Summary struct {
	// as hashes; a search for one of two names with the same hash finds the records of both
	agents, principals []uint64
	// in stored form; with hashes alone, a collision could hide an action
	actions      [][]byte
	combinations []combination
	records      []byte // combination of each record
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
	return true
}

// Append appends the encoded summary, which MUST have Width records.
func (s *Summary) Append(dst []byte) []byte {
	dst = append(dst, version)
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
