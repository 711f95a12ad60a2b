package server_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"attestd/internal/testenv"
	"attestd/server"
	"attestd/server/limit"
)

// memberList returns n members of an object in an order that is not canonical.
func memberList(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`"m%d":%d`, n-i, i)
	}
	return strings.Join(list, ",")
}

func elementList(n int) string { return strings.TrimSuffix(strings.Repeat("7,", n), ",") }

// Without a credential a body may have at most 64 KiB, whatever --max-body is, and a larger one is
// refused before it is read.
func TestPublicBodiesAreSmall(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t)
	for path, status := range map[string]int{"/v1/companies": 201, "/v1/setup": 409, "/v1/oauth/token": 400, "/v1/recover-key": 200} {
		body := `{"companyId":"acme"}`
		if path != "/v1/companies" {
			s.anyone().do(t, "POST /v1/companies", body)
		}
		large := body + strings.Repeat(" ", 64<<10-len(body))
		s.anyone().do(t, "POST "+path, large+" ", "Content-Type: application/json").gets(413, `{"error":"Request body is larger than the limit of this server"}`)
		if r := s.anyone().do(t, "POST "+path, large, "Content-Type: application/json"); r.code != status && r.code != 409 && r.code != 403 {
			t.Errorf("%s with 64 KiB: %d, want %d", path, r.code, status)
		}
	}
	// A body that does not declare its length is refused when it reaches the limit.
	res, _ := s.raw(t, "POST /v1/companies HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"+
		fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", 65<<10, strings.Repeat(" ", 65<<10)))
	if res.StatusCode != 413 {
		t.Errorf("65 KiB of unknown length: %d", res.StatusCode)
	}
}

// The members and elements of a body are limited; ordinary bodies do not reach the limits.
func TestMembersOfABodyAreBounded(t *testing.T) {
	t.Parallel()
	testenv.Needs(t, testenv.NotQuick, testenv.Plain, testenv.NotRaced)
	s := start(t)
	acme := s.company(t, "acme")
	attest := func(payload string) string { return `{"agentId":"a","actionType":"b","payload":` + payload + `}` }
	deep := strings.Repeat(`{"a":`, 100) + "{" + memberList(65_536-3-99) + "}" + strings.Repeat("}", 100)
	tooMany := `{"error":"Request body has too many members: an object, with those around it, may have 65536"}`
	tooLong := `{"error":"Request body has too many elements: all arrays together may have 1000000"}`
	var records []string
	for i := range 1000 {
		records = append(records, attest(fmt.Sprintf(`{"i":%d,%s}`, i, memberList(100))))
	}
	// 20,000 members
	acme.do(t, "POST /v1/attest", attest("{"+memberList(20_000)+"}")).status(201)
	// 65,533 members in addition to the three
	acme.do(t, "POST /v1/attest", attest("{"+memberList(65_533)+"}")).status(201)
	// 500,000 numbers
	acme.do(t, "POST /v1/attest", attest("["+elementList(500_000)+"]")).status(201)
	// 1,000 records of 100 members
	acme.do(t, "POST /v1/attest/batch", `{"records":[`+strings.Join(records, ",")+`]}`).status(201)
	// 4,096 members without a credential
	s.anyone().do(t, "POST /v1/companies", `{"companyId":"b","x":{`+memberList(4094)+`}}`).status(201)
	// 16,384 elements without a credential
	s.anyone().do(t, "POST /v1/companies", `{"companyId":"c","x":[`+elementList(16_384)+`]}`).status(201)
	table(t, []row{

		{does: "a member more", as: acme, call: "POST /v1/attest", body: attest("{" + memberList(65_534) + "}"), status: 400, gets: tooMany},
		{does: "as many beside the payload", as: acme, call: "POST /v1/attest", body: `{"agentId":"a","actionType":"b","payload":1,` + memberList(65_534) + `}`, status: 400, gets: tooMany},
		{does: "members deep inside", as: acme, call: "POST /v1/attest", body: attest(deep), status: 400, gets: tooMany},
		{does: "an object of an unknown member", as: acme, call: "POST /v1/attest", body: `{"x":{` + memberList(65_536) + `}}`, status: 400, gets: tooMany},
		{does: "a number more", as: acme, call: "POST /v1/attest", body: attest("[" + elementList(1_000_001) + "]"), status: 400, gets: tooLong},
		{does: "in many arrays", as: acme, call: "POST /v1/attest", body: attest("[" + strings.TrimSuffix(strings.Repeat("[],", 600_000), ",") + "]"), status: 400, gets: tooLong},
		{does: "at the hook", as: acme, call: hook, body: `{"x":{` + memberList(65_536) + `}}`, status: 400, gets: tooMany},
		{does: "and one more", as: s.anyone(), call: "POST /v1/companies", body: `{"companyId":"c","x":{` + memberList(4095) + `}}`, status: 400,
			gets: `{"error":"Request body has too many members: an object, with those around it, may have 4096"}`},
		{does: "and one more", as: s.anyone(), call: "POST /v1/companies", body: `{"companyId":"d","x":[` + elementList(16_385) + `]}`, status: 400,
			gets: `{"error":"Request body has too many elements: all arrays together may have 16384"}`},
		{does: "100 parameters of a form", as: acme, call: "POST /v1/token/exchange", body: strings.Repeat("&", 99) + "grant_type=x", status: 400, gets: `{"error":"unsupported_grant_type: …"}`,
			headers: []string{"Content-Type: application/x-www-form-urlencoded"}},
		{does: "and one more", as: acme, call: "POST /v1/token/exchange", body: strings.Repeat("&", 100) + "grant_type=x", status: 400, gets: `{"error":"The form has more than 100 parameters"}`,
			headers: []string{"Content-Type: application/x-www-form-urlencoded"}},
	})
}

// Bodies that are costly to decode are decoded one after the other if the budget has no room for
// all: none of the accepted ones is refused.
func TestCostlyBodiesTakeTurns(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	s := start(t, func(c *server.Config) {
		c.MaxBody = 512 << 10
		// 2 MiB for each, because 20,000 members need 9 MiB
		c.Budgets.Bodies = limit.Bodies(8<<20, c.MaxBody)
	})
	acme := s.company(t, "acme")
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			acme.do(t, "POST /v1/attest", fmt.Sprintf(`{"agentId":"a","actionType":"b","payload":{"i":%d,%s}}`, i, memberList(20_000))).status(201)
		})
	}
	wg.Wait()
	if n := len(acme.checkChain(t)); n != 6 {
		t.Errorf("%d records, want 6", n)
	}
}

// A turn with more calls than the limit lets a caller record is refused by the limit, and one with
// more calls than any agent makes is refused with its own error. Calls that are already recorded do
// not count.
func TestHookBatchOverTheLimit(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t, limits(limit.Limits{Sensitive: 1000, Attest: 10, Standard: 1000}))
	acme := s.company(t, "acme")
	batch := func(from, n int) string {
		var calls []string
		for i := range n {
			calls = append(calls, fmt.Sprintf(`{"tool_name":"Bash","tool_use_id":"t%d","tool_input":{}}`, from+i))
		}
		return `{"hook_event_name":"PostToolBatch","session_id":"s","tool_calls":[` + strings.Join(calls, ",") + `]}`
	}
	acme.do(t, hook, batch(0, 5000)).tooMany(10)
	acme.do(t, hook, batch(0, 5001)).gets(400, `{"error":"Malformed hook event: more than 5000 calls"}`)
	acme.do(t, hook, batch(0, 5)).gets(200, `{}`).limited(10, 0)
	acme.do(t, hook, batch(0, 5)).gets(200, `{}`)
	acme.do(t, hook, batch(0, 6)).tooMany(10)
	if n := len(acme.hooked(t)); n != 10 {
		t.Errorf("%d records, want 10", n)
	}
}
