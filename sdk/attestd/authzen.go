package attestd

import (
	"context"
	"encoding/json"
	"net/http"
)

// AccessEvaluation asks by AuthZEN 1.0 whether a subject may do something with a resource. A
// resource of the type tool is a tool, and Context then has its arguments under "arguments".
type AccessEvaluation struct {
	Subject  *AccessEntity  `json:"subject,omitempty"` // required, as Action and Resource are
	Action   *AccessAction  `json:"action,omitempty"`
	Resource *AccessEntity  `json:"resource,omitempty"`
	Context  map[string]any `json:"context,omitempty"`
}

// AccessEntity is a subject, such as {agent, ID}, or a resource, such as {tool, server/name}.
type AccessEntity struct {
	Type       string         `json:"type"`
	ID         string         `json:"id"`
	Properties map[string]any `json:"properties,omitempty"`
}

// AccessAction is what the subject does: call, or another action by its name.
type AccessAction struct {
	Name       string         `json:"name"`
	Properties map[string]any `json:"properties,omitempty"`
}

// AccessDecision is the answer. Only where Decision is true the subject may do what was asked.
type AccessDecision struct {
	Decision bool `json:"decision"`
	Context  struct {
		Verdict string   `json:"verdict"` // Allow, Deny or Ask
		Code    string   `json:"code"`    // why it is denied
		By      []string `json:"by"`      // the policies that made the verdict
		// what is wrong with one of several evaluations; nil for nothing
		Error *struct {
			Status  int    `json:"status"`
			Message string `json:"message"`
		} `json:"error"`
	} `json:"context"`
}

// EvaluateAccess asks for one decision.
func (c *Client) EvaluateAccess(ctx context.Context, e AccessEvaluation) (d AccessDecision, err error) {
	err = c.evaluate(ctx, "/access/v1/evaluation", e, &d)
	return d, err
}

// AccessEvaluations are 1 to 100 evaluations. The embedded one has the defaults of their members.
type AccessEvaluations struct {
	AccessEvaluation
	Evaluations []AccessEvaluation `json:"evaluations"`
	Options     struct {
		// execute_all, which "" is, deny_on_first_deny or permit_on_first_permit
		Semantic string `json:"evaluations_semantic,omitempty"`
	} `json:"options"`
}

// EvaluateAccesses asks for several decisions at once, and returns them in that order.
func (c *Client) EvaluateAccesses(ctx context.Context, e AccessEvaluations) ([]AccessDecision, error) {
	var answer struct{ Evaluations []AccessDecision }
	err := c.evaluate(ctx, "/access/v1/evaluations", e, &answer)
	return answer.Evaluations, err
}

func (c *Client) evaluate(ctx context.Context, route string, asked, answer any) error {
	text, err := json.Marshal(asked)
	if err != nil {
		return err
	}
	return c.do(ctx, request{method: http.MethodPost, route: route, body: text, status: http.StatusOK, safe: true}, answer)
}

// AuthZENMetadata is the metadata of a policy decision point of AuthZEN 1.0.
type AuthZENMetadata struct {
	Point       string `json:"policy_decision_point"`
	Evaluation  string `json:"access_evaluation_endpoint"`
	Evaluations string `json:"access_evaluations_endpoint"`
}

// AuthZENMetadata returns the metadata of the service as a policy decision point.
func (c *Client) AuthZENMetadata(ctx context.Context) (m AuthZENMetadata, err error) {
	err = c.get(ctx, "/.well-known/authzen-configuration", nil, &m)
	return m, err
}

// CompanyAuthZENMetadata returns the metadata of a company's policy decision point.
func (c *Client) CompanyAuthZENMetadata(ctx context.Context, companyID string) (m AuthZENMetadata, err error) {
	err = c.get(ctx, "/.well-known/authzen-configuration/o/{companyId}", nil, &m, companyID)
	return m, err
}
