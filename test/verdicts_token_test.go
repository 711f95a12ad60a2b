package test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

const passportID = "4fbfc498-11df-47f6-b359-736d9bbcdef1"

func statusCases(t *testing.T, s *signer) (all []checkerCase) {
	now := time.Now()
	at := func(d time.Duration) string { return now.Add(d).UTC().Format("2006-01-02T15:04:05.000Z") }
	valid := map[string]any{"jti": passportID, "companyId": s.companyID, "status": "valid", "checkedAt": at(0)}
	revoked := object(valid, map[string]any{"status": "revoked", "revokedAt": at(-time.Hour), "reason": "left the <team>"})
	signed := func(answer map[string]any) string {
		return text(t, object(answer, map[string]any{"caPublicKey": s.published()["pem"], "signature": s.signHash(s.canonical(t, text(t, answer)))}))
	}
	add := func(genuine bool, name, text string) {
		all = append(all, checkerCase{Name: "a status " + name, Kind: "status", Text: text, JTI: passportID, Genuine: genuine})
	}
	add(true, "of now", signed(valid))
	add(true, "of ten seconds ago", signed(object(valid, map[string]any{"checkedAt": at(-10 * time.Second)})))
	add(true, "of a revoked passport", signed(revoked))
	add(true, "of an unknown passport", signed(object(valid, map[string]any{"status": "unknown"})))
	for name, members := range map[string]map[string]any{
		"of before the revocation": {"checkedAt": at(-10 * time.Minute)},
		"of the future":            {"checkedAt": at(10 * time.Minute)},
		"of another passport":      {"jti": "34a072c9-64ed-4474-8889-30ec6d721ced"},
		"of another company":       {"companyId": "globex"},
		"with another word":        {"status": "fine"},
		"with a time of no form":   {"checkedAt": now.UTC().Format(time.RFC3339)},
		"with no time":             {"checkedAt": nil},
		"revoked at no time":       {"status": "revoked"},
		"revoked and valid":        {"revokedAt": at(0)},
		"with one member more":     {"note": "x"},
		"with a jti in a list":     {"jti": []string{passportID}},
		"with a time as a number":  {"checkedAt": now.UnixMilli()},
	} {
		add(false, name, signed(object(valid, members)))
	}
	genuine := signed(valid)
	add(false, "that was changed", strings.Replace(signed(revoked), `"status":"revoked"`, `"status":"valid"`, 1))
	add(false, "that was revoked, without when and why", strings.NewReplacer(`"status":"revoked"`, `"status":"valid"`, `"revokedAt"`, `"revoked"`).Replace(signed(revoked)))
	add(false, "with two words", strings.Replace(genuine, `"status":"valid"`, `"status":"revoked","status":"valid"`, 1))
	add(false, "by another key", strings.Replace(genuine, text(t, s.published()["pem"]), text(t, newSigner(t, "acme").published()["pem"]), 1)[:len(genuine)-90]+`"}`)
	add(false, "signed by another key", func() string {
		other := newSigner(t, "acme")
		return text(t, object(valid, map[string]any{"caPublicKey": other.published()["pem"], "signature": other.signHash(s.canonical(t, text(t, valid)))}))
	}())
	return all
}

func passportCases(t *testing.T, s *signer) (all []checkerCase) {
	now := time.Now().Unix()
	issued := now - 10
	if !s.ended.IsZero() { // no token counts that is dated later
		issued = s.ended.Unix() - 10
	}
	agent := acme + "/agent/bot"
	header := map[string]any{"alg": "EdDSA", "kid": s.kid(), "typ": "CAP+JWT"}
	own := map[string]any{"v": 1, "agentId": "bot", "org": "acme", "orgSpiffeId": acme, "scopes": []string{"tool:*"}, "delegationChain": []string{acme, agent}}
	claims := map[string]any{"iss": "spiffe://attestd.local/ca", "sub": agent, "aud": []string{"service:passport:v1"}, "jti": passportID,
		"iat": issued, "nbf": issued, "exp": now + 3600, "service": own}
	token := func(header, claims string) string {
		signed := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims))
		return signed + "." + s.sign([]byte(signed))
	}
	add := func(genuine bool, name, text string) {
		all = append(all, checkerCase{Name: "a passport " + name, Kind: "passport", Text: text, Genuine: genuine})
	}
	genuine := token(text(t, header), text(t, claims))
	add(true, "of now", genuine)
	for name, members := range map[string]map[string]any{
		"of another algorithm": {"alg": "none"}, "of another kind": {"typ": "JWT"}, "of another key's ID": {"kid": "0000000000000000"}, "without a key's ID": {"kid": nil},
		"with crit": {"crit": []string{"exp"}}, "with a key in it": {"jwk": map[string]any{}}, "with one header more": {"x": 1},
	} {
		add(false, name, token(text(t, object(header, members)), text(t, claims)))
	}
	for name, members := range map[string]map[string]any{
		"that expired": {"exp": now - 60}, "not yet valid": {"nbf": now + 600}, "without an end": {"exp": nil}, "that ends at a string": {"exp": fmt.Sprint(now + 3600)},
		"that ends at a fraction": {"exp": json.Number(fmt.Sprintf("%d.5", now+3600))},
		"for another service":     {"aud": []string{"other:passport:v1"}}, "for two services": {"aud": []string{"service:passport:v1", "x"}},
		"of another issuer": {"iss": "spiffe://other.local/ca"}, "of another subject": {"sub": acme + "/agent/other"},
		"without its claims": {"service": nil}, "with claims that are a list": {"service": []any{own}},
		"of another company":    {"service": object(own, map[string]any{"org": "globex"})},
		"of another agent":      {"service": object(own, map[string]any{"agentId": "other"})},
		"of another version":    {"service": object(own, map[string]any{"v": 2})},
		"with a chain cut":      {"service": object(own, map[string]any{"delegationChain": []string{acme}})},
		"with an empty chain":   {"service": object(own, map[string]any{"delegationChain": []string{}})},
		"with a version of 1.0": {"service": object(own, map[string]any{"v": json.Number("1.0")})},
	} {
		add(false, name, token(text(t, header), text(t, object(claims, members))))
	}
	add(false, "with a claim twice", token(text(t, header), strings.Replace(text(t, claims), `"exp":`, `"exp":1,"exp":`, 1)))
	add(false, "with a header twice", token(strings.Replace(text(t, header), `"alg":`, `"alg":"none","alg":`, 1), text(t, claims)))
	add(false, "with a fourth part", genuine+".e30")
	add(false, "with two parts", genuine[:strings.LastIndexByte(genuine, '.')])
	add(false, "with padding", genuine+"==")
	add(false, "of bytes that are not UTF-8", token(text(t, header), strings.Replace(text(t, claims), `"iat"`, "\"x\xff\":1,\"iat\"", 1)))
	add(false, "that starts with a byte order mark", token(text(t, header), "\ufeff"+text(t, claims)))
	add(false, "that another key signed", func() string {
		other := newSigner(t, "acme")
		signed := genuine[:strings.LastIndexByte(genuine, '.')]
		return signed + "." + other.sign([]byte(signed))
	}())
	return all
}
