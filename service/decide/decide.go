// Package decide evaluates the policies of a company: whether a request is allowed, denied, or
// needs an approval, and by which policies. Policies are written in Cedar.
//
// It is pure: no storage, no network, no clock. A checker decides again offline what is on record,
// so the same policies and the same request give the same decision everywhere. Time and memory of a
// decision are bounded, whoever wrote the arguments.
//
// A request is evaluated with context.approved false, and if that denies, once more with true. If
// the second evaluation allows, the verdict is ask. Cedar skips a policy that errs; here an erring
// forbid denies.
//
// What policies see of a request is described at [Request] and [Arguments]. What is derived of the
// arguments, since Cedar cannot look into sets or strings, is described at [Derived].
package decide

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"attestd/chain/decision"
	"attestd/crypto/cred/details"
)

// ErrLimit reports that a set has more policies, or more text, than a company may have.
var ErrLimit = fmt.Errorf("a company has at most %d policies, counted singly, of %d bytes", MaxPolicies, MaxSet)

// Set is the policies of a company, ready to decide. It is immutable.
type Set struct {
	policies []policy
	hash     string
}

// policy is one policy of Cedar.
type policy struct {
	*cedar.Policy
	id     string
	permit bool
	ask    Ask // of a permit
	reads
}

// Compile makes a set of policies. Names that do not exist are no error, so that what was put with
// force can be decided. Other errors are ErrLimit, or a *PolicyError.
func Compile(policies []Policy) (*Set, error) {
	sorted := slices.Clone(policies)
	slices.SortFunc(sorted, func(a, b Policy) int { return strings.Compare(a.ID, b.ID) })
	var s Set
	size := 0
	for i, p := range sorted {
		if i > 0 && p.ID == sorted[i-1].ID {
			return nil, &PolicyError{Code: Invalid, Message: fmt.Sprintf("two policies have the ID %q", p.ID)}
		}
		if size += len(p.Text); size > MaxSet {
			return nil, ErrLimit
		}
		list, err := parse(p)
		if err != nil {
			return nil, err
		}
		if len(s.policies)+len(list) > MaxPolicies {
			return nil, ErrLimit
		}
		for n, one := range list {
			id := p.ID
			if len(list) > 1 {
				id = fmt.Sprintf("%s#%d", p.ID, n)
			}
			ask, _, err := askOf(one)
			if err != nil {
				return nil, err
			}
			s.policies = append(s.policies, policy{one, id, one.Effect() == cedar.Permit, ask, readsOf((*ast.Policy)(one.AST()))})
		}
	}
	sums := make(map[string]string, len(sorted))
	for _, p := range sorted {
		sums[p.ID] = decision.HashText(p.Text)
	}
	s.hash = decision.HashSet(sums)
	return &s, nil
}

// Hash names the set: SHA-256, in hex, of the RFC 8785 form of {policyId: SHA-256 of the text in
// hex, …}. The order in which the policies were given does not matter.
func (s *Set) Hash() string { return s.hash }

// Len is the number of policies, counted singly. A company that has none allows everything.
func (s *Set) Len() int { return len(s.policies) }

// The actions of a Request.
const (
	Call   = "call"   // of a tool
	Attest = "attest" // of an action that is no call
	HTTP   = "http"   // of an HTTP request
	Token  = "token"  // of a token for an audience
)

// Request is what is decided. In Cedar it is:
//
//	principal  Agent::"AgentID", in Group::"g" for each group, in Company::"Company"
//	action     Action::"call" and so on, in Action::"any"
//	resource   Tool::"Tool", or Tool::"Server/Tool" in Server::"Server"; ActionType::"ActionType";
//	           Url::"scheme://host/path" with the attributes scheme, host, path and method;
//	           Audience::"Audience"; by the action
//	context    arguments, door, source, session, delegation, scopes, signed, time, approved;
//	           person where there is one; and what is derived
type Request struct {
	Company, AgentID string
	Groups           []string

	Action       string
	Tool, Server string // of call; Server is "" but for tools of MCP
	ActionType   string // of attest
	URL          URL    // of http
	Audience     string // of token

	Arguments json.RawMessage // a JSON object; nothing and null for none
	Folder    string          // where paths are relative to; "" where it is unknown

	Context Context

	// Details are rights on arguments (RFC 9396): each of them must cover the call, before any
	// policy is asked. Who has some may do nothing but calls.
	Details []details.Details
	unread  bool // some cannot be read
}

// toolName is the tool as rights and policies name it.
func (r *Request) toolName() string {
	if r.Server == "" {
		return r.Tool
	}
	return r.Server + "/" + r.Tool
}

// covered reports whether the details of a request cover it.
func (r *Request) covered() bool {
	arguments := r.Arguments
	switch {
	case len(arguments) == 0:
		arguments = []byte("{}")
	case arguments[0] == '"': // those that the tool gets are not known
		arguments = nil
	default: // no prefix holds of a path of which a part is masked, since that may lead elsewhere
		arguments = bytes.ReplaceAll(arguments, []byte("[masked"), []byte("/../[masked"))
	}
	for _, d := range r.Details {
		if r.Action != Call || !d.Covers(r.toolName(), arguments) {
			return false
		}
	}
	return !r.unread
}

// URL is the resource of an HTTP request. Path is clean.
type URL struct{ Scheme, Host, Path, Method string }

// Context is what a request says of itself.
type Context struct {
	Door, Source, Session string
	Delegation            []string // SPIFFE IDs
	Person                string   // who began the chain; "" for none
	Scopes                []string
	Signed                bool // by the agent's own key
	Time                  time.Time
}

// The verdicts.
const (
	Allow   = "allow"
	Deny    = "deny"
	AskFor  = "ask" // it is allowed with an approval
	Denied  = "POLICY_DENIED"
	Failure = "DECISION_ERROR"
)

// Decision is the answer.
type Decision struct {
	Verdict string
	By      []string // the policies that made the verdict, sorted: ID, or ID#0 and so on
	Errors  []string // the policies that erred, sorted
	// Denied, or Failure where it is denied only because a forbid erred, or nothing could be
	// evaluated; "" where Verdict is not Deny
	Code string
	Ask  *Ask // where Verdict is AskFor
}

// maxNames is how many groups, scopes and links of a delegation a request may have.
const maxNames = 1_000

// Decide decides a request. An empty set allows, and any other denies what no policy permits.
func (s *Set) Decide(req *Request) (d Decision) {
	defer func() {
		if recover() != nil { // a fault of Cedar must not let a call through, nor end the server
			d = Decision{Verdict: Deny, Code: Failure}
		}
	}()
	if s == nil {
		return Decision{Verdict: Deny, Code: Failure}
	}
	if !req.covered() {
		return Decision{Verdict: Deny, Code: decision.DetailsDenied}
	}
	if len(s.policies) == 0 {
		return Decision{Verdict: Allow}
	}
	e, err := newEvaluation(s, req)
	if err != nil {
		return Decision{Verdict: Deny, Code: Failure}
	}
	first := e.evaluate(false)
	if first.Verdict == Allow || !e.asks {
		return first
	}
	if second := e.evaluate(true); second.Verdict == Allow {
		second.Verdict = AskFor
		second.Ask = s.askOf(second.By)
		return second
	}
	return first
}

// askOf returns the annotations of the permits that allow a request once it is approved. All of
// them count: the highest quorum, the shortest time and each group of approvers.
func (s *Set) askOf(by []string) *Ask {
	all := Ask{Quorum: 1}
	for i := range s.policies {
		p := &s.policies[i]
		if _, is := slices.BinarySearch(by, p.id); !is {
			continue
		}
		all.Quorum = max(all.Quorum, p.ask.Quorum)
		if p.ask.Within > 0 && (all.Within == 0 || p.ask.Within < all.Within) {
			all.Within = p.ask.Within
		}
		for _, group := range p.ask.Approvers {
			if !slices.Contains(all.Approvers, group) {
				all.Approvers = append(all.Approvers, group)
			}
		}
	}
	slices.Sort(all.Approvers)
	return &all
}

// evaluation is the state of one decision.
type evaluation struct {
	request  cedar.Request
	context  types.RecordMap
	entities entities
	policies []*policy // those whose scope covers the request
	asks     bool      // a policy may depend on context.approved
}

// All yields the policies that Cedar evaluates.
func (e *evaluation) All() iter.Seq2[cedar.PolicyID, *cedar.Policy] {
	return func(yield func(cedar.PolicyID, *cedar.Policy) bool) {
		for _, p := range e.policies {
			if !yield(cedar.PolicyID(p.id), p.Policy) {
				return
			}
		}
	}
}

// maxWork bounds the characters that are compared for one decision.
const maxWork = 100 << 20

func newEvaluation(s *Set, req *Request) (*evaluation, error) {
	if len(req.Groups) > maxNames || len(req.Context.Scopes) > maxNames || len(req.Context.Delegation) > maxNames {
		return nil, errors.New("a request has too many names")
	}
	e := new(evaluation)
	if err := e.entities.of(req); err != nil {
		return nil, err
	}
	e.request.Principal = e.entities.principal.UID
	e.request.Action = e.entities.action.UID
	e.request.Resource = e.entities.resource.UID
	work, derives := 0, false
	for i := range s.policies {
		p := &s.policies[i]
		if e.covers(p) {
			e.policies = append(e.policies, p)
			e.asks = e.asks || p.asks
			derives = derives || p.derives
			work += p.cost
		}
	}
	// what is derived of the arguments is not much longer than they are
	if work*min(len(req.Arguments), MaxArguments) > maxWork {
		return nil, errors.New("the policies are too expensive for these arguments")
	}
	e.context = contextOf(req, derives)
	return e, nil
}

// covers reports whether a policy's scope covers the request. Others hold for no request like it.
func (e *evaluation) covers(p *policy) bool {
	policy := (*ast.Policy)(p.AST())
	return within(policy.Principal, &e.entities.principal) && within(policy.Action, &e.entities.action) &&
		within(policy.Resource, &e.entities.resource)
}

func within(scope ast.IsScopeNode, e *types.Entity) bool {
	in := func(group types.EntityUID) bool { return e.UID == group || e.Parents.Contains(group) }
	switch s := scope.(type) {
	case ast.ScopeTypeEq:
		return e.UID == s.Entity
	case ast.ScopeTypeIn:
		return in(s.Entity)
	case ast.ScopeTypeInSet:
		return slices.ContainsFunc(s.Entities, in)
	case ast.ScopeTypeIs:
		return e.UID.Type == s.Type
	case ast.ScopeTypeIsIn:
		return e.UID.Type == s.Type && in(s.Entity)
	}
	return true
}

func (e *evaluation) evaluate(approved bool) Decision {
	e.context["approved"] = types.Boolean(approved)
	e.request.Context = types.NewRecord(e.context)
	verdict, found := cedar.Authorize(e, &e.entities, e.request)
	d := Decision{Verdict: Deny, Code: Denied}
	for _, reason := range found.Reasons { // forbids if one holds, else permits
		d.By = append(d.By, string(reason.PolicyID))
	}
	for _, failed := range found.Errors {
		d.Errors = append(d.Errors, string(failed.PolicyID))
	}
	slices.Sort(d.By)
	slices.Sort(d.Errors)
	switch {
	case e.aForbidErred(d.Errors):
		if verdict == cedar.Allow || len(d.By) == 0 {
			d.By, d.Code = nil, Failure
		}
	case verdict == cedar.Allow:
		d.Verdict, d.Code = Allow, ""
	}
	return d
}

// aForbidErred reports whether one of the policies that erred, which are sorted, is a forbid.
func (e *evaluation) aForbidErred(erring []string) bool {
	return len(erring) > 0 && slices.ContainsFunc(e.policies, func(p *policy) bool {
		_, erred := slices.BinarySearch(erring, p.id)
		return erred && !p.permit
	})
}

// entities are those of one request.
type entities struct{ principal, action, resource types.Entity }

func (e *entities) Get(uid types.EntityUID) (types.Entity, bool) {
	for _, one := range []*types.Entity{&e.principal, &e.action, &e.resource} {
		if one.UID == uid {
			return *one, true
		}
	}
	return types.Entity{}, false
}

var anyAction = types.NewEntityUIDSet(types.NewEntityUID("Action", "any"))

func (e *entities) of(req *Request) error {
	parents := make([]types.EntityUID, 0, len(req.Groups)+1)
	for _, g := range req.Groups {
		parents = append(parents, types.NewEntityUID("Group", types.String(g)))
	}
	parents = append(parents, types.NewEntityUID("Company", types.String(req.Company)))
	e.principal = types.Entity{UID: types.NewEntityUID("Agent", types.String(req.AgentID)), Parents: types.NewEntityUIDSet(parents...)}
	e.action = types.Entity{UID: types.NewEntityUID("Action", types.String(req.Action)), Parents: anyAction}
	switch req.Action {
	case Call:
		if req.Server != "" {
			e.resource.Parents = types.NewEntityUIDSet(types.NewEntityUID("Server", types.String(req.Server)))
		}
		e.resource.UID = types.NewEntityUID("Tool", types.String(req.toolName()))
	case Attest:
		e.resource.UID = types.NewEntityUID("ActionType", types.String(req.ActionType))
	case HTTP:
		u := req.URL
		e.resource.UID = types.NewEntityUID("Url", types.String(u.Scheme+"://"+u.Host+u.Path))
		e.resource.Attributes = types.NewRecord(types.RecordMap{"scheme": types.String(u.Scheme), "host": types.String(u.Host),
			"path": types.String(u.Path), "method": types.String(u.Method)})
	case Token:
		e.resource.UID = types.NewEntityUID("Audience", types.String(req.Audience))
	default:
		return fmt.Errorf("there is no action %q", req.Action)
	}
	return nil
}

// contextOf returns the context without approved, and what is derived where a policy reads it.
func contextOf(req *Request, derives bool) types.RecordMap {
	c := &req.Context
	record, members, dropped, hidden := mapArguments(req.Arguments)
	context := types.RecordMap{
		"arguments": record, "door": types.String(c.Door), "source": types.String(c.Source), "session": types.String(c.Session),
		"delegation": setOf(c.Delegation), "scopes": setOf(c.Scopes), "signed": types.Boolean(c.Signed),
		"time": types.NewDatetime(c.Time),
	}
	if c.Person != "" {
		context["person"] = types.String(c.Person)
	}
	if derives {
		derive(members, dropped, hidden, req.Folder).into(context)
	}
	return context
}

func setOf(texts []string) types.Set {
	values := make([]types.Value, len(texts))
	for i, s := range texts {
		values[i] = types.String(s)
	}
	return types.NewSet(values...)
}

// reads is what a policy reads of a request.
type reads struct {
	asks    bool // context.approved
	derives bool // what is derived of the arguments
	// how often its evaluation may go over a whole value of the request: for like, once for each
	// character of the pattern in the worst case
	cost int
}

func readsOf(p *ast.Policy) (r reads) {
	visit := func(node ast.IsNode) bool {
		switch v := node.(type) {
		case ast.NodeTypeVariable:
			r.context("approved", v.Name)
			r.context("derived", v.Name)
		case ast.NodeTypeAccess:
			if variable, is := v.Arg.(ast.NodeTypeVariable); is {
				r.context(v.Value, variable.Name)
				return false
			}
		case ast.NodeTypeHas:
			if variable, is := v.Arg.(ast.NodeTypeVariable); is {
				r.context(v.Value, variable.Name)
				return false
			}
		case ast.NodeTypeLike:
			r.cost += len(v.Value.MarshalCedar())
		case ast.NodeTypeEquals:
			r.cost += compared(v.BinaryNode)
		case ast.NodeTypeNotEquals:
			r.cost += compared(v.BinaryNode)
		case ast.NodeTypeContains, ast.NodeTypeContainsAll, ast.NodeTypeContainsAny, ast.NodeTypeSet, ast.NodeTypeRecord:
			r.cost++
		}
		return true
	}
	for _, c := range p.Conditions {
		ast.Inspect(ast.NewNode(c.Body), visit)
	}
	return r
}

// context notes a member of a variable that is read.
func (r *reads) context(name, of types.String) {
	switch {
	case of != "context":
	case name == "approved":
		r.asks = true
	case !given[string(name)]: // a policy may name a member that does not exist
		r.derives = true
	}
}

// given are the members of the context that are not derived.
var given = set("arguments", "door", "source", "session", "delegation", "person", "scopes", "signed", "time")

// compared is 0 for a comparison with a literal, which is as short as its policy.
func compared(n ast.BinaryNode) int {
	for _, side := range []ast.IsNode{n.Left, n.Right} {
		if _, is := side.(ast.NodeValue); is {
			return 0
		}
	}
	return 1
}
