package statement_test

import (
	"encoding/json"
	"strings"
	"testing"

	"attestd/crypto/jose"
	"attestd/crypto/jose/josetest"
	"attestd/crypto/statement"
	"attestd/internal/must"
)

// What is at the edge of the form and of the time is accepted.
func TestAccepts(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{jose.EdDSA, jose.ES256} {
		for name, change := range map[string]func(draft){
			"everything":          func(draft) {},
			"no session":          without("sid", "seq", "prev", "end", "refused"),
			"the first":           func(d draft) { d.claims["seq"] = 0; without("prev", "refused")(d) },
			"the only one":        func(d draft) { d.claims["seq"] = 0; without("prev", "end", "refused")(d) },
			"nothing refused":     without("refused"),
			"an earlier refused":  claim("refused", []object{refusal(0, earlier, "A")}),
			"100 refused":         func(d draft) { d.claims["seq"], d.claims["refused"] = 200, refusals(100) },
			"a code of 64":        claim("refused", []object{refusal(0, earlier, strings.Repeat("A", 64))}),
			"a code of all kinds": claim("refused", []object{refusal(0, earlier, "AZ09_")}),
			"a refusal respelt":   claim("refused", josetest.Raw(` [ { "code":"A" , "h\u0061sh":"`+earlier+`","seq":0 } ] `)),
			"another's session":   func(d draft) { continuesBut("sid", "run-2")(d) },
			"another key":         func(d draft) { continues(object{"sid": "run-1", "kid": strings.Repeat("A", 43), "hash": earlier})(d) },
			"not the last":        without("end"),
			"the last place":      claim("seq", int64(statement.MaxSeq)),
			"a jti of 128":        claim("jti", strings.Repeat("~", 128)),
			"a jti of quotes":     claim("jti", `"\/<>&`),
			"a sid of 128":        claim("sid", strings.Repeat("~", 128)),
			"a sid of all kinds":  claim("sid", "aZ09._~-"),
			"60 seconds ahead":    claim("iat", now.Unix()+60),
			"30 days ago":         claim("iat", now.Unix()-30*86400),
			"claims with escapes": claim("sid", josetest.Raw(`"\u0072un-1"`)),
		} {
			d := sound(t, algorithm)
			change(d)
			if got := check(t, d.sign(t), d.key.Key(), expected(t)); got != "accepted" {
				t.Errorf("%s, %s: %s", algorithm, name, got)
			}
		}
	}
	indented, err := json.MarshalIndent(sound(t, jose.EdDSA).claims, "\r\n", "\t")
	must.OK(t, err)
	spaced := josetest.Forge(t, josetest.PrivateKey(t, jose.EdDSA), append(josetest.Marshal(t, sound(t, jose.EdDSA).header), '\n'), indented)
	if got := check(t, spaced, josetest.PrivateKey(t, jose.EdDSA).Key(), expected(t)); got != "accepted" {
		t.Errorf("white space: %s", got)
	}
	first := soundFirst(t, jose.EdDSA)
	if got := check(t, first.sign(t), first.key.Key(), expected(t)); got != "accepted" {
		t.Errorf("version 1: %s", got)
	}
	// without a delegation in the request, none in the statement
	d := sound(t, jose.EdDSA)
	want := expected(t)
	want.TokenID, want.DelegationHash = "", ""
	if got := check(t, d.sign(t), d.key.Key(), want); got != statement.CodeMismatch {
		t.Errorf("a delegation that was not sent: %s", got)
	}
	without("delegation")(first)
	if got := check(t, first.sign(t), first.key.Key(), want); got != "accepted" {
		t.Errorf("no delegation in version 1: %s", got)
	}
	without("delegation")(d)
	if got := check(t, d.sign(t), d.key.Key(), want); got != "accepted" {
		t.Errorf("no delegation: %s", got)
	}
}

// The longest names that the service gives fit, with as many refused places as there may be.
func TestLongestStatementFits(t *testing.T) {
	t.Parallel()
	d := sound(t, jose.ES256)
	domain := "spiffe://" + strings.Repeat("d", 255) + "/company/" + strings.Repeat("c", 128)
	want := expected(t)
	want.Audience, want.Issuer, want.Log = domain, domain+"/agent/"+strings.Repeat("a", 128), strings.Repeat("l", 255)
	d.claims["iss"], d.claims["aud"], d.claims["log"] = want.Issuer, want.Audience, want.Log
	d.claims["jti"], d.claims["sid"], d.claims["seq"] = strings.Repeat("j", 128), strings.Repeat("s", 128), int64(statement.MaxSeq)
	var refused []object
	for i := range statement.MaxRefused {
		refused = append(refused, refusal(int64(statement.MaxSeq)-200+int64(i), earlier, strings.Repeat("C", 64)))
	}
	d.claims["refused"] = refused
	if got := check(t, d.sign(t), d.key.Key(), want); got != "accepted" {
		t.Error(got)
	}
}
