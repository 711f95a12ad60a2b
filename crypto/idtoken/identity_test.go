package idtoken_test

import (
	"strings"
	"testing"

	"attestd/crypto/idtoken"
)

// soundIdentity is an identity assertion that is accepted.
func soundIdentity(t testing.TB) *draft {
	d := sound(t, "ES256")
	d.header["typ"] = "oauth-id-jag+jwt"
	d.claims["client_id"], d.claims["sub"] = "cc_1", "248289761001"
	return d
}

// An identity assertion has the claims of one, and is nothing else: no workload's token is read as
// one, nor the reverse.
func TestIdentityAssertions(t *testing.T) {
	t.Parallel()
	claim := func(name string, value any) func(*draft) { return func(d *draft) { d.claims[name] = value } }
	without := func(name string) func(*draft) { return func(d *draft) { delete(d.claims, name) } }
	for name, test := range map[string]struct {
		want  string // "" is accepted
		spoil func(*draft)
	}{
		"sound":                      {"", func(*draft) {}},
		"media type":                 {"", func(d *draft) { d.header["typ"] = "application/OAuth-ID-JAG+jwt" }},
		"scope and resource":         {"", func(d *draft) { d.claims["scope"], d.claims["resource"] = "a b", []string{"https://x.example"} }},
		"resource a text":            {"", claim("resource", "https://x.example")},
		"key":                        {"", claim("cnf", object{"jkt": strings.Repeat("A", 43)})},
		"typ JWT":                    {"typ that is not", func(d *draft) { d.header["typ"] = "JWT" }},
		"typ at+jwt":                 {"typ that is not", func(d *draft) { d.header["typ"] = "at+jwt" }},
		"no typ":                     {"typ that is not", func(d *draft) { delete(d.header, "typ") }},
		"typ that looks alike":       {"typ that is not", func(d *draft) { d.header["typ"] = "oauth-id-jag" }},
		"no client_id":               {"client_id", without("client_id")},
		"client_id a list":           {"client_id", claim("client_id", []string{"cc_1"})},
		"client_id empty":            {"client_id", claim("client_id", "")},
		"no sub":                     {"sub", without("sub")},
		"sub with a line feed":       {"255 visible", claim("sub", "a\nb")},
		"sub that is not ASCII":      {"255 visible", claim("sub", "é")},
		"sub with a space":           {"255 visible", claim("sub", "a b")},
		"sub long":                   {"255 visible", claim("sub", strings.Repeat("a", 256))},
		"no jti":                     {"jti", without("jti")},
		"jti with a space":           {"jti", claim("jti", "a b")},
		"jti long":                   {"jti", claim("jti", strings.Repeat("a", 129))},
		"no iat":                     {"iat", without("iat")},
		"no exp":                     {"exp", without("exp")},
		"two audiences":              {"exactly one aud", claim("aud", []string{audience, "x"})},
		"scope a list":               {"scope", claim("scope", []string{"agent"})},
		"resource an object":         {"resource", claim("resource", object{})},
		"resource an empty list":     {"resource", claim("resource", []string{})},
		"resource null":              {"resource", claim("resource", nil)},
		"actor":                      {"act:", claim("act", object{"sub": "x"})},
		"who may act":                {"may_act,", claim("may_act", object{"sub": "x"})},
		"authorization details":      {"authorization_details", claim("authorization_details", []any{})},
		"key by a certificate":       {"cnf", claim("cnf", object{"x5t#S256": "x"})},
		"key and a certificate":      {"cnf", claim("cnf", object{"jkt": strings.Repeat("A", 43), "x5t#S256": "x"})},
		"key of no thumbprint":       {"cnf", claim("cnf", object{"jkt": "x"})},
		"key null":                   {"cnf", claim("cnf", nil)},
		"algorithm none":             {"asymmetric algorithm", func(d *draft) { d.header["alg"] = "none" }},
		"algorithm that is not ours": {"asymmetric algorithm", func(d *draft) { d.header["alg"] = "HS256" }},
	} {
		d := soundIdentity(t)
		test.spoil(d)
		compact := d.sign(t)
		i, err := idtoken.ParseIdentity(compact)
		if got := refusal(t, err); (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
		_, workload := idtoken.Parse(compact)
		if is := idtoken.IsIdentity(compact); err == nil && (workload == nil || !is || i.ClientID != "cc_1") || is && workload == nil {
			t.Errorf("%s: it is read as a workload's token too", name)
		}
	}
}
