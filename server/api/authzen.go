package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"attestd/chain/decision"
	"attestd/crypto/strictjson"
	"attestd/server/httpapi"
	"attestd/server/limit"
	"attestd/service"
	"attestd/store"
)

// AuthZEN answers access evaluations of the OpenID AuthZEN Authorization API 1.0.
type AuthZEN struct {
	API            *httpapi.API
	Authorizations *service.Authorizations
}

// evaluation has the members of an access evaluation. Those of evaluations have them as defaults.
type evaluation struct {
	Subject  jsontext.Value `json:"subject" must:"checked"`
	Action   jsontext.Value `json:"action" must:"checked"`
	Resource jsontext.Value `json:"resource" must:"checked"`
	Context  jsontext.Value `json:"context"`
}

// Evaluation decides one access evaluation.
func (s *AuthZEN) Evaluation() httpapi.Handler {
	h := httpapi.Endpoint(http.StatusOK, s.evaluate)
	h.Refuse = refuseEvaluation
	return h
}

// Evaluations decides several, or one where it has none.
func (s *AuthZEN) Evaluations() httpapi.Handler {
	h := httpapi.Endpoint(http.StatusOK, s.evaluateAll)
	h.Refuse = refuseEvaluation
	return h
}

// refuseEvaluation sends an error as a text, as AuthZEN has it.
func refuseEvaluation(c *httpapi.Call, e *httpapi.Error) bool {
	return c.JSON(e.Status, messageOf(e)) == nil
}

func messageOf(e *httpapi.Error) string {
	if e.Code == "" {
		return e.Message
	}
	return e.Message + " (" + e.Code + ")"
}

// decided is AuthZEN's Decision.
type decided struct {
	Decision bool           `json:"decision"`
	Context  decidedContext `json:"context"`
}

type decidedContext struct {
	Verdict string          `json:"verdict"`
	Code    string          `json:"code,omitempty"`
	By      []string        `json:"by"`
	Error   *evaluatedError `json:"error,omitempty"`
}

// evaluatedError says what is wrong with one of several evaluations.
type evaluatedError struct {
	Status  int    `json:"status"`
	Message string `json:"message"`
}

func (s *AuthZEN) evaluate(ctx context.Context, by store.Caller, r evaluation) (decided, error) {
	asked, err := r.read()
	if err != nil {
		return decided{}, err
	}
	made, err := s.Authorizations.Evaluate(ctx, by, asked)
	if err != nil {
		return decided{}, err
	}
	answer := decided{made.Verdict == decision.Allow, decidedContext{Verdict: made.Verdict, Code: made.Code, By: made.By}}
	if answer.Context.By == nil {
		answer.Context.By = []string{}
	}
	return answer, nil
}

// check requires that those members that are there are well-formed.
func (r *evaluation) check() error {
	filled := *r
	for _, m := range []*jsontext.Value{&filled.Subject, &filled.Action, &filled.Resource} {
		if httpapi.IsAbsent(*m) {
			*m = jsontext.Value(`{"type":"any","id":"any","name":"any"}`)
		}
	}
	_, err := filled.read()
	return err
}

// read reads an evaluation. Members that it does not know are ignored, as AuthZEN demands.
func (r *evaluation) read() (e service.Evaluation, err error) {
	if e.Subject, err = named("subject", r.Subject); err != nil {
		return e, err
	}
	if e.Action, err = text("action", r.Action, "name"); err != nil {
		return e, err
	}
	if e.Resource, err = named("resource", r.Resource); err != nil {
		return e, err
	}
	var request bytes.Buffer
	fmt.Fprintf(&request, `{"subject":%s,"action":%s,"resource":%s`, r.Subject, r.Action, r.Resource)
	if !httpapi.IsAbsent(r.Context) {
		fmt.Fprintf(&request, `,"context":%s`, r.Context)
		err := strictjson.EachMember(r.Context, httpapi.MaxDepth, func(name, value []byte) {
			if string(name) == "arguments" && !httpapi.IsAbsent(value) {
				e.Arguments = value
			}
		})
		if err != nil {
			return e, invalidEvaluation("context must be an object")
		}
		if e.Arguments != nil && jsontext.Value(e.Arguments).Kind() != '{' {
			return e, invalidEvaluation("context.arguments must be an object")
		}
	}
	request.WriteByte('}')
	e.Request = request.Bytes()
	return e, nil
}

func invalidEvaluation(what string) error { return httpapi.Fail(http.StatusBadRequest, what) }

// named reads the type and the ID of a subject or a resource.
func named(what string, object jsontext.Value) (n service.Named, err error) {
	if n.Type, err = text(what, object, "type"); err == nil {
		n.ID, err = text(what, object, "id")
	}
	return n, err
}

// text reads a required text of a required object, and that its properties are an object.
func text(what string, object jsontext.Value, member string) (text string, err error) {
	if httpapi.IsAbsent(object) {
		return "", invalidEvaluation(what + " is required")
	}
	var properties jsontext.Value
	err = strictjson.EachMember(object, httpapi.MaxDepth, func(name, value []byte) {
		switch string(name) {
		case member:
			text, _ = strictjson.AsString(value)
		case "properties":
			properties = value
		}
	})
	switch {
	case err != nil:
		return "", invalidEvaluation(what + " must be an object")
	case text == "":
		return "", invalidEvaluation(what + "." + member + " must be a text that is not empty")
	case !httpapi.IsAbsent(properties) && properties.Kind() != '{':
		return "", invalidEvaluation(what + ".properties must be an object")
	}
	return text, nil
}

// maxEvaluations is how many evaluations one request may have.
const maxEvaluations = 100

type evaluationsRequest struct {
	Subject     jsontext.Value `json:"subject"`
	Action      jsontext.Value `json:"action"`
	Resource    jsontext.Value `json:"resource"`
	Context     jsontext.Value `json:"context"`
	Evaluations jsontext.Value `json:"evaluations"`
	Options     jsontext.Value `json:"options"`

	items    []jsontext.Value
	semantic string
}

// The semantics of several evaluations (AuthZEN 1.0 §7.1.2.1).
const (
	executeAll   = "execute_all"
	firstDenied  = "deny_on_first_deny"
	firstAllowed = "permit_on_first_permit"
)

// Spend reads the list, and counts each evaluation as a request.
func (r *evaluationsRequest) Spend(c *httpapi.Call) error {
	if !httpapi.IsAbsent(r.Evaluations) {
		err := strictjson.EachElement(r.Evaluations, httpapi.MaxDepth, func(value []byte) { r.items = append(r.items, value) })
		if err != nil {
			return invalidEvaluation("evaluations must be an array")
		}
	}
	if len(r.items) > maxEvaluations {
		return invalidEvaluation(fmt.Sprintf("evaluations must be at most %d", maxEvaluations))
	}
	r.semantic = executeAll
	if !httpapi.IsAbsent(r.Options) {
		var semantic jsontext.Value
		err := strictjson.EachMember(r.Options, httpapi.MaxDepth, func(name, value []byte) {
			if string(name) == "evaluations_semantic" {
				semantic = value
			}
		})
		if err != nil {
			return invalidEvaluation("options must be an object")
		}
		if !httpapi.IsAbsent(semantic) {
			r.semantic, _ = strictjson.AsString(semantic)
		}
	}
	if r.semantic != executeAll && r.semantic != firstDenied && r.semantic != firstAllowed {
		return invalidEvaluation("options.evaluations_semantic must be " + executeAll + ", " + firstDenied + " or " + firstAllowed)
	}
	if len(r.items) < 2 {
		return nil
	}
	return c.Spend(limit.Standard, len(r.items)-1)
}

// manyDecided is the answer to several evaluations, in their order.
type manyDecided struct {
	Evaluations []decided `json:"evaluations"`
}

// evaluateAll decides evaluations one after the other. Without any it is the request itself that is
// decided.
func (s *AuthZEN) evaluateAll(ctx context.Context, by store.Caller, r evaluationsRequest) (any, error) {
	defaults := evaluation{r.Subject, r.Action, r.Resource, r.Context}
	if len(r.items) == 0 {
		return s.evaluate(ctx, by, defaults)
	}
	if err := defaults.check(); err != nil {
		return nil, err
	}
	answer := manyDecided{Evaluations: make([]decided, 0, len(r.items))}
	for _, item := range r.items {
		made, err := s.evaluateItem(ctx, by, defaults, item)
		if err != nil {
			return nil, err
		}
		answer.Evaluations = append(answer.Evaluations, made)
		if r.semantic == firstDenied && !made.Decision || r.semantic == firstAllowed && made.Decision {
			break
		}
	}
	return answer, nil
}

// evaluateItem decides one of several evaluations. What is wrong with it denies it alone.
func (s *AuthZEN) evaluateItem(ctx context.Context, by store.Caller, r evaluation, item jsontext.Value) (decided, error) {
	err := strictjson.EachMember(item, httpapi.MaxDepth, func(name, value []byte) {
		for _, m := range []struct {
			name string
			into *jsontext.Value
		}{{"subject", &r.Subject}, {"action", &r.Action}, {"resource", &r.Resource}, {"context", &r.Context}} {
			if m.name == string(name) && !httpapi.IsAbsent(value) {
				*m.into = value
			}
		}
	})
	var made decided
	if err != nil {
		err = invalidEvaluation("an evaluation must be an object")
	} else {
		made, err = s.evaluate(ctx, by, r)
	}
	if err == nil {
		return made, nil
	}
	refused := httpapi.Classify(err)
	if refused.Status >= http.StatusInternalServerError {
		return decided{}, err
	}
	return decided{Context: decidedContext{Verdict: decision.Deny, Code: refused.Code, By: []string{}, Error: &evaluatedError{refused.Status, refused.Message}}}, nil
}

// authzenMetadata is the metadata of a policy decision point (AuthZEN 1.0 §9.1).
type authzenMetadata struct {
	Point       string `json:"policy_decision_point"`
	Evaluation  string `json:"access_evaluation_endpoint"`
	Evaluations string `json:"access_evaluations_endpoint"`

	inferred bool // the URLs in it are those of the request, as far as they are the server's
}

func (m authzenMetadata) SetHeader(h http.Header) { cacheIssuer(h, m.inferred) }

// Metadata returns the metadata of this server.
func (s *AuthZEN) Metadata(_ context.Context, _ store.Caller, r serverResourceRequest) (authzenMetadata, error) {
	base := s.API.OwnBase(r.Request)
	if base == "" {
		return authzenMetadata{}, httpapi.Misdirected()
	}
	return authzenMetadata{base, base + "/access/v1/evaluation", base + "/access/v1/evaluations", s.API.BaseURL == ""}, nil
}

// CompanyMetadata returns the same for a company, whose decision point is named as its issuer is.
// The credential of the caller says whose policies decide, so the endpoints are the same.
func (s *AuthZEN) CompanyMetadata(ctx context.Context, by store.Caller, r issuerRequest) (authzenMetadata, error) {
	m, err := s.Metadata(ctx, by, serverResourceRequest{r.Request})
	if err != nil {
		return m, err
	}
	company, err := s.Authorizations.Store.Companies.Get(ctx, r.CompanyID)
	if errors.Is(err, store.ErrNotFound) {
		return m, httpapi.Fail(http.StatusNotFound, "Company not found: "+r.CompanyID)
	}
	if err == nil {
		m.Point = service.IssuerOf(m.Point, company.ID)
	}
	return m, err
}
