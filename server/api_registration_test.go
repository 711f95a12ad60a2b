package server_test

import (
	"net/http"
	"strings"
	"testing"

	"attestd/internal/testenv"
	"attestd/server"
	"attestd/server/api"
)

const register, setup = "POST /v1/companies", "POST /v1/setup"

func registration(r api.Registration) func(*server.Config) {
	return func(c *server.Config) { c.Registration = r }
}

func TestParseRegistration(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]api.RegistrationMode{
		"open": api.RegistrationOpen, "loopback": api.RegistrationLoopback, "token": api.RegistrationToken, "closed": api.RegistrationClosed,
	} {
		if got, err := api.ParseRegistration(in); err != nil || got != want {
			t.Errorf("ParseRegistration(%q) = %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "Open", "off"} {
		if _, err := api.ParseRegistration(in); err == nil {
			t.Errorf("ParseRegistration(%q) gave no error", in)
		}
	}
}

// With a registration token only its holder can register companies; a company's key or a part of
// the token is not accepted.
func TestRegistrationByToken(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	const token = "correct-horse-battery-staple"
	s := start(t, registration(api.Registration{Mode: api.RegistrationToken, Token: token}))
	operator := s.anyone().with(token)
	acme := caller{s, "acme", operator.do(t, register, `{"companyId":"acme"}`).status(201).str("apiKey")}
	operator.do(t, setup, `{"companyId":"globex"}`).status(201)
	for _, call := range []string{register, setup} {
		for does, as := range map[string]caller{
			"nobody": s.anyone(), "a company": acme, "half a token": s.anyone().with(token[:14]), "more than the token": s.anyone().with(token + "x"), "an empty token": s.anyone().with(" "),
		} {
			t.Run(does, func(t *testing.T) {
				as.do(t, call, `{"companyId":"stranger"}`).gets(401, `{"error":"Unauthorized"}`).sets("WWW-Authenticate: Bearer …")
				as.do(t, call, `{`).status(401) // before the body is read
			})
		}
	}
	operator.do(t, "GET /v1/company", "").status(401) // it permits nothing else
	acme.do(t, "GET /v1/company", "").status(200)
	if !strings.Contains(string(operator.do(t, "GET /v1/ca/public-key?companyId=stranger", "").raw), "not found") {
		t.Error("a stranger was registered")
	}
	// If the configured token cannot be presented, no registration is possible.
	start(t, registration(api.Registration{Mode: api.RegistrationToken})).anyone().with(" ").do(t, register, `{"companyId":"acme"}`).status(403)
}

func TestRegistrationClosed(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t, registration(api.Registration{Mode: api.RegistrationClosed}))
	for _, call := range []string{register, setup} {
		s.anyone().do(t, call, `{"companyId":"acme"}`).gets(403, `{"error":"…","code":"REGISTRATION_CLOSED"}`)
	}
	s.anyone().do(t, "GET /v1/health", "").status(200)
}

// A request comes from the machine itself if its source is loopback and it has no sign of a proxy
// or of a web page.
func TestRegistrationFromLoopback(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t, registration(api.Registration{Mode: api.RegistrationLoopback}))
	s.anyone().do(t, register, `{"companyId":"acme"}`).status(201)
	s.anyone().do(t, register, `{"companyId":"globex"}`, "X-Forwarded-For: 192.0.2.1").gets(403, `{"error":"…","code":"REGISTRATION_CLOSED"}`)
	s.anyone().do(t, register, `{"companyId":"globex"}`, "Host: attest.example.com").status(403)
	for peer, status := range map[string]int{"127.0.0.1:1": http.StatusCreated, "192.0.2.1:1": http.StatusForbidden, "[2001:db8::1]:1": http.StatusForbidden} {
		req := s.anyone().request(t, register, `{"companyId":"initech"}`)
		req.RemoteAddr, req.Host = peer, "localhost"
		s.anyone().serve(t, req).status(status)
	}
}
