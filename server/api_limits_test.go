package server_test

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"attestd/internal/testenv"
	"attestd/server"
	"attestd/server/limit"
)

func limits(l limit.Limits, proxies ...string) func(*server.Config) {
	return func(c *server.Config) {
		c.Limits = l
		for _, p := range proxies {
			c.TrustedProxies = append(c.TrustedProxies, netip.MustParsePrefix(p))
		}
	}
}

// limited demands the headers of a limit, and Retry-After on an answer over the limit.
func (r *reply) limited(limit, remaining int) *reply {
	r.t.Helper()
	r.sets(fmt.Sprintf("X-RateLimit-Limit: %d", limit), fmt.Sprintf("X-RateLimit-Remaining: %d", remaining))
	reset, err := strconv.ParseInt(r.header.Get("X-RateLimit-Reset"), 10, 64)
	if wait := reset - time.Now().Unix(); err != nil || wait < 0 || wait > 61 {
		r.t.Errorf("%s: X-RateLimit-Reset %q is not within the next minute", r.call, r.header.Get("X-RateLimit-Reset"))
	}
	return r
}

func (r *reply) tooMany(limit int) {
	r.t.Helper()
	r.gets(429, `{"error":"Too Many Requests"}`).limited(limit, 0)
	if wait, err := strconv.Atoi(r.header.Get("Retry-After")); err != nil || wait < 1 || wait > 60 {
		r.t.Errorf("%s: Retry-After %q", r.call, r.header.Get("Retry-After"))
	}
}

// Each tier has its own count; the first request over the limit is answered 429.
func TestLimitOfEachTier(t *testing.T) {
	t.Parallel()
	s := start(t, limits(limit.Limits{Sensitive: 2, Attest: 3, Standard: 6}))
	them := s.anyone()
	acme := s.company(t, "acme") // 1 of the standard 6 of this address
	record := `{"agentId":"a","actionType":"b","payload":1}`
	for n := range 3 {
		acme.do(t, "POST /v1/attest", record).status(201).limited(3, 2-n)
	}
	acme.do(t, "POST /v1/attest", record).tooMany(3)
	acme.do(t, "POST /v1/attest", record).tooMany(3)
	for n := range 6 {
		acme.do(t, "GET /v1/company", "").status(200).limited(6, 5-n)
	}
	acme.do(t, "GET /v1/company", "").tooMany(6)
	acme.do(t, "GET /v1/chain", "").tooMany(6)

	them.do(t, "POST /v1/setup", `{"companyId":"globex"}`).status(201).limited(2, 1)
	// The setup and token endpoints share one count.
	them.do(t, "POST /v1/oauth/token", ``).status(400).limited(2, 0)
	them.do(t, "POST /v1/setup", `{"companyId":"umbrella"}`).tooMany(2)
	them.do(t, "POST /v1/oauth/token", ``).tooMany(2)

	// All kinds of answers are counted and have the headers.
	for n, call := range []string{"GET /v1/company", "GET /nowhere", "PUT /v1/health", "GET /v1/ca/public-key", "GET /v1/health"} {
		them.do(t, call, "").limited(6, 4-n)
	}
	them.do(t, "GET /v1/health", "").tooMany(6)
	them.do(t, "POST /v1/companies", `{"companyId":"initech"}`).tooMany(6)
}

// A valid credential has its own count; a request with an invented one counts for its address.
func TestLimitIsCountedByCredential(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t, limits(limit.Limits{Sensitive: 100, Attest: 100, Standard: 4}))
	acme := s.company(t, "acme") // address: 1
	second := acme.do(t, "POST /v1/keys", "").status(201).limited(4, 3).str("key")
	acme.with(second).do(t, "GET /v1/company", "").status(200).limited(4, 3)
	acme.do(t, "GET /v1/company", "").status(200).limited(4, 2)
	for n := range 3 { // address: 4
		acme.with("svc_"+strings.Repeat(strconv.Itoa(n), 43)).do(t, "GET /v1/company", "").status(401).limited(4, 2-n)
	}
	s.anyone().with("svc_"+strings.Repeat("x", 43)).do(t, "GET /v1/company", "").tooMany(4)
	s.anyone().do(t, "GET /v1/health", "").tooMany(4)
	// Other requests from its address do not hold up a valid key.
	acme.do(t, "GET /v1/company", "").status(200).limited(4, 1)
	acme.do(t, "GET /v1/company", "").status(200).limited(4, 0)
	acme.do(t, "GET /v1/company", "").tooMany(4)
}

// A route without authentication also counts for the address, whatever credential the call has.
func TestPublicRoutesCountTheAddress(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t, limits(limit.Limits{Sensitive: 100, Attest: 100, Standard: 6}))
	acme := s.company(t, "acme") // address: 1
	fresh := []string{acme.credential}
	for range 4 {
		fresh = append(fresh, acme.do(t, "POST /v1/keys", "").status(201).str("key"))
	}
	for n, credential := range fresh { // the address has a count of 6
		left := 5
		if n == 0 {
			left = 1 // it made the others
		}
		acme.with(credential).do(t, "POST /v1/companies", fmt.Sprintf(`{"companyId":"fresh-%d"}`, n)).status(201).limited(6, left)
	}
	for n, credential := range fresh {
		acme.with(credential).do(t, "POST /v1/companies", fmt.Sprintf(`{"companyId":"more-%d"}`, n)).tooMany(6)
		acme.with(credential).do(t, "GET /v1/health", "").tooMany(6)
	}
	// Refused requests were not counted.
	acme.with(fresh[1]).do(t, "GET /v1/company", "").status(200).limited(6, 4)
}

// New keys do not extend the limit: a company has one budget over all its credentials.
func TestLimitOfACompany(t *testing.T) {
	t.Parallel()
	s := start(t, limits(limit.Limits{Sensitive: 100, Attest: 2, Standard: 100, Company: 3}))
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	record := `{"agentId":"a","actionType":"b","payload":1}`
	for range 6 {
		acme.with(acme.do(t, "POST /v1/keys", "").status(201).str("key")).do(t, "POST /v1/attest", record).status(201).limited(2, 1)
	}
	for range 3 {
		acme.with(acme.do(t, "POST /v1/keys", "").status(201).str("key")).do(t, "POST /v1/attest", record).tooMany(2)
	}
	// A token does not extend it either.
	acme.with(acme.oauthToken(t)).do(t, "POST /v1/attest", record).tooMany(2)
	globex.do(t, "POST /v1/attest", record).status(201).limited(2, 1)
	if n := len(acme.checkChain(t)); n != 6 {
		t.Errorf("%d records, want three times 2", n)
	}
}

// The limit is exact for concurrent requests.
func TestRateLimitIsExactConcurrently(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t, limits(limit.Limits{Sensitive: 5, Attest: 7, Standard: 100}))
	acme := s.company(t, "acme")
	replies := make([]*reply, 30)
	var wg sync.WaitGroup
	for i := range replies {
		wg.Go(func() {
			replies[i] = acme.do(t, "POST /v1/attest", `{"agentId":"a","actionType":"b","payload":1}`)
		})
	}
	wg.Wait()
	admitted := map[string]bool{}
	for _, r := range replies {
		if r.code == 201 {
			admitted[r.header.Get("X-RateLimit-Remaining")] = true
			continue
		}
		r.tooMany(7)
	}
	if len(admitted) != 7 {
		t.Errorf("%d different places were given out, want 7", len(admitted))
	}
	if n := len(acme.checkChain(t)); n != 7 {
		t.Errorf("%d records, want 7", n)
	}
}

// A forwarding header counts only if a trusted proxy has sent it.
func TestLimitBehindProxy(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	for name, c := range map[string]struct {
		proxies []string
		status  int // of the second client's first call
	}{
		"a trusted proxy tells whose call it is":  {[]string{"127.0.0.0/8"}, 200},
		"anybody else may say what they like":     {nil, 429},
		"a proxy at another address is not asked": {[]string{"10.0.0.0/8"}, 429},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, limits(limit.Limits{Sensitive: 1, Attest: 1, Standard: 1}, c.proxies...))
			s.anyone().do(t, "GET /v1/health", "", "X-Forwarded-For: 192.0.2.1").status(200)
			s.anyone().do(t, "GET /v1/health", "", "X-Forwarded-For: 192.0.2.2").status(c.status)
			s.anyone().do(t, "GET /v1/health", "", "X-Forwarded-For: 192.0.2.1").tooMany(1)
			// The entries that a client adds at the front change nothing.
			s.anyone().do(t, "GET /v1/health", "", "X-Forwarded-For: 192.0.2.99, 192.0.2.1").tooMany(1)
		})
	}
}

// With --rate-limits off there is neither a limit nor a header.
func TestRateLimitsOff(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t)
	for range 30 {
		s.anyone().do(t, "POST /v1/oauth/token", "").status(400).sets("X-RateLimit-Limit:", "X-RateLimit-Remaining:", "X-RateLimit-Reset:", "Retry-After:")
	}
}
