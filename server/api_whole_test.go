package server_test

import (
	"io"
	"strings"
	"testing"
)

// bodyWith is a body that runs a function after its first byte.
type bodyWith struct {
	rest    io.Reader
	happens func()
	read    int
}

func (b *bodyWith) Read(p []byte) (int, error) {
	if b.read++; b.read == 2 {
		b.happens()
	}
	return b.rest.Read(p[:min(len(p), 1)])
}

// A key that is deleted while the body of a request arrives is refused when the body is complete,
// on any route that reads a body.
func TestCredentialIsCheckedAgainAfterTheBody(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	svid := acme.agent(t, "bot")
	passport := acme.passport(t, "bot", "")
	for call, body := range map[string]string{
		"POST /v1/attest":                                          `{"agentId":"a","actionType":"b","payload":1}`,
		"POST /v1/agents/register":                                 `{"agentId":"late"}`,
		"POST /v1/agents/bot/passport":                             `{"ttl":60}`,
		"POST /v1/passport/verify":                                 `{"passport":"` + passport + `"}`,
		"POST /v1/passports/" + jti(t, acme, passport) + "/revoke": `{"reason":"late"}`,
		"POST /v1/keys":                                            `{"label":"late"}`,
		"POST /v1/token-exchange":                                  `{"agentId":"bot","actingOn":"acme","scope":"x"}`,
		"POST /v1/token/exchange":                                  exchangeBody(t, svid, svid, nil),
	} {
		key := acme.do(t, "POST /v1/keys", "").status(201).str("key")
		req := acme.with(key).request(t, call, body)
		req.RemoteAddr = "127.0.0.1:1"
		req.Body = io.NopCloser(&bodyWith{rest: strings.NewReader(body), happens: func() { acme.do(t, "DELETE /v1/keys/"+key, "").status(200) }})
		acme.with(key).serve(t, req).gets(401, `{"error":"Unauthorized"}`)
	}
	if n := len(acme.checkChain(t)); n != 0 {
		t.Errorf("%d records of a deleted key", n)
	}
	acme.do(t, "GET /v1/agents/late", "").status(404)
	acme.do(t, "GET /v1/ocsp/"+jti(t, acme, passport), "").status(200).sets("Cache-Control: public, max-age=300")
}
