package server

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"attestd/store"
)

// asked calls a route as a caller who may use it, and stops before its work: the answer is that of
// what all routes have in common.
func asked(t *testing.T, rt route, query, body string) error {
	t.Helper()
	target := strings.NewReplacer("{", "", "}", "", "...", "").Replace(rt.path)
	r := httptest.NewRequest(rt.method, target, strings.NewReader(body))
	r.URL.RawQuery = query
	c := &call{Request: r, api: New(Config{MaxBody: 1 << 20, Store: new(store.Store)}).api, w: &response{ResponseWriter: httptest.NewRecorder()},
		came: time.Now(), needs: rt.needs, undeclared: rt.undeclared}
	defer c.release()
	if err := c.readQuery(rt.handler.form, rt.undeclared); err != nil || rt.undeclared == strictQuery {
		return err
	}
	if rt.method == http.MethodGet || rt.undeclared == lenient && !rt.handler.form.hasBody {
		return nil
	}
	_, err := c.members(rt.handler.form)
	return err
}

// specified says of each route of the specification that it is one; all others are additions.
func specified(rt route) bool {
	return slices.Contains(strings.Fields(`
		POST/v1/companies POST/v1/setup GET/v1/company POST/v1/companies/svid POST/v1/recover-key
		POST/v1/agents/register GET/v1/agents/{agentId} GET/v1/agents/{agentId}/svid
		POST/v1/keys GET/v1/keys DELETE/v1/keys/{key} POST/v1/oauth/clients GET/v1/oauth/clients POST/v1/oauth/token
		POST/v1/attest GET/v1/chain GET/v1/verify GET/v1/proof/{index} POST/v1/token-exchange POST/v1/token/exchange
		POST/v1/agents/{agentId}/passport POST/v1/agents/{agentId}/passport/rotate POST/v1/passport/verify
		POST/v1/passports/{jti}/revoke GET/v1/passports/revoked GET/v1/ocsp/{jti}
		GET/v1/ca/public-key GET/v1/ca/well-known GET/v1/health GET/v1/ws`), rt.method+rt.path)
}

// Every addition to the specification refuses what it does not declare, in its query and in its
// body; every route of the specification ignores it.
func TestUndeclaredMembersOfEveryRoute(t *testing.T) {
	t.Parallel()
	for _, rt := range routes(new(resources)) {
		t.Run(rt.method+" "+rt.path, func(t *testing.T) {
			t.Parallel()
			if rt.handler.form == nil {
				t.Fatal("declares nothing")
			}
			if (rt.undeclared == lenient) != specified(rt) {
				t.Fatalf("the specification has it: %v; its policy is %v", specified(rt), rt.undeclared)
			}
			queries := []string{"zzzzzz=1", "zzzzzz", "%zz=1", "a;b=1", "q%00=1"}
			for _, f := range rt.handler.form.fields {
				if f.from == "query" {
					queries = append(queries, f.name+"=1&"+f.name+"=1", f.name+"=%zz", f.name+"=1;x=2", strings.ToUpper(f.name)+"=1", f.name+"s=1")
				}
			}
			for _, query := range queries {
				err := asked(t, rt, query, "")
				if refused := err != nil && classify(err).Status == http.StatusBadRequest; refused == specified(rt) {
					t.Errorf("?%s: %v", query, err)
				}
			}
			if rt.method == http.MethodGet || rt.undeclared == strictQuery {
				return
			}
			for _, body := range []string{`{"zzzzzz":1}`, `{"":null}`} {
				err := asked(t, rt, "", body)
				if refused := err != nil && classify(err).Status == http.StatusBadRequest; refused == specified(rt) {
					t.Errorf("%s: %v", body, err)
				}
			}
		})
	}
}

// Wherever a member bears on rights, another spelling of it is refused by a text that names it, in
// the body and in the query; and no member that a route declares is taken for another.
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
		form := rt.handler.form
		for i := range form.fields {
			f := &form.fields[i]
			if err := form.refuseMember(f.name, lenient); f.from == "json" && err != nil && !slices.Contains(rights, f.name) && form.declares("json", f.name) {
				if _, err := form.parseObject([]byte(`{"`+f.name+`":1}`), maxDepth, rt.undeclared); err != nil {
					t.Errorf("%s %s refuses its own %s: %v", rt.method, rt.path, f.name, err)
				}
			}
			if f.from != "json" || !slices.Contains(rights, f.name) {
				continue
			}
			tested[f.name] = true
			for _, name := range spellings[f.name] {
				for where, err := range map[string]error{
					"body":  asked(t, rt, "", `{"`+name+`":"x"}`),
					"query": asked(t, rt, name+"=x", ""),
				} {
					if err == nil || classify(err).Status != http.StatusBadRequest || where == "body" && !strings.Contains(err.Error(), f.name) {
						t.Errorf("%s %s: %s in the %s: %v", rt.method, rt.path, name, where, err)
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
