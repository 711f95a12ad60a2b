package search

import (
	"bytes"
	"errors"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"attestd/chain"
	"attestd/chain/decision"
	"attestd/crypto/strictjson"
)

// Terms has the searchable parts of a record. Its slices alias the record, except for strings with
// escapes. A Terms can be reused.
type Terms struct {
	Agent, Action []byte
	Principals    [][]byte // without duplicates
	Value         []byte   // the member payload of the payload, unchanged
	Verdict       []byte   // of the decision; nil if the record has none
	Policies      [][]byte // IDs of those that made the decision, without duplicates

	scratch []byte
	reader  *strictjson.Reader // nil until members are searched for
}

// maxDepth is above the nesting depth of any accepted payload or delegation.
const maxDepth = 256

// Read parses the terms of a record. It returns a *DamageError if the record is malformed. A record
// whose payload was pruned has no terms but its principals.
func (t *Terms) Read(r *chain.Record) error {
	if r.IsPruned() {
		t.Agent, t.Action, t.Value, t.Verdict, t.Policies = nil, nil, nil, nil, t.Policies[:0]
		if !t.readDelegation(r.Delegation) {
			return unreadable(r)
		}
		return nil
	}
	if !t.readAction(r.Payload) && !t.readMembers(r.Payload) || !t.readDelegation(r.Delegation) {
		return unreadable(r)
	}
	return nil
}

// readAction parses a payload in the form in which the log of actions stores it. This takes a tenth
// of the time of a JSON parser.
func (t *Terms) readAction(payload []byte) bool {
	rest, ok := bytes.CutPrefix(payload, []byte(`{"agentId":"`))
	if !ok {
		return false
	}
	if t.Agent, rest, ok = cutText(rest); !ok {
		return false
	}
	if rest, ok = bytes.CutPrefix(rest, []byte(`,"companyId":"`)); !ok {
		return false
	}
	if _, rest, ok = cutText(rest); !ok {
		return false
	}
	if rest, ok = bytes.CutPrefix(rest, []byte(`,"actionType":"`)); !ok {
		return false
	}
	if t.Action, rest, ok = cutText(rest); !ok {
		return false
	}
	if rest, ok = bytes.CutPrefix(rest, []byte(`,"payload":`)); !ok {
		return false
	}
	if rest, ok = bytes.CutSuffix(rest, []byte(`}`)); !ok {
		return false
	}
	rest, decided, ok := cutDecision(rest)
	t.Value = cutStatement(rest)
	return ok && t.readDecision(decided)
}

// cutDecision cuts the member decision off the end of a payload object without its last bracket. It
// returns false if only a parser can tell. No payload value ends where a member of it does.
func cutDecision(members []byte) (rest, decided []byte, ok bool) {
	const before = `,"decision":`
	if !bytes.HasSuffix(members, []byte(`"}`)) { // a decision ends with its verdict
		return members, nil, true
	}
	at := bytes.LastIndex(members, []byte(before+"{"))
	if at < 0 {
		return members, nil, true
	}
	decided = members[at+len(before):]
	return members[:at], decided, decision.IsObject(decided)
}

// cutStatement cuts the member statement off the end of such an object. It has no quotes in it.
func cutStatement(members []byte) []byte {
	text, ok := bytes.CutSuffix(members, []byte(`"`))
	if !ok {
		return members
	}
	rest, ok := bytes.CutSuffix(text[:bytes.LastIndexByte(text, '"')+1], []byte(`,"statement":"`))
	if !ok {
		return members
	}
	return rest
}

// readMembers parses a payload with members in any order, as in control records, which are
// canonical.
func (t *Terms) readMembers(payload []byte) bool {
	var agent, action, decided []byte
	t.Value = nil
	err := strictjson.EachMember(payload, maxDepth, func(name, value []byte) {
		switch string(name) {
		case "agentId":
			agent = value
		case "actionType":
			action = value
		case "payload":
			t.Value = value
		case "decision":
			decided = value
		}
	})
	if err != nil || len(agent) == 0 || agent[0] != '"' || len(action) == 0 || action[0] != '"' || t.Value == nil {
		return false
	}
	t.Agent, t.Action = strictjson.Unquote(agent), strictjson.Unquote(action)
	return t.readDecision(decided)
}

// readDecision parses the decision of a record, or an absent one.
func (t *Terms) readDecision(text []byte) bool {
	t.Verdict, t.Policies = nil, t.Policies[:0]
	if text == nil || t.readVerdict(text) {
		return true
	}
	t.Verdict, t.Policies = nil, t.Policies[:0]
	var by []byte
	err := strictjson.EachMember(text, maxDepth, func(name, value []byte) {
		switch string(name) {
		case "verdict":
			t.Verdict = unquoted(value)
		case "by":
			by = value
		}
	})
	if err != nil || indexOfVerdict(t.Verdict) < 0 {
		return false
	}
	return strictjson.EachElement(by, maxDepth, func(element []byte) {
		id, _, _ := bytes.Cut(unquoted(element), []byte("#"))
		t.Policies = add(t.Policies, id)
	}) == nil
}

// readVerdict parses a decision without an approval, in its canonical form and without escapes,
// faster than a JSON parser.
func (t *Terms) readVerdict(text []byte) bool {
	rest, ok := bytes.CutPrefix(text, []byte(`{"by":[`))
	for ok && len(rest) > 0 && rest[0] == '"' {
		end := bytes.IndexByte(rest[1:], '"') + 1
		if end == 0 || bytes.IndexByte(rest[:end], '\\') >= 0 {
			return false
		}
		id, _, _ := bytes.Cut(rest[1:end], []byte("#"))
		t.Policies = add(t.Policies, id)
		rest = bytes.TrimPrefix(rest[end+1:], []byte(","))
	}
	if !ok || len(rest) == 0 || rest[0] != ']' {
		return false
	}
	rest, ok = bytes.CutSuffix(rest, []byte(`"}`))
	start := bytes.LastIndexByte(rest, '"') + 1
	t.Verdict = rest[start:]
	return ok && bytes.HasSuffix(rest[:start], []byte(`,"verdict":"`)) && indexOfVerdict(t.Verdict) >= 0
}

// unquoted returns the text of a JSON string, or nil for another value.
func unquoted(value []byte) []byte {
	if len(value) == 0 || value[0] != '"' {
		return nil
	}
	return strictjson.Unquote(value)
}

// readDelegation parses a canonical DelegationInfo, or an absent one.
func (t *Terms) readDelegation(delegation []byte) bool {
	t.Principals = t.Principals[:0]
	if len(delegation) == 0 {
		return true
	}
	var subject, actors []byte
	err := strictjson.EachMember(delegation, maxDepth, func(name, value []byte) {
		switch string(name) {
		case "subject":
			subject = value
		case "delegationChain":
			actors = value
		}
	})
	if err != nil || len(subject) == 0 || subject[0] != '"' || len(actors) == 0 || actors[0] != '[' {
		return false
	}
	t.Principals = append(t.Principals, strictjson.Unquote(subject))
	var last []byte // the previous element, which is a principal unless it is the last
	err = strictjson.EachElement(actors, maxDepth, func(element []byte) {
		if len(last) > 0 && last[0] == '"' {
			t.Principals = add(t.Principals, strictjson.Unquote(last))
		}
		last = element
	})
	return err == nil
}

// add adds a name to a list that does not have it.
func add(list [][]byte, name []byte) [][]byte {
	if slices.ContainsFunc(list, func(other []byte) bool { return bytes.Equal(other, name) }) {
		return list
	}
	return append(list, name)
}

// cutText parses a JSON string after its opening quote, and returns the rest after the closing one.
func cutText(src []byte) (text, rest []byte, ok bool) {
	end, escaped := endOfText(src)
	if end < 0 {
		return nil, nil, false
	}
	text, rest = src[:end], src[end+1:]
	if escaped {
		quoted := append(append([]byte{'"'}, text...), '"')
		text, ok = unescape(nil, quoted)
		return text, rest, ok
	}
	return text, rest, true
}

// endOfText returns the index of the closing quote of a JSON string, or -1, and whether the string
// has escapes.
func endOfText(src []byte) (end int, escaped bool) {
	end = bytes.IndexByte(src, '"')
	if end < 0 || bytes.IndexByte(src[:end], '\\') < 0 {
		return end, false
	}
	for i := 0; i < len(src); i++ {
		switch src[i] {
		case '\\':
			i++
		case '"':
			return i, true
		}
	}
	return -1, true
}

var errText = errors.New("malformed string in the payload")

// containsText reports whether a string or a member name in a JSON value contains text, ignoring
// ASCII case. scratch is a reusable buffer.
func containsText(value []byte, text string, scratch *[]byte) (bool, error) {
	low := appendLower((*scratch)[:0], text)
	n := len(low)
	plain := bytes.IndexByte(value, '\\') < 0
	if plain {
		low = appendLower(low, value)
		*scratch = low
		at := bytes.Index(low[n:], low[:n])
		if at < 0 { // the usual case: the value does not contain it anywhere
			return false, nil
		}
		value = low[n:]
		low = low[:n:n]
	}
	for {
		start := bytes.IndexByte(value, '"')
		if start < 0 {
			return false, nil
		}
		value = value[start+1:]
		end, escaped := endOfText(value)
		if end < 0 {
			return false, errText
		}
		str := value[:end]
		value = value[end+1:]
		switch {
		case escaped:
			quoted := append(append([]byte{'"'}, str...), '"')
			var ok bool
			if str, ok = unescape(nil, quoted); !ok {
				return false, errText
			}
			lower(str)
		case !plain:
			str = appendLower(nil, str)
		}
		if bytes.Contains(str, low[:n]) {
			return true, nil
		}
	}
}

func unescape(dst, quoted []byte) ([]byte, bool) {
	str, err := jsontext.AppendUnquote(dst, quoted)
	return str, err == nil
}

func appendLower[T string | []byte](dst []byte, src T) []byte {
	at := len(dst)
	dst = append(dst, src...)
	lower(dst[at:])
	return dst
}

// lower converts ASCII letters to lower case.
func lower(text []byte) {
	for i, c := range text {
		if 'A' <= c && c <= 'Z' {
			text[i] = c | 0x20
		}
	}
}
