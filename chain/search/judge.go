package search

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
)

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

// Judge says of the records that a summary covers whether they match, and reports false when none
// can. Its error is that the summary is malformed.
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
		if f.NeedsRecords() && verdicts[i] == Yes {
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
