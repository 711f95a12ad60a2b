package test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"attestd/crypto/cred"
	api "attestd/sdk/attestd"
)

// lifetimeCases are tokens of all kinds whose signatures and claims are valid except for their
// times: when each was issued, for how long, and whether the key that signed it had ended by then.
func lifetimeCases(t *testing.T, s *signer) (all []checkerCase) {
	t.Helper()
	const day, hour = 86400, 3600
	now := time.Now().Unix()
	type times map[string]any
	// a token that nests as RFC 8693 says is never read as the opposite chain
	all = append(all, checkerCase{Name: "a delegation of the other nesting", Kind: "token", Text: s.token(t, "at+jwt", map[string]any{
		"iat": now - 60, "nbf": now - 60, "exp": now + hour - 60, "sub": acme, "aud": []string{"service"},
		"act": map[string]any{"sub": acme + "/agent/b", "act": map[string]any{"sub": acme + "/agent/a"}},
	})})
	for _, kind := range []struct {
		name    string
		longest int64
		token   func(s *signer, claims times) string
	}{
		{"passport", day, func(s *signer, claims times) string {
			agent := acme + "/agent/bot"
			return s.token(t, "CAP+JWT", object(claims, map[string]any{"sub": agent, "aud": []string{"service:passport:v1"}, "service": map[string]any{
				"v": 1, "agentId": "bot", "org": "acme", "orgSpiffeId": acme, "scopes": []string{"tool:*"}, "delegationChain": []string{acme, agent},
			}}))
		}},
		{"SVID", hour, func(s *signer, claims times) string {
			return s.token(t, "JWT", object(claims, map[string]any{"sub": acme + "/agent/bot", "aud": []string{"service"}}))
		}},
		{"delegation", hour, func(s *signer, claims times) string {
			return s.token(t, "JWT", object(claims, map[string]any{"sub": acme, "aud": []string{"service"}, "act": map[string]any{"sub": acme + "/agent/bot"}}))
		}},
	} {
		add := func(genuine bool, by *signer, what string, claims times) {
			checked := "token"
			if kind.name == "passport" {
				checked = "passport"
			}
			all = append(all, checkerCase{Name: "a " + kind.name + " " + what, Kind: checked, Text: kind.token(by, claims), Genuine: genuine})
		}
		issued := func(iat, life int64) times { return times{"iat": iat, "nbf": iat, "exp": iat + life} }
		begun := now - 60
		add(true, s, "of the longest life", issued(begun, kind.longest))
		add(true, s, "that is valid later than it was issued", times{"iat": begun, "nbf": now, "exp": begun + kind.longest})
		add(false, s, "that lasts a second too long", issued(begun, kind.longest+1))
		add(false, s, "that lasts thirty days", issued(begun, 30*day))
		add(false, s, "that lasts until the year 9999", times{"iat": begun, "nbf": begun, "exp": 253402300799})
		add(false, s, "issued thirty days ahead", times{"iat": now + 30*day, "nbf": begun, "exp": now + 30*day + hour})
		add(false, s, "issued a second after it is valid", times{"iat": begun + 1, "nbf": begun, "exp": begun + hour})
		add(false, s, "issued when it ends", times{"iat": now + hour, "nbf": begun, "exp": now + hour})
		add(false, s, "issued before 1970", times{"iat": -now, "nbf": begun, "exp": now + hour})
		for what, iat := range map[string]any{
			"without the time of its issue":   nil,
			"issued at a string":              fmt.Sprint(begun),
			"issued at a fraction":            json.Number(fmt.Sprintf("%d.5", begun)),
			"issued at a fraction of nothing": json.Number(fmt.Sprintf("%d.0", begun)),
			"issued at null":                  json.RawMessage("null"),
			"issued at a list":                []int64{begun},
			"issued at true":                  true,
		} {
			claims := issued(begun, hour)
			if claims["iat"] = iat; iat == nil {
				delete(claims, "iat")
			}
			add(false, s, what, claims)
		}
		claims := issued(begun, hour)
		delete(claims, "nbf")
		add(false, s, "without a beginning", claims)

		for i, k := range s.former { // see newRotated
			end := k.ended.Unix()
			good := !k.compromised && now < end+kind.longest
			name := fmt.Sprintf(", by key %d", i)
			add(good, k, "of the second in which its key ended"+name, issued(end, kind.longest))
			add(good, k, "of before its key's end"+name, issued(end-1, kind.longest))
			add(false, k, "dated a second after its key's end"+name, issued(end+1, kind.longest))
			add(false, k, "dated now, after its key's end"+name, issued(now, kind.longest))
			add(false, k, "of before its key's end, for thirty days"+name, issued(end-1, 30*day))
			add(false, k, "of before its key's end, for a second too long"+name, issued(end, kind.longest+1))
		}
	}
	return all
}

// token is a JWT of a type with these claims.
func (s *signer) token(t *testing.T, typ string, claims map[string]any) string {
	header := text(t, map[string]any{"alg": "EdDSA", "kid": s.kid(), "typ": typ})
	body := text(t, object(map[string]any{"iss": "spiffe://attestd.local/ca", "jti": passportID}, claims))
	signed := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(body))
	return signed + "." + s.sign([]byte(signed))
}

// goVerdicts is what the service and the Go client say of tokens; of other kinds of cases, what is
// right.
func goVerdicts(s *signer, cases []checkerCase) (service, client []string) {
	domain := cred.Domain{TrustDomain: "attestd.local", Service: "service"}
	issuer := api.Issuer{CompanyID: s.companyID, Key: s.public()}
	var former []cred.Former
	for _, k := range slices.Backward(s.former) {
		if !k.compromised {
			former = append(former, cred.Former{Key: k.public(), Ended: k.ended})
		}
	}
	issuer.Former = former
	checker := cred.NewChecker(domain, s.companyID, s.public(), former...)
	for _, c := range cases {
		var err1, err2 error
		kind := c.Kind
		if strings.HasSuffix(c.Name, "with one header more") {
			kind = "" // which RFC 7515 lets a reader ignore, and the service does
		}
		switch now := time.Now(); kind {
		case "passport":
			_, err1 = checker.CheckPassport(c.Text, now)
			_, _, err2 = issuer.VerifyPassport(c.Text, "", now)
		case "token":
			_, err1 = checker.CheckDelegation(c.Text, now)
			err2 = err1 // the Go client checks passports alone
		default:
			if !c.Genuine {
				err1 = errors.New("not asked")
				err2 = err1
			}
		}
		service, client = append(service, reason(err1)), append(client, reason(err2))
	}
	return service, client
}

func reason(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
