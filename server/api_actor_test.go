package server_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"attestd/crypto/jose"
	"attestd/internal/must"
	"attestd/internal/testenv"
)

// A delegation that says who acts is that agent's alone, whichever nesting it has and at whichever
// door it comes in: from an API key and an OAuth client for another agent, and from another agent
// for itself. The refusal names whose it is.
func TestDelegationIsUsedByItsCurrentActor(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	id := func(name string) string { return acme.companySPIFFE() + "/agent/" + name }
	planner, runner, helper := acme.agent(t, "planner"), acme.agent(t, "runner"), acme.agent(t, "helper")
	bot := acme.signer(t, "bot", jose.ES256).signsIn(t)
	one, _ := acme.exchange(t, planner, runner)
	two, _ := acme.exchange(t, one, helper)
	ofCompany, _ := acme.exchange(t, planner, acme.do(t, "POST /v1/companies/svid", "").status(200).str("svid"))
	may := acme.exchanges(t, planner, append(actor(planner), "may_act", id("runner"))...).str("access_token")
	tokens := map[string]struct{ token, actor string }{
		"of the specification's route":       {one, "runner"},
		"of its second hop":                  {two, "helper"},
		"for a company":                      {acme.do(t, delegate, `{"agentId":"runner","actingOn":"globex","scope":"x"}`).str("token"), "runner"},
		"whose actor is the company":         {ofCompany, ""},
		"of the token endpoint":              {acme.exchanges(t, planner, actor(runner)...).str("access_token"), "runner"},
		"of its second hop, the current out": {acme.exchanges(t, one, actor(helper)...).str("access_token"), "helper"},
		"of who acts for itself":             {acme.exchanges(t, planner, actor(planner)...).str("access_token"), "planner"},
		"of may_act, exchanged":              {acme.exchanges(t, may, actor(runner)...).str("access_token"), "runner"},
	}
	// each way by which a delegation can come in, and who comes by it for another agent
	doors := map[string]func(by caller, agent, token string) *reply{
		"attest": func(by caller, agent, token string) *reply { return by.do(t, "POST /v1/attest", actedBy(agent, token)) },
		"batch": func(by caller, agent, token string) *reply {
			return by.do(t, "POST /v1/attest/batch", `{"records":[`+actedBy(agent, token)+`]}`)
		},
	}
	writer := acme.create(t, "writer", "")
	client := acme.with(acme.oauthClient(t, "writer").token(t))
	for what, test := range tokens {
		for door, send := range doors {
			for who, by := range map[string]caller{"an API key": writer, "an OAuth client": client} {
				for _, agent := range []string{"planner", "runner", "helper", "bot", "any name", id("runner")} {
					answer := send(by, agent, test.token)
					switch refused := string(answer.raw); {
					case agent == test.actor && answer.code != 201:
						t.Errorf("%s, %s: %s for %s: %d %s", what, door, who, agent, answer.code, refused)
					case agent != test.actor && (answer.code != 400 || !strings.Contains(refused, `"error":"Invalid delegation: its current actor is `+acme.companySPIFFE())):
						t.Errorf("%s, %s: %s for %s: %d %s", what, door, who, agent, answer.code, refused)
					case agent != test.actor && test.actor != "" && !strings.Contains(refused, "current actor is "+id(test.actor)+","):
						t.Errorf("%s, %s: the refusal does not say whose it is: %s", what, door, refused)
					}
				}
			}
			// an agent comes for itself alone, and is not the actor of any of these
			if answer := send(bot.caller, "bot", test.token); answer.code != 400 {
				t.Errorf("%s, %s: another agent: %d %s", what, door, answer.code, answer.raw)
			}
		}
	}
	bot.do(t, "POST /v1/attest", actedBy("bot", bot.exchanges(t, planner).str("access_token"))).status(201)
	// an SVID says for whom the action was, and not who acts
	writer.do(t, "POST /v1/attest", actedBy("any name", planner)).status(201)
	writer.do(t, "POST /v1/attest", actedBy("runner", may)).gets(400, `{"error":"Invalid delegation: …must exchange it first"}`)
	for _, raw := range acme.lines(t, "GET /v1/chain") {
		r := decodeMixed(t, raw)
		if chain := r.Delegation.Chain; len(chain) > 1 && chain[len(chain)-1] != id(r.Payload.AgentID) {
			t.Errorf("a record of %q has the chain %q", r.Payload.AgentID, chain)
		}
	}
}

// Every operation whose request has a delegation is one of the doors above.
func TestDelegationsComeInByKnownDoors(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromFile("../web/openapi.yaml")
	must.OK(t, err)
	known := map[string]bool{"attest": true, "attestBatch": true}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if op.RequestBody == nil {
				continue
			}
			takes := slices.ContainsFunc(slices.Collect(maps.Values(op.RequestBody.Value.Content)), func(m *openapi3.MediaType) bool { return hasText(m.Schema, "delegation") })
			if takes != known[op.OperationID] {
				t.Errorf("%s %s (%s) takes a delegation: %t; try it in TestDelegationIsUsedByItsCurrentActor", method, path, op.OperationID, takes)
			}
		}
	}
}

// hasText reports whether values of a schema may have a string member of this name, at any depth.
// within are the enclosing schemas, because some refer to themselves.
func hasText(of *openapi3.SchemaRef, name string, within ...*openapi3.Schema) bool {
	if of == nil || of.Value == nil || slices.Contains(within, of.Value) {
		return false
	}
	within = append(slices.Clip(within), of.Value)
	for member, schema := range of.Value.Properties {
		if member == name && schema.Value.Type.Includes("string") && schema.Value.Format != "uuid" || hasText(schema, name, within...) {
			return true
		}
	}
	inner := slices.Concat(openapi3.SchemaRefs{of.Value.Items}, of.Value.OneOf, of.Value.AnyOf, of.Value.AllOf)
	return slices.ContainsFunc(inner, func(s *openapi3.SchemaRef) bool { return hasText(s, name, within...) })
}
