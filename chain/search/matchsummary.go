package search

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
)

// Verdict is the result of a summary for one record.
type Verdict byte

const (
	No    Verdict = iota // it does not match
	Maybe                // the record must be read
	Yes                  // it matches
)

// Verdicts has the verdicts of the records of a range, in order.
type Verdicts [Width]Verdict

// errSummary means that a summary is malformed.
var errSummary = errors.New("search: malformed summary")

// MatchSummary sets the verdicts of the records that a summary covers. It returns false if none can
// match, and an error if the summary is malformed.
func (f *Filter) MatchSummary(summary []byte, verdicts *Verdicts) (any bool, err error) {
	agents, actions, principals, rest, err := f.lists(summary)
	if err != nil {
		return false, errSummary
	}
	var verdictOf [Width]Verdict // by combination
	count, rest, ok := combinations(rest, agents.len, actions.len, func(i, agent, action int, named []byte) {
		verdictOf[i] = min(agents.of(agent), actions.of(action), f.delegated(named, &principals))
		any = any || verdictOf[i] != No
	})
	if !ok {
		return false, errSummary
	}
	if !any {
		return false, nil
	}
	for i := range verdicts {
		if verdicts[i] = verdictOf[0]; count > 1 {
			verdicts[i] = verdictOf[rest[i]]
		}
		if f.NeedsRecords() && verdicts[i] == Yes {
			verdicts[i] = Maybe
		}
	}
	return true, nil
}

// combinations calls yield for each combination of a summary: its number, its agent and action as
// numbers in the lists, and its principals in two bytes each. rest has the combination of each
// record where count is above 1.
func combinations(src []byte, agents, actions int, yield func(i, agent, action int, named []byte)) (count int, rest []byte, ok bool) {
	if len(src) == 0 {
		return 0, nil, false
	}
	count, src = int(src[0])+1, src[1:]
	for i := range count {
		if len(src) < 3 || int(src[0]) >= agents || int(src[1]) >= actions || len(src) < 3+2*int(src[2]) {
			return 0, nil, false
		}
		named := src[3 : 3+2*int(src[2])]
		yield(i, int(src[0]), int(src[1]), named)
		src = src[3+len(named):]
	}
	if count == 1 {
		return count, nil, len(src) == 0
	}
	return count, src, len(src) == Width && int(slices.Max(src)) < count
}

// listMatch is the result of a filter for one of the lists of a summary.
type listMatch struct {
	len  int
	all  bool
	some []Verdict // verdict of each item; unused if all match
	only int       // the matching item if some is nil; -1 for none
}

func (j *listMatch) of(item int) Verdict {
	switch {
	case j.all, j.some == nil && j.only == item:
		return Yes
	case j.some != nil:
		return j.some[item]
	}
	return No
}

// lists parses the lists of items before the combinations.
func (f *Filter) lists(src []byte) (agents, actions, principals listMatch, rest []byte, err error) {
	fail := func() (listMatch, listMatch, listMatch, []byte, error) {
		return listMatch{}, listMatch{}, listMatch{}, nil, errSummary
	}
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
			actions.some[i] = f.matchAction(src[1:1+length], isLong)
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

// indexHash finds the hash of a text in a list, and returns the rest after the list.
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

func (f *Filter) matchAction(stored []byte, isLong bool) Verdict {
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

// delegated returns the verdict for the principals of a combination. named has their two-byte
// numbers.
func (f *Filter) delegated(named []byte, principals *listMatch) Verdict {
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
