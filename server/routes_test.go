package server

import (
	"slices"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"attestd/server/limit"
)

// The document and the route table name the same operations, with the same need of a credential and the same limit.
func TestRoutesAreTheDocument(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromFile("../web/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	type policy struct {
		auth bool
		tier any
	}
	tiers := map[limit.Tier]string{limit.Standard: "standard", limit.Sensitive: "sensitive", limit.Attest: "attest"}
	served := map[string]policy{}
	for _, rt := range routes {
		served[rt.method+" "+rt.path] = policy{rt.auth, tiers[rt.tier]}
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
			described[method+" "+path] = policy{!open, op.Extensions["x-rate-tier"]}
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
