package server

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"attestd/internal/testenv"
	"attestd/server/httpapi"
	"attestd/server/limit"
)

// The document and the route table name the same operations, for the same role and with the same
// limit.
func TestRoutesMatchOpenAPI(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromFile("../web/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	type policy struct {
		role, tier       any
		agent, enrolment bool
	}
	tiers := map[limit.Tier]string{limit.Standard: "standard", limit.Sensitive: "sensitive", limit.Attest: "attest", limit.Log: "log"}
	served := map[string]policy{}
	for _, rt := range routes(new(resources)) {
		who, role := rt.Needs.Who, "public"
		if !rt.Needs.IsPublic() {
			role = string(who.Role())
		}
		if who == httpapi.IsPerson {
			role = "person"
		}
		served[rt.Method+" "+documented(rt.Path)] = policy{role, tiers[rt.Tier], role != "public" && who&httpapi.IsAgent != 0, who&httpapi.IsEnrolling != 0}
	}
	described := map[string]policy{}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			security := doc.Security
			if op.Security != nil {
				security = *op.Security
			}
			// No requirement, or an empty one among several, means that it can be called without.
			open := len(security) == 0 || slices.ContainsFunc(security, func(r openapi3.SecurityRequirement) bool { return len(r) == 0 })
			described[method+" "+path] = policy{op.Extensions["x-role"], op.Extensions["x-rate-tier"], op.Extensions["x-agent"] == true, op.Extensions["x-enrolment"] == true}
			if open != (op.Extensions["x-role"] == "public") {
				t.Errorf("%s %s: x-role is %v, and security %v", method, path, op.Extensions["x-role"], security)
			}
		}
	}
	for call, want := range served {
		got, ok := described[call]
		if !ok {
			t.Errorf("%s is served and not described", call)
		} else if got != want {
			t.Errorf("%s: served with %+v, described with %+v", call, want, got)
		}
	}
	for call := range described {
		if _, ok := served[call]; !ok {
			t.Errorf("%s is described and not served", call)
		}
	}
}

// The document describes of each endpoint's request what the endpoint reads: the same parameters,
// the same members of the body, and the same of them as required.
func TestRequestsMatchOpenAPI(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromFile("../web/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, rt := range routes(new(resources)) {
		if rt.Handler.Form == nil {
			continue
		}
		path := doc.Paths.Find(documented(rt.Path))
		if path == nil || path.GetOperation(rt.Method) == nil {
			continue // TestRoutesAreTheDocument says so
		}
		op := path.GetOperation(rt.Method)
		if got, want := read(rt.Handler.Form), described(op); !slices.Equal(got, want) {
			t.Errorf("%s %s reads %q, the document describes %q", rt.Method, rt.Path, got, want)
		}
		if rt.Undeclared != httpapi.Lenient && op.Responses.Status(http.StatusBadRequest) == nil {
			t.Errorf("%s %s refuses what it does not declare, and the document does not say that it answers 400", rt.Method, rt.Path)
		}
		if closed := op.RequestBody != nil && closedBody(op); closed != (op.RequestBody != nil && rt.Undeclared == httpapi.Strict) {
			t.Errorf("%s %s: its policy is %d, and the document says that its body takes no other members: %v", rt.Method, rt.Path, rt.Undeclared, closed)
		}
		if op.RequestBody != nil && rt.Handler.Form.AcceptsForm != (op.RequestBody.Value.Content[httpapi.FormEncoded] != nil) {
			t.Errorf("%s %s: the document and the endpoint do not agree on whether the body may be a form", rt.Method, rt.Path)
		}
	}
}

// closedBody says whether the document lets the body of an operation have no members but those that
// it names.
func closedBody(op *openapi3.Operation) bool {
	body := op.RequestBody.Value.Content["application/json"]
	if body == nil {
		return false
	}
	more := body.Schema.Value.AdditionalProperties
	return more.Has != nil && !*more.Has
}

// read lists what a form reads.
func read(form *httpapi.Form) (list []string) {
	for _, f := range form.Fields {
		what := f.From + " " + f.Name
		if slices.Contains([]string{"string", "is", "segment", "present", "checked", "policy", "audience"}, f.Rule) || f.Rule == "name" && f.Name != "label" {
			what += ", required"
		}
		if f.Name != "Accept" { // which the document describes by the media types of the answer
			list = append(list, what)
		}
	}
	slices.Sort(list)
	return list
}

// described lists what the document says of an operation's request.
func described(op *openapi3.Operation) (list []string) {
	for _, p := range op.Parameters {
		switch p.Value.Name {
		case "Origin", "Sec-WebSocket-Protocol":
			// read by what all requests have in common, and by the upgrade
			continue
		}
		// named by the service, so no form can name it
		if !strings.HasSuffix(p.Value.Name, "-Passport") {
			list = append(list, p.Value.In+" "+p.Value.Name)
		}
	}
	if op.RequestBody != nil && op.RequestBody.Value.Content["application/json"] != nil {
		schema := op.RequestBody.Value.Content["application/json"].Schema.Value
		for name := range schema.Properties {
			what := "json " + name
			if slices.Contains(schema.Required, name) {
				what += ", required"
			}
			list = append(list, what)
		}
	}
	slices.Sort(list)
	return list
}

// documented is a route's path as the document writes it, which knows no parameter of several
// segments.
func documented(path string) string { return strings.ReplaceAll(path, "...}", "}") }
