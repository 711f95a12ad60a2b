package decide

import (
	"slices"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
)

// Asked is what Cedar is asked about a request, with context.approved, and what it answers.
type Asked struct {
	Principal, Action, Resource types.ImplicitlyMarshaledEntityUID
	Context                     types.Record
	Entities                    []types.Entity

	Decision string
	Reasons  []string
	Errors   []string
}

// Ask asks Cedar about a request; false where it is too expensive to evaluate.
func (s *Set) Ask(req *Request, approved bool) (a Asked, ok bool) {
	e, err := newEvaluation(s, req)
	if err != nil {
		return a, false
	}
	// other policies than those that cover the request may read what is derived
	e.context = contextOf(req, true)
	e.context["approved"] = types.Boolean(approved)
	e.request.Context = types.NewRecord(e.context)
	verdict, found := cedar.Authorize(e, &e.entities, e.request)
	a = Asked{
		Principal: types.ImplicitlyMarshaledEntityUID(e.request.Principal), Action: types.ImplicitlyMarshaledEntityUID(e.request.Action),
		Resource: types.ImplicitlyMarshaledEntityUID(e.request.Resource), Context: e.request.Context,
		Entities: []types.Entity{e.entities.principal, e.entities.action, e.entities.resource},
		Decision: verdict.String(), Reasons: []string{}, Errors: []string{},
	}
	for _, reason := range found.Reasons {
		a.Reasons = append(a.Reasons, string(reason.PolicyID))
	}
	for _, failed := range found.Errors {
		a.Errors = append(a.Errors, string(failed.PolicyID))
	}
	slices.Sort(a.Reasons)
	slices.Sort(a.Errors)
	return a, true
}

// Texts returns each policy of the set by its ID.
func (s *Set) Texts() map[string]string {
	texts := make(map[string]string)
	for i := range s.policies {
		texts[s.policies[i].id] = string(s.policies[i].MarshalCedar())
	}
	return texts
}
