package server_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"attestd/internal/testenv"
	"attestd/server"
	"attestd/server/api"
	"attestd/server/httpapi"
	"attestd/server/limit"
	"attestd/store/ledger"
)

// Settings that change while the server runs hold for the next request: limits, bounds, quotas,
// registration, origins, the free size of the disk and the log of requests. The control log has
// those that bear on trust.
func TestReloadedSettingsHoldAtOnce(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	const token, origin = "correct-horse-battery-staple", "Origin: https://pages.example.com"
	before := server.Live{Bounds: server.DefaultBounds}
	s := start(t, func(c *server.Config) { c.Live = before })
	acme := s.company(t, "acme")
	attest := `{"agentId":"bot","actionType":"x","payload":1}`
	acme.attestMany(t, 3)
	s.company(t, "idle")

	acme.do(t, "GET /v1/company", "", origin).status(403)
	to := before
	to.AllowedOrigins = []string{"https://pages.example.com"}
	s.reload(t.Context(), to)
	acme.do(t, "GET /v1/company", "", origin).status(200)

	to.Quotas = ledger.Quotas{Records: 4}
	s.reload(t.Context(), to)
	acme.do(t, "POST /v1/attest", attest).status(201)
	acme.do(t, "POST /v1/attest", attest).status(507)
	to.Quotas.Records = 5
	s.reload(t.Context(), to)
	acme.do(t, "POST /v1/attest", attest).status(201)
	acme.do(t, "POST /v1/attest", attest).status(507)
	to.Quotas = ledger.Quotas{}
	s.reload(t.Context(), to)
	acme.do(t, "POST /v1/attest", attest).status(201)

	to.Bounds = server.Bounds{Keys: 2, Clients: 1, Agents: 1, Webhooks: 1, Subjects: 1}
	s.reload(t.Context(), to)
	acme.agent(t, "one")
	acme.do(t, "POST /v1/agents/register", `{"agentId":"two"}`).status(409)
	acme.do(t, "POST /v1/keys", `{}`).status(201)
	acme.do(t, "POST /v1/keys", `{}`).status(409)

	to.Registration = api.Registration{Mode: api.RegistrationToken, Token: token}
	s.reload(t.Context(), to)
	s.anyone().do(t, "POST /v1/companies", `{"companyId":"stranger"}`).status(401)
	s.anyone().with(token).do(t, "POST /v1/companies", `{"companyId":"guest"}`).status(201)

	to.DiskFloor = 1 << 60
	s.reload(t.Context(), to)
	if s.store.Status().Disk.FreeKnown {
		s.anyone().do(t, "GET /readyz", "").status(503)
	}
	to.DiskFloor = 0

	lines := s.log.says(`"msg":"request"`)
	to.AccessLog = httpapi.AccessOff
	s.reload(t.Context(), to)
	acme.do(t, "GET /v1/company", "").status(200)
	// the line of the request before may have come late
	if n := s.log.says(`"msg":"request"`); n > lines+1 {
		t.Errorf("%d lines of requests, before %d", n, lines)
	}

	to.Limits = limit.Limits{Sensitive: 1000, Attest: 1000, Standard: 3, Log: 1000, Company: 10}
	s.reload(t.Context(), to)
	for range 3 {
		acme.do(t, "GET /v1/company", "").status(200)
	}
	acme.do(t, "GET /v1/company", "").status(429)
	to.Limits.Standard = 1 // what was counted counts on
	s.reload(t.Context(), to)
	acme.do(t, "GET /v1/company", "").status(429)
	to.Limits = limit.Limits{}
	s.reload(t.Context(), to)
	acme.do(t, "GET /v1/company", "").status(200)

	log := string(acme.do(t, "GET /v1/chain?log=control", "").status(200).raw)
	for _, want := range []string{
		`"allowedOrigins":{"from":"","to":"https://pages.example.com"}`,
		`"quotas":{"from":"records=4,bytes=0`, `keys=2,clients=1,agents=1,webhooks=1,subjects=1`,
		`"registration":{"from":"open","to":"token"}`, `"to":"sensitive=1000,attest=1000,standard=3`,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the control log does not have %s", want)
		}
	}
	if strings.Contains(log, token) {
		t.Error("the control log has the token")
	}
	acme.do(t, "GET /v1/verify?log=control", "").gets(200, `{"valid":true,"merkleRoot":"…"}`)
}

// Changes under load break no request off, and the last one holds.
func TestReloadUnderLoad(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	ctx, cancel := context.WithCancel(t.Context())
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for ctx.Err() == nil {
				acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"x","payload":1}`).status(201)
			}
		})
	}
	for i := range 20 {
		s.reload(t.Context(), server.Live{Bounds: server.DefaultBounds, Quotas: ledger.Quotas{Records: int64(100_000 + i)},
			Limits: limit.Limits{Standard: 1000, Sensitive: 1000, Attest: 1_000_000 - i, Log: 1000}})
	}
	cancel()
	load.Wait()
	reply := acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"x","payload":1}`).status(201)
	if got := reply.header.Get("X-RateLimit-Limit"); got != fmt.Sprint(1_000_000-19) {
		t.Errorf("the limit is %s", got)
	}
	acme.do(t, "GET /v1/verify", "").gets(200, `{"valid":true,"merkleRoot":"…"}`)
}
