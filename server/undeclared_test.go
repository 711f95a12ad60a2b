package server

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"attestd/server/httpapi"
	"attestd/server/limit"
	"attestd/store"
)

// asked calls a route as a caller who may use it, and stops before its work: the answer is that of
// what all routes have in common.
func asked(t *testing.T, rt httpapi.Route, query, body string) error {
	t.Helper()
	target := strings.NewReplacer("{", "", "}", "", "...", "").Replace(rt.Path)
	r := httptest.NewRequest(rt.Method, target, strings.NewReader(body))
	r.URL.RawQuery = query
	bodies := limit.NewPool(limit.Size{})
	shared := httpapi.API{Store: new(store.Store), MaxBody: 1 << 20, Bodies: bodies, Decoding: limit.NewDecoding(bodies)}
	c := shared.NewCall(rt, httptest.NewRecorder(), r)
	defer c.Release()
	if err := c.ReadQuery(rt.Handler.Form, rt.Undeclared); err != nil || rt.Undeclared == httpapi.StrictQuery {
		return err
	}
	if rt.Method == http.MethodGet || rt.Undeclared == httpapi.Lenient && !rt.Handler.Form.HasBody {
		return nil
	}
	_, err := c.Members(rt.Handler.Form)
	return err
}

// specified says of each route of the specification that it is one; all others are additions. The
// one to which an identity provider leads back ignores what it does not know, as RFC 6749 §4.1.2
// demands.
func specified(rt httpapi.Route) bool {
	return slices.Contains(strings.Fields(`
		POST/v1/companies POST/v1/setup GET/v1/company POST/v1/companies/svid POST/v1/recover-key
		POST/v1/agents/register GET/v1/agents/{agentId} GET/v1/agents/{agentId}/svid
		POST/v1/keys GET/v1/keys DELETE/v1/keys/{key} POST/v1/oauth/clients GET/v1/oauth/clients POST/v1/oauth/token
		POST/v1/attest GET/v1/chain GET/v1/verify GET/v1/proof/{index} POST/v1/token-exchange POST/v1/token/exchange
		POST/v1/agents/{agentId}/passport POST/v1/agents/{agentId}/passport/rotate POST/v1/passport/verify
		POST/v1/passports/{jti}/revoke GET/v1/passports/revoked GET/v1/ocsp/{jti}
		GET/v1/ca/public-key GET/v1/ca/well-known GET/v1/health GET/v1/ws
		GET/v1/people/oidc/callback`), rt.Method+rt.Path)
}

// Every addition to the specification refuses what it does not declare, in its query and in its
// body; every route of the specification ignores it.
func TestUndeclaredMembersOfEveryRoute(t *testing.T) {
	t.Parallel()
	for _, rt := range routes(new(resources)) {
		t.Run(rt.Method+" "+rt.Path, func(t *testing.T) {
			t.Parallel()
			if rt.Handler.Form == nil {
				t.Fatal("declares nothing")
			}
			if (rt.Undeclared == httpapi.Lenient) != specified(rt) {
				t.Fatalf("the specification has it: %v; its policy is %v", specified(rt), rt.Undeclared)
			}
			queries := []string{"zzzzzz=1", "zzzzzz", "%zz=1", "a;b=1", "q%00=1"}
			for _, f := range rt.Handler.Form.Fields {
				if f.From == "query" {
					queries = append(queries, f.Name+"=1&"+f.Name+"=1", f.Name+"=%zz", f.Name+"=1;x=2", strings.ToUpper(f.Name)+"=1", f.Name+"s=1")
				}
			}
			for _, query := range queries {
				err := asked(t, rt, query, "")
				if refused := err != nil && httpapi.Classify(err).Status == http.StatusBadRequest; refused == specified(rt) {
					t.Errorf("?%s: %v", query, err)
				}
			}
			if rt.Method == http.MethodGet || rt.Undeclared == httpapi.StrictQuery {
				return
			}
			for _, body := range []string{`{"zzzzzz":1}`, `{"":null}`} {
				err := asked(t, rt, "", body)
				if refused := err != nil && httpapi.Classify(err).Status == http.StatusBadRequest; refused == specified(rt) {
					t.Errorf("%s: %v", body, err)
				}
			}
		})
	}
}

// Wherever a member bears on rights, another spelling of it is refused by a text that names it, in
// the body and in the query; and no member that a route declares counts as another's misspelling.
func TestMisspeltRights(t *testing.T) {
	t.Parallel()
	spellings := map[string][]string{
		"role":       {"rol", "Role", "ROLE", "roles", "rloe", "role_name"},
		"expiresAt":  {"expires", "expiresat", "expires_at", "expiresIn", "exp", "expiry", "expiration", "expire"},
		"scopes":     {"scope", "Scopes", "scops", "scopes[]"},
		"ttl":        {"TTL", "tll", "ttlSeconds", "tl"},
		"delegation": {"delegations", "Delegation", "delegate", "delegationToken", "delagation"},
		"actingOn":   {"acting_on", "actingon", "actingFor", "acting"},
	}
	tested := map[string]bool{}
	for _, rt := range routes(new(resources)) {
		form := rt.Handler.Form
		for i := range form.Fields {
			f := &form.Fields[i]
			if err := form.RefuseMember(f.Name, httpapi.Lenient); f.From == "json" && err != nil && !slices.Contains(httpapi.Rights, f.Name) && form.Declares("json", f.Name) {
				if _, err := form.ParseObject([]byte(`{"`+f.Name+`":1}`), httpapi.MaxDepth, rt.Undeclared); err != nil {
					t.Errorf("%s %s refuses its own %s: %v", rt.Method, rt.Path, f.Name, err)
				}
			}
			if f.From != "json" || !slices.Contains(httpapi.Rights, f.Name) {
				continue
			}
			tested[f.Name] = true
			for _, name := range spellings[f.Name] {
				for where, err := range map[string]error{
					"body":  asked(t, rt, "", `{"`+name+`":"x"}`),
					"query": asked(t, rt, name+"=x", ""),
				} {
					if err == nil || httpapi.Classify(err).Status != http.StatusBadRequest || where == "body" && !strings.Contains(err.Error(), f.Name) {
						t.Errorf("%s %s: %s in the %s: %v", rt.Method, rt.Path, name, where, err)
					}
				}
			}
		}
	}
	for name := range spellings {
		if !tested[name] {
			t.Errorf("no route has %s", name)
		}
	}
}
