package web_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"attestd/chain/evidence"
	"attestd/crypto/jose"
	"attestd/internal/testenv"
	"attestd/web"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/gowebpki/jcs"
)

func load(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(web.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestOpenAPIIsValid(t *testing.T) {
	t.Parallel()
	if err := load(t).Validate(t.Context(), openapi3.EnableMultiError()); err != nil {
		t.Error(err)
	}
}

// Another YAML parser must find the same content in the file as in the JSON.
func TestOpenAPIEqualsItsSource(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	fromYAML, err := openapi3.NewLoader().LoadFromData(src)
	if err != nil {
		t.Fatal(err)
	}
	if want, got := marshal(t, fromYAML), marshal(t, load(t)); !bytes.Equal(want, got) {
		t.Errorf("openapi.yaml and OpenAPI() differ: %d and %d bytes", len(want), len(got))
	}
}

func TestOpenAPIKeepsSourceOrder(t *testing.T) {
	t.Parallel()
	var doc bytes.Buffer
	if err := json.Compact(&doc, web.OpenAPI()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`{"openapi":"3.1.0","info":{"title":"attestd","summary":`,
		`"paths":{"/v1/companies":{"post":{"operationId":"createCompany","tags":`,
		`"record":{"index":0,"timestamp":`, // written in the file as an alias
	} {
		if !bytes.Contains(doc.Bytes(), []byte(want)) {
			t.Errorf("the document does not hold %s", want)
		}
	}
}

// eachOperation calls f for all operations with their "METHOD path".
func eachOperation(doc *openapi3.T, f func(name string, op *openapi3.Operation)) {
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			f(method+" "+path, op)
		}
	}
}

func TestOperationsAreComplete(t *testing.T) {
	t.Parallel()
	doc := load(t)
	ids := map[string]string{}
	tiers := map[string][]string{}
	eachOperation(doc, func(name string, op *openapi3.Operation) {
		if op.OperationID == "" || op.Summary == "" || op.Description == "" {
			t.Errorf("%s: operationId, summary or description is missing", name)
		}
		if other := ids[op.OperationID]; other != "" {
			t.Errorf("%s: operationId %s is that of %s", name, op.OperationID, other)
		}
		ids[op.OperationID] = name
		if len(op.Tags) != 1 || doc.Tags.Get(op.Tags[0]) == nil {
			t.Errorf("%s: tags %v, want one that is described", name, op.Tags)
		}
		tier, _ := op.Extensions["x-rate-tier"].(string)
		tiers[tier] = append(tiers[tier], name)

		for _, status := range statuses(doc, name, op) {
			if op.Responses.Value(status) == nil {
				t.Errorf("%s: response %s is missing", name, status)
			}
		}
		for status, r := range op.Responses.Map() {
			for kind, media := range r.Value.Content {
				if len(media.Examples) == 0 && kind != "application/x-protobuf" {
					t.Errorf("%s: %s %s has no example", name, status, kind)
				}
			}
			if r.Value.Content.Get("application/json") == nil && status != "101" && name != "GET /v1/report" && name != "GET /v1/sessions/{agentId}/{sid}" && !(slices.Contains([]string{"Logs", "Witness"}, op.Tags[0]) && (status == "200" || status == "409")) {
				t.Errorf("%s: %s has no JSON body", name, status)
			}
			if r.Value.Headers["X-Request-ID"] == nil && status != "101" {
				t.Errorf("%s: %s has no X-Request-ID", name, status)
			}
		}
		if op.RequestBody != nil {
			if all := ofContent(name, op.RequestBody.Value.Content); len(all) == 0 {
				t.Errorf("%s: the request has no example", name)
			}
		}
		for _, p := range op.Parameters {
			if p.Value.Description == "" || p.Value.Example == nil {
				t.Errorf("%s: parameter %s has no description or example", name, p.Value.Name)
			}
		}
	})
	for tier, want := range map[string][]string{
		"sensitive": {"GET /v1/people/oidc", "GET /v1/people/oidc/callback", "POST /o/{companyId}/token", "POST /v1/agents/{agentId}/enrolments", "POST /v1/companies/rotate-keys", "POST /v1/federation", "POST /v1/oauth/token",
			"POST /v1/people/enrol", "POST /v1/people/enrol/options", "POST /v1/people/me/passkeys", "POST /v1/people/me/passkeys/options", "POST /v1/people/sign-in", "POST /v1/people/sign-in/options", "POST /v1/people/{personId}/invitations",
			"POST /v1/policies/test", "POST /v1/setup", "POST /v1/webhooks/{webhookId}/test"},
		"attest": {"POST /v1/approvals", "POST /v1/attest"},
		"log":    {"GET /v1/log/{logId}/checkpoint", "GET /v1/log/{logId}/consistency", "GET /v1/log/{logId}/proof/{index}", "GET /v1/log/{logId}/tile/{path}"},
	} {
		if got := slices.Sorted(slices.Values(tiers[tier])); !slices.Equal(got, want) {
			t.Errorf("tier %s: %v, want %v", tier, got, want)
		}
	}
	if got, want := len(tiers["standard"]), len(ids)-23; got != want {
		t.Errorf("tier standard has %d operations, want all %d others", got, want)
	}
}

// statuses lists the error responses that an operation of this shape must describe.
func statuses(doc *openapi3.T, name string, op *openapi3.Operation) []string {
	want := []string{"429", "500"}
	if name != "GET /v1/health" && name != "GET /v1/openapi.json" {
		want = append(want, "503") // all others need the database
	}
	if op.RequestBody != nil {
		want = append(want, "400", "413")
	}
	for _, p := range op.Parameters {
		if p.Value.In == openapi3.ParameterInQuery {
			want = append(want, "400")
		}
	}
	security := doc.Security
	if op.Security != nil {
		security = *op.Security
	}
	if len(security) > 0 {
		want = append(want, "401")
	}
	return want
}

// example is a value somewhere in the document that must fit a schema.
type example struct {
	name   string
	schema *openapi3.Schema
	value  any
}

func (e example) check() error { return e.schema.VisitJSON(e.value, openapi3.EnableJSONSchema2020()) }

func ofContent(name string, content openapi3.Content) (all []example) {
	for kind, media := range content {
		for key, e := range media.Examples {
			all = append(all, example{fmt.Sprintf("%s %s %s", name, kind, key), media.Schema.Value, e.Value.Value})
		}
	}
	return all
}

func ofResponse(name string, r *openapi3.Response) []example {
	all := ofContent(name, r.Content)
	for key, h := range r.Headers {
		all = append(all, example{name + " header " + key, h.Value.Schema.Value, h.Value.Example})
	}
	return all
}

// responseExamples are those of all responses, of operations and of components.
func responseExamples(doc *openapi3.T) (all []example) {
	eachOperation(doc, func(name string, op *openapi3.Operation) {
		for status, r := range op.Responses.Map() {
			all = append(all, ofResponse(name+" "+status, r.Value)...)
		}
	})
	for name, r := range doc.Components.Responses {
		all = append(all, ofResponse("response "+name, r.Value)...)
	}
	return all
}

func TestExamplesFitTheirSchemas(t *testing.T) {
	t.Parallel()
	doc := load(t)
	all := responseExamples(doc)
	eachOperation(doc, func(name string, op *openapi3.Operation) {
		if op.RequestBody != nil {
			all = append(all, ofContent(name+" request", op.RequestBody.Value.Content)...)
		}
		for _, p := range op.Parameters {
			all = append(all, example{name + " parameter " + p.Value.Name, p.Value.Schema.Value, p.Value.Example})
		}
	})
	for name, schema := range doc.Components.Schemas {
		for i, v := range schema.Value.Examples {
			all = append(all, example{fmt.Sprintf("schema %s example %d", name, i), schema.Value, v})
		}
	}
	for _, e := range all {
		if err := e.check(); err != nil {
			t.Errorf("%s: %v", e.name, err)
		}
	}
}

// Responses of the server are held against these schemas, so an undescribed member must not pass.
func TestResponsesRefuseUnknownMembers(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	t.Parallel()
	for _, e := range responseExamples(load(t)) {
		object, ok := e.value.(map[string]any)
		if !ok || strings.HasPrefix(e.name, "GET /v1/openapi.json 200") {
			continue
		}
		for name := range object {
			e.value = without(object, name)
			optional := isOptional(e.name, name)
			if err := e.check(); (err == nil) != optional {
				t.Errorf("%s without %s: %v", e.name, name, err)
			}
		}
		e.value = maps.Clone(object)
		e.value.(map[string]any)["surprise"] = true
		if e.check() == nil {
			t.Errorf("%s passes with an unknown member", e.name)
		}
	}
}

// isOptional reports whether a member of an answer may be absent.
func isOptional(answer, member string) bool {
	switch member {
	case "next":
		return !strings.HasPrefix(answer, "POST /v1/policies/test ")
	case "reason": // which those of approvals have as null
		return !strings.Contains(answer, " /v1/approvals")
	case "metadata", "headFile", "pointer", "hookSpecificOutput":
		return true
	case "delegation":
		return !strings.HasPrefix(answer, "GET /v1/authority/")
	case "scope": // where none was asked for, or what was exchanged had none
		return strings.Contains(answer, "token 200 ") || strings.Contains(answer, "introspect 200 ")
	case "clientSecret": // of a client with keys
		return strings.HasPrefix(answer, "POST /v1/oauth/clients ")
	case "jwksUri", "keys", "failure": // of a client whose keys are fetched
		return strings.HasPrefix(answer, "GET /v1/oauth/clients 200")
	case "authorization_servers", "jwks_uri": // of the whole API
		return strings.HasPrefix(answer, "GET /.well-known/oauth-protected-resource")
	case "pruned": // where payloads were
		return strings.HasPrefix(answer, "GET /v1/verify 200 ")
	case "reasons", "tablesChanged": // where others are out of order
		return strings.HasPrefix(answer, "GET /readyz 200 ")
	case "topAgents", "topActions", "partialSuccess":
		return true
	case "agents", "actions", "description", "disabledAt", "disabledReason":
		return strings.Contains(answer, " /v1/webhooks") || strings.Contains(answer, "/records/histogram")
	case "status":
		return strings.HasPrefix(answer, "POST /v1/webhooks/{webhookId}/test 200")
	case "code", "line", "column": // of people, and of what is wrong in other ways than a policy
		return strings.Contains(answer, " /v1/people") && (!strings.Contains(answer, "/people/oidc") || strings.Contains(answer, " 409 ")) && !regexp.MustCompile(` (403|503|507) `).MatchString(answer) || strings.HasPrefix(answer, "response P") && !strings.Contains(answer, "PersonForbidden") ||
			strings.HasPrefix(answer, "POST /v1/agents/{agentId}/keys 400") || strings.Contains(answer, " /v1/approvals/{approvalId}/") && strings.Contains(answer, " 401 ") || strings.Contains(answer, " /v1/policies/") && strings.Contains(answer, " 400 ")
	case "putBy":
		return true
	case "verdicts": // where it is counted by decision
		return strings.HasPrefix(answer, "GET /v1/records/histogram 200")
	case "passkey", "reauthenticatedAt": // of a session, while no passkey has signed
		return strings.Contains(answer, "/people/me")
	case "revokedAt": // while it is not
		return strings.Contains(answer, "/passkeys")
	case "passkeys": // where one person is read
		return strings.Contains(answer, " /v1/people") && !strings.Contains(answer, "/people/me ")
	case "uses", "remaining": // of one that is approved
		return strings.Contains(answer, " /v1/approvals")
	case "companyId", "personId", "name": // of an invitation
		return strings.HasSuffix(answer, "/options 200 one") || strings.Contains(answer, "/options 200 ")
	case "error_description":
		return strings.HasPrefix(answer, "POST ") && strings.Contains(answer, "/token 401")
	case "aud", "iss": // of a JWT
		return strings.Contains(answer, "introspect 200 ")
	case "attest": // of an agent, where it is not named
		return strings.HasPrefix(answer, "PUT /v1/agents/")
	case "agentId", "dryRun", "exchangeAudiences":
		return strings.Contains(answer, "/policy 200")
	}
	return false
}

func TestPayloadMayBeAnyJSON(t *testing.T) {
	t.Parallel()
	doc := load(t)
	record := doc.Components.Schemas["AttestationRecord"].Value
	for _, payload := range []string{`null`, `true`, `0`, `-1.5e-7`, `""`, `"<é>"`, `[]`, `[null,[1]]`, `{}`, `{"a":{"a":null}}`} {
		value := decode(t, marshal(t, record.Examples[0])).(map[string]any)
		value["payload"].(map[string]any)["payload"] = decode(t, []byte(payload))
		for _, e := range []example{
			{"record", record, value},
			{"list", doc.Components.Schemas["RecordList"].Value, map[string]any{"records": []any{value}}},
			{"message", doc.Components.Schemas["StreamMessage"].Value,
				map[string]any{"type": "record", "record": value, "valid": false, "failedAtIndex": 0.0}},
		} {
			if err := e.check(); err != nil {
				t.Errorf("%s with payload %s: %v", e.name, payload, err)
			}
		}
	}
}

func TestPassportCodesAreListedInOrder(t *testing.T) {
	t.Parallel()
	doc := load(t)
	rest := doc.Tags.Get("Passports").Description
	for _, code := range doc.Components.Schemas["VerificationCode"].Value.Enum {
		_, after, found := strings.Cut(rest, fmt.Sprintf("| `%s` |", code))
		if !found {
			t.Errorf("%s is not in the table, or not in its place", code)
			continue
		}
		rest = after
	}
}

// The examples promise to check out. This is the reader's verifier, made from the rules of the text
// alone.
func TestExamplesCheckOut(t *testing.T) {
	t.Parallel()
	doc := load(t)
	jwk := doc.Components.Schemas["JWK"].Value.Examples[0].(map[string]any)
	key := ed25519.PublicKey(unbase64(t, jwk["x"]))
	digest := func(s string) string { h := sha256.Sum256([]byte(s)); return hex.EncodeToString(h[:]) }
	signed := func(hash, signature any) bool {
		message, err := hex.DecodeString(hash.(string))
		return err == nil && ed25519.Verify(key, message, unbase64(t, signature))
	}
	var roots []any
	for _, e := range responseExamples(doc) {
		// which brings its keys, and has a checker of its own
		if strings.HasPrefix(e.name, "GET /v1/evidence/{index} 200 application/json") {
			if v := evidence.Check(marshal(t, e.value), evidence.Trust{}); v.Outcome != evidence.SelfConsistent {
				t.Errorf("%s: %s: %s", e.name, v.Code, v.Reason)
			}
			continue
		}
		walk(e.value, func(o map[string]any) {
			switch {
			case o["timestamp"] != nil && o["payload"] != nil: // a record
				preimage := fmt.Sprintf("%v|%s|%s", o["index"], o["timestamp"], canonical(t, o["payload"]))
				if o["delegation"] != nil {
					preimage += "|" + canonical(t, o["delegation"])
				}
				if digest(preimage) != o["hash"] || !signed(o["hash"], o["signature"]) {
					t.Errorf("%s: record %v does not verify", e.name, o["index"])
				}
				if o["index"] == 0.0 && !strings.Contains(doc.Tags.Get("Chain").Description, preimage) {
					t.Errorf("the text does not show the preimage of the first record, %s", preimage)
				}
			case o["checkedAt"] != nil: // a signed status
				text := canonical(t, without(without(o, "caPublicKey"), "signature"))
				if !signed(digest(text), o["signature"]) {
					t.Errorf("%s: the signature does not verify", e.name)
				}
				if o["status"] == "valid" && !strings.Contains(doc.Tags.Get("Revocation").Description, text) {
					t.Errorf("the text does not show what is signed, %s", text)
				}
			case o["fromRoot"] != nil: // from 1 to 3 records: the other two leaves, on the right
				proof := o["proof"].([]any)
				if digest(digest(o["fromRoot"].(string)+proof[0].(string))+proof[1].(string)) != o["toRoot"] {
					t.Errorf("%s: the proof does not lead to %s", e.name, o["toRoot"])
				}
			case o["proof"] != nil && o["record"] != nil:
				current := o["record"].(map[string]any)["hash"].(string)
				for _, step := range o["proof"].([]any) {
					sibling := step.(map[string]any)["sibling"].(string)
					if step.(map[string]any)["position"] == "left" {
						current = digest(sibling + current)
					} else {
						current = digest(current + sibling)
					}
				}
				if current != o["root"] {
					t.Errorf("%s: the proof leads to %s, not to %s", e.name, current, o["root"])
				}
				roots = append(roots, o["root"])
			}
			for _, member := range []string{"svid", "passport", "token", "access_token"} {
				if token, ok := o[member].(string); ok && strings.Count(token, ".") == 2 {
					parsed, err := jose.Parse(token, 1<<12)
					if err == nil && parsed.Header.Algorithm == jose.ES256 { // in the key set
						if keySetExample(t, doc).Verify(parsed) != nil {
							t.Errorf("%s: the signature of %s does not verify", e.name, member)
						}
						continue
					}
					cut := strings.LastIndexByte(token, '.')
					if !ed25519.Verify(key, []byte(token[:cut]), unbase64(t, token[cut+1:])) {
						t.Errorf("%s: the signature of %s does not verify", e.name, member)
					}
				}
			}
		})
	}
	if len(roots) < 3 {
		t.Errorf("%d proofs among the examples, want 3 or more", len(roots))
	}
}

// keySetExample is the key in the example of a key set.
func keySetExample(t *testing.T, doc *openapi3.T) *jose.Key {
	t.Helper()
	set := doc.Paths.Find("/o/{companyId}/jwks").Get.Responses.Status(200).Value.Content["application/json"].Examples["keys"].Value.Value
	jwk, err := json.Marshal(set.(map[string]any)["keys"].([]any)[0])
	if err != nil {
		t.Fatal(err)
	}
	key, err := jose.ParseKey(jwk)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// walk calls f for every object inside v.
func walk(v any, f func(map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		f(v)
		for _, member := range v {
			walk(member, f)
		}
	case []any:
		for _, item := range v {
			walk(item, f)
		}
	}
}

func without(o map[string]any, name string) map[string]any {
	rest := maps.Clone(o)
	delete(rest, name)
	return rest
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func decode(t *testing.T, b []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func canonical(t *testing.T, v any) string {
	t.Helper()
	b, err := jcs.Transform(marshal(t, v))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func unbase64(t *testing.T, s any) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.Strict().DecodeString(s.(string))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
