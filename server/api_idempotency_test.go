package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/server/limit"
)

const (
	attest      = "POST /v1/attest"
	attestBatch = "POST /v1/attest/batch"
	deployed    = `{"agentId":"bot","actionType":"deploy","payload":{"version":"1.4.2"}}`
)

// The test covers the syntax of an idempotency key, and the request that it is bound to.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	first := acme.do(t, attest, deployed, "Idempotency-Key: k 1").status(201)
	if first.header.Get("Idempotent-Replayed") != "" {
		t.Error("the first is a replay")
	}
	for _, again := range []struct{ does, body, key string }{
		{"as it was", deployed, "k 1"},
		{"as a quoted string", deployed, `"k 1"`},
		{"with other spaces, another order and a companyId", `{"payload" : {"version":"1.4.2"}, "companyId":"x", "actionType":"deploy","agentId":"bot","delegation":null}`, `"k 1"`},
		{"with another spelling", `{"agentId":"bot","actionType":"deploy","payload":{"v\u0065rsion":"1.4.2"}}`, "k 1"},
	} {
		r := acme.do(t, attest, again.body, "Idempotency-Key: "+again.key).status(201)
		if string(r.raw) != string(first.raw) || r.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s: %s", again.does, r.raw)
		}
	}
	if r := globex.do(t, attest, deployed, "Idempotency-Key: k 1").status(201); r.header.Get("Idempotent-Replayed") != "" {
		t.Error("a key of another company")
	}
	reused := `{"error":"…another request…","code":"IDEMPOTENCY_KEY_REUSED"}`
	svid := acme.agent(t, "bot")
	for _, other := range []string{
		strings.Replace(deployed, "1.4.2", "1.4.3", 1), strings.Replace(deployed, `"bot"`, `"bat"`, 1), strings.Replace(deployed, `"deploy"`, `"delete"`, 1),
		strings.TrimSuffix(deployed, "}") + `,"delegation":"` + svid + `"}`,
	} {
		acme.do(t, attest, other, "Idempotency-Key: k 1").gets(422, reused)
	}
	for _, bad := range []string{"", `"`, `"open`, `"a"b"`, `"a\b"`, `""`, "é", "tab\there", strings.Repeat("x", 256)} {
		acme.do(t, attest, deployed, "Idempotency-Key: "+bad).gets(400, `{"error":"Invalid header: Idempotency-Key …"}`)
	}
	acme.do(t, attest, deployed, `Idempotency-Key: `+strings.Repeat("x", 255)).status(201)
	quoted := acme.do(t, attest, deployed, `Idempotency-Key: "a\"\\b"`).status(201)
	item := `{"records":[` + strings.TrimSuffix(deployed, "}") + `,"idempotencyKey":"a\"\\b"}]}`
	if r := acme.do(t, attestBatch, item).status(201); string(r.raw) != `{"records":[`+strings.TrimSpace(string(quoted.raw))+"]}\n" {
		t.Errorf("by batch: %s", r.raw)
	}
	if n := acme.length(t); n != 3 {
		t.Errorf("%d records, want 3", n)
	}
}

func (c caller) length(t testing.TB) int {
	t.Helper()
	var chain struct{ Records []json.RawMessage }
	c.do(t, "GET /v1/chain", "").status(200).into(&chain)
	return len(chain.Records)
}

// 64 equal concurrent requests make one record, and one message on the stream.
func TestConcurrentRetriesMakeOneRecord(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	acme := start(t).company(t, "acme")
	stream := acme.listen(t)
	var wg sync.WaitGroup
	answers := make([]string, 64)
	for i := range answers {
		wg.Go(func() {
			answers[i] = string(acme.do(t, attest, deployed, "Idempotency-Key: storm").status(201).raw)
		})
	}
	wg.Wait()
	for _, a := range answers {
		if a != answers[0] {
			t.Fatalf("two answers:\n%s\n%s", a, answers[0])
		}
	}
	acme.do(t, attest, `{"agentId":"bot","actionType":"last","payload":0}`).status(201)
	stream.valid("acme", 0)
	stream.valid("acme", 1)
	if n := acme.length(t); n != 2 {
		t.Errorf("%d records", n)
	}
}

// A retry is answered with its record even if the caller has lost the right to make the request
// again.
func TestReplayAfterAuthorizationEnded(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.agent(t, "bot")
	company, err := s.store.Companies.Get(t.Context(), "acme")
	must.OK(t, err)
	almost := time.Now().Add(2*time.Second - time.Hour) // an SVID is valid for an hour
	body := strings.TrimSuffix(deployed, "}") + `,"delegation":"` + company.Issuer.SVID("spiffe://attestd.local/company/acme/agent/bot", almost) + `"}`
	first := acme.do(t, attest, body, "Idempotency-Key: k").status(201)
	acme.do(t, "POST /v1/agents/bot/disable", "").status(200)
	acme.do(t, attest, deployed).status(403)
	if r := acme.do(t, attest, body, "Idempotency-Key: k").status(201); string(r.raw) != string(first.raw) {
		t.Errorf("after it was disabled: %s", r.raw)
	}
	acme.do(t, "POST /v1/agents/bot/enable", "").status(200)
	others := 0
	for ; acme.do(t, attest, body, fmt.Sprint("Idempotency-Key: ", others)).code == 201; others++ {
	}
	if r := acme.do(t, attest, body, "Idempotency-Key: k").status(201); string(r.raw) != string(first.raw) {
		t.Errorf("after its delegation has expired: %s", r.raw)
	}
	acme.do(t, attest, strings.Replace(body, "1.4.2", "1.4.3", 1), "Idempotency-Key: k").status(422)
	batch := `{"records":[` + strings.TrimSuffix(body, "}") + `,"idempotencyKey":"k"},` + deployed + `]}`
	acme.do(t, "POST /v1/agents/bot/disable", "").status(200)
	acme.do(t, attestBatch, batch).gets(403, `{"error":"Agent is disabled: bot","code":"AGENT_DISABLED","pointer":"/records/1/agentId"}`)
	acme.do(t, "POST /v1/agents/bot/enable", "").status(200)
	var all struct{ Records []json.RawMessage }
	r := acme.do(t, attestBatch, batch).status(201)
	r.into(&all)
	if len(all.Records) != 2 || string(all.Records[0]) != strings.TrimSpace(string(first.raw)) || r.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("by batch: %s", r.raw)
	}
}

func TestAttestBatch(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	item := func(n int) string { return fmt.Sprintf(`{"agentId":"bot","actionType":"x","payload":{"n": %d}}`, n) }
	items := func(n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = item(i)
		}
		return `{"records":[` + strings.Join(all, ",") + `]}`
	}
	var answer struct {
		Records []struct {
			Index   int
			Payload struct{ Payload struct{ N int } }
		}
	}
	acme.do(t, attestBatch, items(1000)).status(201).into(&answer)
	for i, r := range answer.Records {
		if r.Index != i || r.Payload.Payload.N != i {
			t.Fatalf("record %d is %+v", i, r)
		}
	}
	deep := strings.Repeat("[", 128) + strings.Repeat("]", 128)
	acme.do(t, attestBatch, `{"records":[{"agentId":"bot","actionType":"x","payload":`+deep+`}]}`).status(201)
	const list = `{"error":"Invalid field: records must be an array of 1 to 1000 objects"}`
	const missing = `{"error":"Missing or invalid fields: agentId, actionType, payload are required","pointer":"/records/%s"}`
	table(t, []row{
		{does: "nothing", as: acme, call: attestBatch, status: 400, gets: `{"error":"Missing or invalid field: records is required"}`},
		{does: "no list", as: acme, call: attestBatch, body: `{"records":{}}`, status: 400, gets: list},
		{does: "an empty list", as: acme, call: attestBatch, body: `{"records":[]}`, status: 400, gets: list},
		{does: "1001", as: acme, call: attestBatch, body: items(1001), status: 400, gets: list},
		{does: "an item that is none", as: acme, call: attestBatch, body: `{"records":[` + item(1) + `,7]}`, status: 400, gets: fmt.Sprintf(missing, "1")},
		{does: "an item without a payload", as: acme, call: attestBatch, body: `{"records":[` + item(1) + `,{"agentId":"a","actionType":"b"}]}`, status: 400, gets: fmt.Sprintf(missing, "1")},
		{does: "a number that is none of JSON's", as: acme, call: attestBatch, body: `{"records":[` + item(1) + `,{"agentId":"a","actionType":"b","payload":{"n":[1e400]}}]}`, status: 400,
			gets: `{"error":"Malformed JSON at \"/payload/n/0\": …","pointer":"/records/1/payload/n/0"}`},
		{does: "a value that is too deep", as: acme, call: attestBatch, body: `{"records":[{"agentId":"a","actionType":"b","payload":[` + deep + `]}]}`, status: 400, gets: `{"error":"…128…","pointer":"/records/0/payload…"}`},
		{does: "a delegation that is none", as: acme, call: attestBatch, body: `{"records":[{"agentId":"a","actionType":"b","payload":1,"delegation":"x"}]}`, status: 400,
			gets: `{"error":"Invalid delegation: …","pointer":"/records/0/delegation"}`},
		{does: "a key that is none", as: acme, call: attestBatch, body: `{"records":[{"agentId":"a","actionType":"b","payload":1,"idempotencyKey":7}]}`, status: 400,
			gets: `{"error":"Invalid field: idempotencyKey …","pointer":"/records/0/idempotencyKey"}`},
		{does: "one key twice", as: acme, call: attestBatch, body: `{"records":[{"agentId":"a","actionType":"b","payload":1,"idempotencyKey":"k"},` + item(2) + `,{"agentId":"a","actionType":"b","payload":1,"idempotencyKey":"k"}]}`, status: 400,
			gets: `{"error":"Invalid field: idempotencyKey is that of records[0] too…","pointer":"/records/2/idempotencyKey"}`},
		{does: "a stranger", as: s.anyone(), call: attestBatch, body: items(2), status: 401, gets: `{"error":"Unauthorized"}`, sets: []string{"WWW-Authenticate: Bearer …"}},
	})
	if n := acme.length(t); n != 1001 {
		t.Errorf("%d records: a refused batch has left some", n)
	}
}

// A batch counts as its items, and the answer has the remainders of both budgets.
func TestBatchItemsCountAgainstRateLimit(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t, func(c *server.Config) {
		c.Limits = limit.Limits{Standard: 20, Attest: 5, Sensitive: 5, Log: 5, Company: 2}
	})
	acme := s.company(t, "acme")
	batch := func(n int) string {
		return `{"records":[` + strings.TrimSuffix(strings.Repeat(deployed+",", n), ",") + `]}`
	}
	headers := func(r *reply, want string) {
		t.Helper()
		h := r.header
		if got := fmt.Sprint(h.Get("X-RateLimit-Limit"), " ", h.Get("X-RateLimit-Remaining"), " ", h.Get("X-RateLimit-Company-Limit"), " ", h.Get("X-RateLimit-Company-Remaining")); got != want {
			t.Errorf("headers %s, want %s", got, want)
		}
	}
	acme.do(t, attestBatch, batch(6)).gets(400, `{"error":"A batch of 6 records is more than the 5 …--rate-limits"}`)
	headers(acme.do(t, attestBatch, batch(4)).status(201), "5 1 10 6")
	headers(acme.do(t, attestBatch, batch(2)).status(429), "5 0 10 6")
	headers(acme.do(t, attest, deployed).status(201), "5 0 10 5")
	other := acme.create(t, "writer", "")
	headers(other.do(t, attestBatch, batch(5)).status(201), "5 0 10 0")
	headers(s.anyone().do(t, "GET /v1/health", "").status(200), "20 18  ")
}
