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
	// by combination: with its action, and without one
	var verdictOf, orRefused [Width]Verdict
	records, rest, ok := combinations(rest, agents.len, actions.len, func(i, agent, action int, named []byte) {
		other := min(agents.of(agent), f.delegated(named, &principals))
		verdictOf[i] = min(other, actions.of(action))
		if f.OrRefused {
			orRefused[i] = other
		}
		any = any || max(verdictOf[i], orRefused[i]) != No
	})
	if !ok {
		return false, errSummary
	}
	var decidedOf [Width]Verdict // by decision
	var refused [Width]bool
	decided, ok := decisions(rest, summary[0], f.Policy, func(i int, verdict byte, isNamed Verdict) {
		decidedOf[i] = f.decided(verdict, isNamed)
		refused[i] = isRefusal(verdict)
	})
	if !ok {
		return false, errSummary
	}
	if !any {
		return false, nil
	}
	any = false
	for i := range verdicts {
		combination, made := numberAt(records, i), numberAt(decided, i)
		verdicts[i] = verdictOf[combination]
		if refused[made] {
			verdicts[i] = max(verdicts[i], orRefused[combination])
		}
		verdicts[i] = min(verdicts[i], decidedOf[made])
		if f.NeedsRecords() && verdicts[i] == Yes {
			verdicts[i] = Maybe
		}
		any = any || verdicts[i] != No
	}
	return any, nil
}

// combinations calls yield for each combination of a summary: its number, its agent and action as
// numbers in the lists, and its principals in two bytes each. records has the combination of each
// record; it is nil if there is only one.
func combinations(
	src []byte, agents, actions int, yield func(i, agent, action int, named []byte),
) (records, rest []byte, ok bool) {
	if len(src) == 0 {
		return nil, nil, false
	}
	count, src := int(src[0])+1, src[1:]
	for i := range count {
		if len(src) < 3 || int(src[0]) >= agents || int(src[1]) >= actions || len(src) < 3+2*int(src[2]) {
			return nil, nil, false
		}
		named := src[3 : 3+2*int(src[2])]
		yield(i, int(src[0]), int(src[1]), named)
		src = src[3+len(named):]
	}
	return cutNumbers(src, count)
}

// decisions calls yield for each decision in the rest of a summary, behind its combinations: its
// number, the number of its verdict, and whether a policy is among those that made it. records has
// the decision of each record; it is nil if there is only one.
func decisions(
	src []byte, form byte, policy string, yield func(i int, verdict byte, isNamed Verdict),
) (records []byte, ok bool) {
	if form == version {
		yield(0, 0, No)
		return nil, len(src) == 0
	}
	if len(src) < 2 {
		return nil, false
	}
	policies := listMatch{len: int(binary.BigEndian.Uint16(src))}
	if policies.only, src, ok = indexHash(src[2:], policies.len, policy); !ok || len(src) == 0 {
		return nil, false
	}
	count, src := int(src[0])+1, src[1:]
	for i := range count {
		if len(src) < 2 || int(src[0]) > len(verdicts) {
			return nil, false
		}
		verdict, named := src[0], int(src[1])
		if src = src[2:]; named == manyPolicies {
			yield(i, verdict, Maybe)
			continue
		}
		if len(src) < 2*named {
			return nil, false
		}
		yield(i, verdict, names(src[:2*named], &policies))
		src = src[2*named:]
	}
	records, rest, ok := cutNumbers(src, count)
	return records, ok && len(rest) == 0
}

// cutNumbers cuts off the number of each record, below count, if there is more than one.
func cutNumbers(src []byte, count int) (records, rest []byte, ok bool) {
	if count == 1 {
		return nil, src, true
	}
	if len(src) < Width || int(slices.Max(src[:Width])) >= count {
		return nil, nil, false
	}
	return src[:Width], src[Width:], true
}

// numberAt returns the number of a record.
func numberAt(records []byte, i int) byte {
	if records == nil {
		return 0
	}
	return records[i]
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
	if len(src) < 2 || src[0] != version && src[0] != versionDecided {
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
	return names(named, principals)
}

// names reports whether the item that matches is among those with two-byte numbers.
func names(numbers []byte, items *listMatch) Verdict {
	for i := 0; i < len(numbers); i += 2 {
		if int(binary.BigEndian.Uint16(numbers[i:])) == items.only {
			return Yes
		}
	}
	return No
}

// isRefusal reports whether the verdict of a decision, by its number, does not allow.
func isRefusal(verdict byte) bool { return verdict > 0 && refuses(verdicts[verdict-1]) }

// decided returns the verdict for a decision; isNamed is whether the policy that f names made it.
func (f *Filter) decided(verdict byte, isNamed Verdict) Verdict {
	switch {
	case !f.needsDecision():
		return Yes
	case verdict == 0, f.Decision != "" && f.Decision != verdicts[verdict-1]:
		return No
	case f.Policy == "":
		return Yes
	}
	return isNamed
}
