package chain

import (
	"bytes"
	"fmt"

	"attestd/crypto/jcs"
)

// Owner identifies the company and log that each payload of a chain must name. The zero Owner
// allows any payload.
type Owner struct {
	CompanyID string
	Log       string // the member log of each record; "" for records that have none
}

// wrong returns what is wrong with a canonical payload, or "". Canonical members are sorted, so the
// checked ones come first: actionType, agentId, companyId, log, payload.
func (o Owner) wrong(canonical []byte) string {
	if o == (Owner{}) {
		return ""
	}
	rest, found := bytes.CutPrefix(canonical, []byte(`{"actionType":`))
	if found {
		rest, found = bytes.CutPrefix(skipString(rest), []byte(`,"agentId":`))
	}
	if found {
		found = bytes.HasPrefix(skipString(rest), o.appendMembers(make([]byte, 0, 64)))
	}
	if !found {
		return fmt.Sprintf("the payload is not one of company %q in this log", o.CompanyID)
	}
	return ""
}

func (o Owner) appendMembers(dst []byte) []byte {
	dst = jcs.AppendString(append(dst, `,"companyId":`...), o.CompanyID)
	if o.Log != "" {
		dst = jcs.AppendString(append(dst, `,"log":`...), o.Log)
	}
	return append(dst, `,"payload":`...)
}

// skipString returns the rest of text after the JSON string at its start, or nil if there is none.
func skipString(text []byte) []byte {
	if len(text) == 0 || text[0] != '"' {
		return nil
	}
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return text[i+1:]
		}
	}
	return nil
}
