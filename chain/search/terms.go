package search

import (
	"bytes"
	"slices"

	"attestd/chain"
	"attestd/crypto/strictjson"
)

// Terms are what is looked for in a record. Its slices are parts of the record where that holds no
// escapes, and valid as long as it is. One Terms can read many records.
type Terms struct {
	Agent, Action []byte
	Principals    [][]byte // each once
	Value         []byte   // of the member payload of the payload, as it was sent

	scratch []byte
}

// maxDepth is more than what a payload or a delegation that we have taken nests.
const maxDepth = 256

// Read reads the terms of a record; *DamageError.
func (t *Terms) Read(r *chain.Record) error {
	if !t.readAction(r.Payload) && !t.readMembers(r.Payload) || !t.readDelegation(r.Delegation) {
		return unreadable(r)
	}
	return nil
}

// readAction reads a payload as our log of actions stores it, which costs a tenth of reading any
// JSON.
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
	t.Value, ok = bytes.CutSuffix(rest, []byte(`}`))
	return ok
}

// readMembers reads a payload of any order of members: those of control records are canonical.
func (t *Terms) readMembers(payload []byte) bool {
	var agent, action []byte
	t.Value = nil
	err := strictjson.EachMember(payload, maxDepth, func(name, value []byte) {
		switch string(name) {
		case "agentId":
			agent = value
		case "actionType":
			action = value
		case "payload":
			t.Value = value
		}
	})
	if err != nil || len(agent) == 0 || agent[0] != '"' || len(action) == 0 || action[0] != '"' || t.Value == nil {
		return false
	}
	t.Agent, t.Action = strictjson.Unquote(agent), strictjson.Unquote(action)
	return true
}

// readDelegation reads a canonical DelegationInfo, or nothing.
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
	var last []byte // was not yet known to be followed by another
	err = strictjson.EachElement(actors, maxDepth, func(element []byte) {
		if len(last) > 0 && last[0] == '"' {
			t.add(strictjson.Unquote(last))
		}
		last = element
	})
	return err == nil
}

func (t *Terms) add(principal []byte) {
	if !slices.ContainsFunc(t.Principals, func(p []byte) bool { return bytes.Equal(p, principal) }) {
		t.Principals = append(t.Principals, principal)
	}
}

// cutText reads the rest of a JSON string, after its first quote, and returns what follows its last
// one.
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

// endOfText finds the quote that ends a JSON string, and says whether escapes stand before it; -1
// where there is none.
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
