package federation_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"attestd/chain/decision"
	"attestd/crypto/idtoken"
	"attestd/internal/must"
	"attestd/service/federation"
)

func personOf(t testing.TB, rules, claims string) (federation.PersonGrant, error) {
	t.Helper()
	r, err := federation.ParsePeople([]byte(rules))
	must.OK(t, err)
	c, err := idtoken.ParseClaims([]byte(claims))
	must.OK(t, err)
	return r.Match(c)
}

// The first rule that matches decides, by claims that are texts or lists of them.
func TestRulesOfPeople(t *testing.T) {
	t.Parallel()
	const rules = `[
		{"match":{"groups":"ops-admins","preferred_username":"*"},"companyId":"acme","personId":"{preferred_username}","roles":["admin","approver"]},
		{"match":{"groups":"team-*","email":"*@acme.example","email_verified":true,"preferred_username":"*"},"companyId":"acme","personId":"p-{preferred_username}","groups":["staff","{groups}"]},
		{"match":{"/org/id":7},"companyId":"zoo"}]`
	for claims, want := range map[string]federation.PersonGrant{
		`{"groups":["x","ops-admins"],"preferred_username":"ann"}`: {Rule: 0, CompanyID: "acme", PersonID: "ann", Roles: []string{"admin", "approver"}},
		`{"groups":"ops-admins","preferred_username":"ann"}`:       {Rule: 0, CompanyID: "acme", PersonID: "ann", Roles: []string{"admin", "approver"}},
		`{"groups":["team-b","team-a","other","team-a"],"email":"a@acme.example","email_verified":true,"preferred_username":"ann"}`: {Rule: 1, CompanyID: "acme", PersonID: "p-ann",
			Groups: []string{"staff", "team-a", "team-b"}},
		`{"groups":"team-b","email":"a@acme.example","email_verified":true,"preferred_username":"ann"}`: {Rule: 1, CompanyID: "acme", PersonID: "p-ann", Groups: []string{"staff", "team-b"}},
		`{"org":{"id":7}}`: {Rule: 2, CompanyID: "zoo"},
	} {
		got, err := personOf(t, rules, claims)
		if err != nil || got.Rule != want.Rule || got.CompanyID != want.CompanyID || got.PersonID != want.PersonID || !slices.Equal(got.Roles, want.Roles) || !slices.Equal(got.Groups, want.Groups) ||
			(got.Groups == nil) != (want.Groups == nil) {
			t.Errorf("%s: %+v, %v", claims, got, err)
		}
	}
	for _, claims := range []string{
		`{}`, `{"groups":["ops-admins "],"preferred_username":"ann"}`, `{"groups":[["ops-admins"]],"preferred_username":"ann"}`, `{"groups":["ops-admins",1],"preferred_username":"ann"}`,
		`{"groups":["team-a"],"email":"a@acme.example","email_verified":"true","preferred_username":"ann"}`, `{"groups":["team-a"],"email":"a@acme.example.evil","email_verified":true,"preferred_username":"ann"}`,
		`{"org":{"id":"7"}}`, `{"org":{"id":[7]}}`,
		// matches, and gives an ID or a group that is none
		`{"groups":["ops-admins"],"preferred_username":["ann"]}`, `{"groups":["team-a~b"],"email":"a@acme.example","email_verified":true,"preferred_username":"ann"}`,
	} {
		var refusal *federation.Refusal
		if got, err := personOf(t, rules, claims); !errors.As(err, &refusal) || strings.Contains(err.Error(), "acme.example") {
			t.Errorf("%s: %+v, %v", claims, got, err)
		}
	}
}

// Rules that let anyone in, or say what nobody can be, are refused, with the place.
func TestRulesOfPeopleThatAreRefused(t *testing.T) {
	t.Parallel()
	one := func(rule string) string { return "[" + rule + "]" }
	for rules, at := range map[string]string{
		`{}`: "", `[]`: "", `[1]`: "/0", `[{"match":{"hd":"a"},"companyId":"a"}`: "",
		one(`{"companyId":"acme"}`):                                                                         "/0/match",
		one(`{"match":{},"companyId":"acme"}`):                                                              "/0/match",
		one(`{"match":{"sub":"*"},"companyId":"acme"}`):                                                     "/0/match",
		one(`{"match":{"sub":"*","preferred_username":"*"},"companyId":"acme"}`):                            "/0/match",
		one(`{"match":{"email":"*@acme.example"},"companyId":"acme"}`):                                      "/0/match",
		one(`{"match":{"email":"*@acme.example","email_verified":false},"companyId":"acme"}`):               "/0/match",
		one(`{"match":{"email":"*@acme.example","email_verified":"true"},"companyId":"acme"}`):              "/0/match",
		one(`{"match":{"hd":["a"]},"companyId":"acme"}`):                                                    "/0/match/hd",
		one(`{"match":{"hd":"a"}}`):                                                                         "/0/companyId",
		one(`{"match":{"hd":"a"},"companyId":"a/b"}`):                                                       "/0/companyId",
		one(`{"match":{"hd":"a"},"companyId":"acme","personId":"{sub}"}`):                                   "/0/personId",
		one(`{"match":{"hd":"a"},"companyId":"acme","personId":1}`):                                         "/0/personId",
		one(`{"match":{"hd":"a"},"companyId":"acme","roles":[]}`):                                           "/0/roles",
		one(`{"match":{"hd":"a"},"companyId":"acme","roles":["owner"]}`):                                    "/0/roles",
		one(`{"match":{"hd":"a"},"companyId":"acme","roles":["admin","admin"]}`):                            "/0/roles",
		one(`{"match":{"hd":"a"},"companyId":"acme","groups":["a b"]}`):                                     "/0/groups",
		one(`{"match":{"hd":"a"},"companyId":"acme","groups":["{groups}"]}`):                                "/0/groups",
		one(`{"match":{"hd":"a"},"companyId":"acme","agentId":"x"}`):                                        "/0",
		one(`{"match":{"hd":"a"},"companyId":"acme","companyId":"zoo"}`):                                    "",
		`[{"match":{"hd":"a"},"companyId":"acme"},{"match":{"hd":"b"},"companyId":"a","roles":1}]`:          "/1/roles",
		"[" + strings.TrimSuffix(strings.Repeat(`{"match":{"hd":"a"},"companyId":"acme"},`, 51), ",") + "]": "",
		one(`{"match":{"hd":"` + strings.Repeat("a", 33<<10) + `"},"companyId":"acme"}`):                    "",
	} {
		var wrong *federation.Error
		if _, err := federation.ParsePeople([]byte(rules)); !errors.As(err, &wrong) || wrong.Pointer != at && !(at == "" && wrong.Pointer == "/0") {
			t.Errorf("%.100s: %#v", rules, err)
		}
	}
}

// Whatever the claims are, a rule gives IDs and groups that can be here, and those that it names.
func FuzzRulesOfPeople(f *testing.F) {
	f.Add(`[{"match":{"groups":"team-*","u":"*"},"companyId":"acme","personId":"p-{u}","groups":["{groups}"]}]`, `{"groups":["team-a","b"],"u":"ann"}`)
	f.Add(`[{"match":{"/a/b":1},"companyId":"acme","roles":["reader"]}]`, `{"a":{"b":1}}`)
	f.Fuzz(func(t *testing.T, rules, claims string) {
		r, err := federation.ParsePeople([]byte(rules))
		c, wrong := idtoken.ParseClaims([]byte(claims))
		if err != nil || wrong != nil {
			return
		}
		g, err := r.Match(c)
		if err != nil {
			return
		}
		if g.CompanyID == "" || len(g.Groups) > 64 || slices.ContainsFunc(g.Groups, func(name string) bool { return !decision.IsID(name) }) || strings.ContainsAny(g.PersonID, "/ \n@") {
			t.Errorf("%+v", g)
		}
	})
}
