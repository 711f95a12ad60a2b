// Package decision is the form in which a record holds a decision: who decided what, by which
// policies, and what the decision depended on.
//
// # Form
//
// A decision is the member decision of a record's payload object, beside agentId, companyId,
// actionType, payload and statement. The server sets it, so that hash and signature of the record
// cover it; a statement of the agent does not. It is one JSON object in the form of RFC 8785:
//
//	verdict   allow, deny or ask
//	policies  the SHA-256 of the set of policies that decided; see [HashSet]
//	revision  how often that set had changed since it was empty, an integer in digits alone
//	by        the policies that made the verdict, sorted: ID, or ID#0 and so on
//	errors    the policies that erred, sorted; absent where none did
//	code      why it is denied: by the policies POLICY_DENIED or DECISION_ERROR, before them
//	          DETAILS_DENIED, COMPANY_SUSPENDED, AGENT_DISABLED, SUBJECT_UNKNOWN, ACTION_UNKNOWN,
//	          AUDIENCE_DENIED, SCOPE_DENIED or another code of a passport's verification, and
//	          after them APPROVAL_LIMIT; absent otherwise
//	passport  the jti of the passport by which it was decided; absent without
//	approval  the approval by which it is allowed, or of ask, which is to be decided; absent
//	          without
//	context   what was decided on that is nowhere else in the record; see [Context]
//
// What is absent is not there: no optional member is null, empty or false. A decision nests at most
// 64 deep. All checkers refuse any other form.
//
// So the decision can be made again of the record and the policies alone.
//
// # Records of decisions
//
// A door at which nothing else is recorded of a request has a record of the decision itself. Its
// actionType is [AuthorizationDenied] or [AuthorizationAllowed], its agentId that of the agent, or
// [UnknownAgent], and its payload one JSON object:
//
//	door        where it was asked: authzen, verify or token
//	action      call, attest or token
//	resource    {"type":"tool","id":"bank/transfer"} of a call; the type is action of attest, and
//	            audience of token. In the id of a tool, an MCP server comes before the first slash
//	arguments   with secrets masked; absent where there are none. Those that are too long for
//	            policies are {"sha256":"…","bytes":N,"head":"…"}
//	subject     {"type":"…","id":"…"}: who was named and is no agent; absent otherwise
//	suppressed  how many decisions of the same kind about the agent were not recorded before this
//	            one, because they were too many; absent for none
package decision

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"attestd/crypto/jcs"
	"attestd/crypto/strictjson"
)

// The verdicts.
const (
	Allow = "allow"
	Deny  = "deny"
	Ask   = "ask" // it is allowed with an approval
)

// Codes of decisions that deny.
const (
	DetailsDenied = "DETAILS_DENIED"
	PolicyDenied  = "POLICY_DENIED"
	Failed        = "DECISION_ERROR"
	ScopeDenied   = "SCOPE_DENIED"
	AgentDisabled = "AGENT_DISABLED"
	// the request names no agent of the company, or an action that its resource does not have
	SubjectUnknown = "SUBJECT_UNKNOWN"
	ActionUnknown  = "ACTION_UNKNOWN"
	AudienceDenied = "AUDIENCE_DENIED" // a token is exchanged for none that the company names
	Suspended      = "COMPANY_SUSPENDED"
	ApprovalLimit  = "APPROVAL_LIMIT" // it would be ask, and too many approvals are pending
)

// ByPolicies reports whether a decision with a code, "" for none, follows from the details and the
// policies. Any other was made before these were asked.
func ByPolicies(code string) bool {
	return code == "" || code == PolicyDenied || code == DetailsDenied || code == Failed
}

// The actionTypes of records of decisions, and the agentId of one that is about no agent.
const (
	AuthorizationDenied  = "authorization.denied"
	AuthorizationAllowed = "authorization.allowed"
	UnknownAgent         = "(unknown)"
)

// Decision is what a record holds of a decision.
type Decision struct {
	Approval string   `json:"approval,omitempty"`
	By       []string `json:"by"`
	Code     string   `json:"code,omitempty"`
	Context  Context  `json:"context"`
	Errors   []string `json:"errors,omitempty"`
	Passport string   `json:"passport,omitempty"`
	Policies string   `json:"policies"`
	Revision int64    `json:"revision"`
	Verdict  string   `json:"verdict"`
}

// Context is what was decided on that is nowhere else in the record.
type Context struct {
	Delegation []string `json:"delegation,omitempty"` // SPIFFE IDs
	// authorization_details of the credential and of the delegation, each of which must cover the
	// call
	Details []json.RawMessage `json:"details,omitempty"`
	Door    string            `json:"door"`
	Folder  string            `json:"folder,omitempty"` // in which the agent works
	Groups  []string          `json:"groups,omitempty"` // of the agent
	Person  string            `json:"person,omitempty"` // with whom the delegation begins
	Scopes  []string          `json:"scopes,omitempty"`
	Signed  bool              `json:"signed,omitempty"` // by a key of the agent
	Time    string            `json:"time"`
}

const (
	maxDepth        = 64  // nesting of a decision
	maxPayloadDepth = 256 // more than the payload of a record nests

	maxRevision = 1<<53 - 1 // beyond it, not every integer is a double
)

// Append appends the canonical form of a decision.
func (d *Decision) Append(dst []byte) ([]byte, error) {
	if d.By == nil {
		d.By = []string{}
	}
	text, err := json.Marshal(d)
	if err != nil {
		return dst, err
	}
	return jcs.Append(dst, text, maxDepth)
}

// Parse reads the member decision of a record's payload object. What this version does not know is
// an error: it may say something else than it seems.
func Parse(text []byte) (d Decision, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return Decision{}, fmt.Errorf("decision: %w", err)
	}
	canonical, err := d.Append(nil)
	if err != nil {
		return Decision{}, fmt.Errorf("decision: %w", err)
	}
	if given, err := jcs.Append(nil, text, maxDepth); err != nil || !bytes.Equal(given, canonical) {
		return Decision{}, fmt.Errorf("decision: %w", errForm)
	}
	if !isRevision(text, d.Revision) {
		return Decision{}, fmt.Errorf("decision: the revision: %w", errForm)
	}
	if d.Verdict != Allow && d.Verdict != Deny && d.Verdict != Ask {
		return Decision{}, fmt.Errorf("decision: the verdict is %q", d.Verdict)
	}
	return d, nil
}

var errForm = errors.New("it is not in the form of one")

// isRevision reports whether a decision spells its revision in digits alone.
func isRevision(text []byte, revision int64) bool {
	var digits []byte
	err := strictjson.EachMember(text, maxDepth, func(name, value []byte) {
		if string(name) == "revision" {
			digits = value
		}
	})
	return err == nil && 0 <= revision && revision <= maxRevision && string(digits) == strconv.FormatInt(revision, 10)
}

// Refuses reports whether a call with this decision was refused; one without a decision was not.
func (d *Decision) Refuses() bool { return d != nil && d.Verdict != Allow }

// Of returns the decision in a record's payload object, and nil where there is none.
func Of(payload []byte) (*Decision, error) {
	var text []byte
	err := strictjson.EachMember(payload, maxPayloadDepth, func(name, value []byte) {
		if string(name) == "decision" {
			text = value
		}
	})
	if err != nil || text == nil {
		return nil, err
	}
	d, err := Parse(text)
	if err != nil {
		return nil, err
	}
	return &d, nil
}

// Insert puts a decision into a canonical payload object that has none, at its place: behind
// actionType, agentId and companyId.
func Insert(canonical, text []byte) ([]byte, error) {
	at := place(canonical)
	if at == 0 {
		return nil, errForm
	}
	out := make([]byte, 0, len(canonical)+len(text)+12)
	out = append(append(append(append(out, canonical[:at]...), member...), text...), ',')
	return append(out, canonical[at:]...), nil
}

// member is how a decision begins in a canonical payload object.
const member = `"decision":`

// Cut returns a canonical payload object without its decision, and that; nil where there is none.
func Cut(canonical []byte) (rest, text []byte) {
	at := place(canonical)
	behind, text := Skip(canonical[at:])
	if at == 0 || text == nil {
		return canonical, nil
	}
	return append(bytes.Clone(canonical[:at]), behind...), text
}

// Skip returns what is behind the decision with which the rest of a canonical payload object
// begins, and the decision; nil where it begins with another member.
func Skip(members []byte) (rest, text []byte) {
	after, has := bytes.CutPrefix(members, []byte(member))
	end := skipObject(after)
	if !has || end == 0 || end >= len(after) || after[end] != ',' {
		return members, nil
	}
	return after[end+1:], after[:end]
}

// place returns where the decision of a canonical payload object is; 0 where it can have none.
func place(canonical []byte) int {
	rest := canonical
	for _, name := range []string{`{"actionType":`, `"agentId":`, `"companyId":`} {
		after, has := bytes.CutPrefix(rest, []byte(name))
		end := skipString(after)
		if !has || end == 0 || end >= len(after) || after[end] != ',' {
			return 0
		}
		rest = after[end+1:]
	}
	return len(canonical) - len(rest)
}

// skipString returns the length of the JSON string with which a canonical text begins; 0 for none.
func skipString(text []byte) int {
	if len(text) == 0 || text[0] != '"' {
		return 0
	}
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return 0
}

// skipObject returns the length of the JSON object with which a canonical text begins; 0 for none.
func skipObject(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			n := skipString(text[i:])
			if n == 0 {
				return 0
			}
			i += n - 1
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		if depth == 0 {
			return 0
		}
	}
	return 0
}

// IsObject reports whether a part of a JSON text is one object, and nothing more.
func IsObject(text []byte) bool { return len(text) > 0 && skipObject(text) == len(text) }

// IsID reports whether a text can be the ID of a policy: 1 to 64 of A to Z, a to z, 0 to 9, dot,
// underscore and hyphen.
func IsID(text string) bool {
	for i := range len(text) {
		c := text[i]
		switch {
		case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return 0 < len(text) && len(text) <= 64
}

// HashSet returns the hash of a set of policies: SHA-256, in hex, of the RFC 8785 form of
// {policyId: SHA-256 of the text in hex, …}. sums has those of the texts by their IDs.
func HashSet(sums map[string]string) string {
	form := []byte{'{'}
	for i, id := range slices.Sorted(maps.Keys(sums)) { // IDs are ASCII
		if i > 0 {
			form = append(form, ',')
		}
		form = append(jcs.AppendString(form, id), ':')
		form = jcs.AppendString(form, sums[id])
	}
	sum := sha256.Sum256(append(form, '}'))
	return hex.EncodeToString(sum[:])
}

// HashText returns the SHA-256 of a policy's text, in hex.
func HashText(cedar string) string {
	sum := sha256.Sum256([]byte(cedar))
	return hex.EncodeToString(sum[:])
}
