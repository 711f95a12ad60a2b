package search

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
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
	agents, actions, principals []uint64 // by their hashes
	actionTexts                 []byte   // of the actions, as they are stored
	combinations                []combination
	records                     []byte // of each the number of its combination
}

type combination struct {
	agent, action uint8
	principals    []uint16
}

// Len is how many records have been added, Width at most.
func (s *Summary) Len() int { return len(s.records) }

// Add takes in the terms of the next record. It reports false of a record with more principals than one of ours can have: a range with such a
// record has no summary.
func (s *Summary) Add(t *Terms) bool {
	if len(t.Principals) > maxPrincipals {
		return false
	}
	agent, _ := number(&s.agents, hashOf(t.Agent))
	action, isNew := number(&s.actions, hashOf(t.Action))
	if isNew {
		s.actionTexts = appendAction(s.actionTexts, t.Action)
	}
	var fixed [maxPrincipals]uint16
	principals := fixed[:0]
	for _, p := range t.Principals {
		n, _ := number(&s.principals, hashOf(p))
		principals = append(principals, uint16(n))
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
	dst = append(append(dst, byte(len(s.actions)-1)), s.actionTexts...)
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
func number(list *[]uint64, hash uint64) (at int, isNew bool) {
	if at = slices.Index(*list, hash); at < 0 {
		at, isNew = len(*list), true
		*list = append(*list, hash)
	}
	return at, isNew
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

// Verdict is what a summary says of a record.
type Verdict byte

const (
	No    Verdict = iota // it does not match
	Maybe                // the record says
	Yes                  // it matches
)

// Verdicts are those of the records of a range, in their order.
type Verdicts [Width]Verdict

// errSummary says that a summary is not of the form that summaries have.
var errSummary = errors.New("search: malformed summary")

// Judge says of the records that a summary covers whether they match, and reports false when none can. Its error is that the summary is malformed.
func (f *Filter) Judge(summary []byte, verdicts *Verdicts) (any bool, err error) {
	agents, actions, principals, rest, err := f.lists(summary)
	if err != nil || len(rest) == 0 {
		return false, errSummary
	}
	count := int(rest[0]) + 1
	rest = rest[1:]
	var of [Width]Verdict // the combinations
	for i := range count {
		if len(rest) < 3 || int(rest[0]) >= agents.len || int(rest[1]) >= actions.len || len(rest) < 3+2*int(rest[2]) {
			return false, errSummary
		}
		named := rest[3 : 3+2*int(rest[2])]
		of[i] = min(agents.of(int(rest[0])), actions.of(int(rest[1])), f.delegated(named, &principals))
		rest = rest[3+len(named):]
		any = any || of[i] != No
	}
	if count == 1 && len(rest) != 0 || count > 1 && (len(rest) != Width || int(slices.Max(rest)) >= count) {
		return false, errSummary
	}
	if !any {
		return false, nil
	}
	for i := range verdicts {
		if verdicts[i] = of[0]; count > 1 {
			verdicts[i] = of[rest[i]]
		}
		if f.Text != "" && verdicts[i] == Yes {
			verdicts[i] = Maybe
		}
	}
	return true, nil
}

// judged is what a filter makes of one of the lists of a summary.
type judged struct {
	len  int
	all  bool
	some []Verdict // of its items, where not all match
	only int       // the item that matches, where some is nil; -1 for none
}

func (j *judged) of(item int) Verdict {
	switch {
	case j.all, j.some == nil && j.only == item:
		return Yes
	case j.some != nil:
		return j.some[item]
	}
	return No
}

// lists reads the lists of items, up to that of the combinations.
func (f *Filter) lists(src []byte) (agents, actions, principals judged, rest []byte, err error) {
	fail := func() (judged, judged, judged, []byte, error) { return judged{}, judged{}, judged{}, nil, errSummary }
	if len(src) < 2 || src[0] != version {
		return fail()
	}
	agents.len = int(src[1]) + 1
	var ok bool
	if agents.only, src, ok = indexHash(src[2:], agents.len, f.Agent); !ok || len(src) == 0 {
		return fail()
	}
	agents.all = f.Agent == ""
	actions.len, actions.all = int(src[0])+1, f.Action == ""
	if !actions.all {
		actions.some = make([]Verdict, actions.len)
	}
	src = src[1:]
	for i := range actions.len {
		if len(src) == 0 {
			return fail()
		}
		length, isLong := int(src[0]), src[0] == longAction
		if isLong {
			length = actionStart + hashSize
		}
		if length > maxAction || len(src) < 1+length {
			return fail()
		}
		if !actions.all {
			actions.some[i] = f.judgeAction(src[1:1+length], isLong)
		}
		src = src[1+length:]
	}
	if len(src) < 2 {
		return fail()
	}
	principals.len = int(binary.BigEndian.Uint16(src))
	if principals.only, src, ok = indexHash(src[2:], principals.len, f.DelegatedBy); !ok {
		return fail()
	}
	return agents, actions, principals, src, nil
}

// indexHash finds the hash of a text in a list, and returns what follows the list.
func indexHash(src []byte, count int, text string) (at int, rest []byte, ok bool) {
	if len(src) < hashSize*count {
		return 0, nil, false
	}
	list, rest := src[:hashSize*count], src[hashSize*count:]
	if text == "" {
		return -1, rest, true
	}
	var hash [hashSize]byte
	binary.BigEndian.PutUint64(hash[:], hashOf(text))
	for at := 0; at < count; at++ {
		if bytes.Equal(list[at*hashSize:][:hashSize], hash[:]) {
			return at, rest, true
		}
	}
	return -1, rest, true
}

func (f *Filter) judgeAction(stored []byte, isLong bool) Verdict {
	start, isPrefix := strings.CutSuffix(f.Action, "*")
	switch {
	case !isLong && f.action(string(stored)):
		return Yes
	case !isLong:
		return No
	case !isPrefix && len(start) > maxAction && start[:actionStart] == string(stored[:actionStart]) && hashOf(start) == binary.BigEndian.Uint64(stored[actionStart:]):
		return Yes
	case !isPrefix:
		return No
	case len(start) <= actionStart && strings.HasPrefix(string(stored[:actionStart]), start):
		return Yes
	case len(start) > actionStart && strings.HasPrefix(start, string(stored[:actionStart])):
		return Maybe
	}
	return No
}

// delegated judges the principals of a combination, of which there is a list of numbers.
func (f *Filter) delegated(named []byte, principals *judged) Verdict {
	switch f.DelegatedBy {
	case "":
		return Yes
	case "*":
		if len(named) > 0 {
			return Yes
		}
		return No
	}
	for i := 0; i < len(named); i += 2 {
		if int(binary.BigEndian.Uint16(named[i:])) == principals.only {
			return Yes
		}
	}
	return No
}
