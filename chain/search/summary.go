package search

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

const (
	version = 1

	maxAction   = 32  // bytes of an action that stands in a summary as it is
	longAction  = 255 // in place of the length of one that does not
	actionStart = 24  // bytes of that which stand there
	hashSize    = 8

	maxPrincipals = 16 // of a record; a delegation that we issue has ten at most
)

// Summary is the summary of a range of records in the making.
type Summary struct {
	// by their hashes: where two have the same, a record of either is found by both
	agents, principals []uint64
	// as they are stored: by a hash alone, whoever makes two that have the same would hide the
	// second
	actions      [][]byte
	combinations []combination
	records      []byte // of each the number of its combination
}

type combination struct {
	agent, action uint8
	principals    []uint16
}

// Len is how many records have been added, Width at most.
func (s *Summary) Len() int { return len(s.records) }

// Add takes in the terms of the next record. It reports false of a record with more principals than
// one of ours can have: a range with such a record has no summary.
func (s *Summary) Add(t *Terms) bool {
	if len(t.Principals) > maxPrincipals {
		return false
	}
	agent, action := number(&s.agents, hashOf(t.Agent)), s.action(t.Action)
	var fixed [maxPrincipals]uint16
	principals := fixed[:0]
	for _, p := range t.Principals {
		principals = append(principals, uint16(number(&s.principals, hashOf(p))))
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

// Append appends the summary, when it has Width records.
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

// number finds a hash in a list, or adds it there.
func number(list *[]uint64, hash uint64) int {
	at := slices.Index(*list, hash)
	if at < 0 {
		at = len(*list)
		*list = append(*list, hash)
	}
	return at
}

// action finds an action in the list, or adds it there.
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
