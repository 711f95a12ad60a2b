package server_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"attestd/crypto/cred"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/server/limit"
)

// endpoint is a receiver of webhooks with the messages that it received.
type endpoint struct {
	*httptest.Server
	arrived chan delivered

	mu     sync.Mutex
	status int
}

// delivered is one request of a webhook.
type delivered struct {
	header http.Header
	body   []byte

	Type      string
	Timestamp string
	Data      struct {
		CompanyID, Hash, AgentID, ActionType, WebhookID, Log string
		Index                                                int
	}
}

// newEndpoint runs an endpoint, which answers 204, until the end of the test.
func newEndpoint(t testing.TB) *endpoint {
	t.Helper()
	e := &endpoint{arrived: make(chan delivered, 1000), status: http.StatusNoContent}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		d := delivered{header: r.Header, body: body}
		if err == nil {
			err = json.Unmarshal(body, &d)
		}
		if err != nil || r.Method != "POST" {
			t.Errorf("%s: %v", r.Method, err)
		}
		e.arrived <- d
		e.mu.Lock()
		defer e.mu.Unlock()
		w.WriteHeader(e.status)
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *endpoint) answers(status int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status = status
}

func (e *endpoint) next(t testing.TB) delivered {
	t.Helper()
	select {
	case d := <-e.arrived:
		return d
	case <-time.After(time.Minute):
		t.Fatal("nothing arrives")
		return delivered{}
	}
}

// record waits for the message about a record.
func (e *endpoint) record(t testing.TB, company string, index int) delivered {
	t.Helper()
	d := e.next(t)
	if d.Type != "record.appended" || d.Data.CompanyID != company || d.Data.Index != index {
		t.Fatalf("%s arrives, want %s record %d", d.body, company, index)
	}
	return d
}

func private(c *server.Config) { c.WebhooksAllowPrivate = true }

// webhook creates a webhook and returns its ID and its secret; more has further members of the
// body.
func (c caller) webhook(t testing.TB, url, more string) (id, secret string) {
	t.Helper()
	r := c.do(t, "POST /v1/webhooks", fmt.Sprintf(`{"url":%q%s}`, url, more)).status(201)
	return r.str("webhookId"), r.str("secret")
}

// attestAs appends a record with the given agent and kind.
func (c caller) attestAs(t testing.TB, agent, action string) *reply {
	t.Helper()
	return c.do(t, "POST /v1/attest", fmt.Sprintf(`{"agentId":%q,"actionType":%q,"payload":{"token":"not for webhooks"}}`, agent, action)).status(201)
}

// A message names the appended record and contains nothing of its payload. Each company's records
// go to its own webhooks, in order, beginning when the webhook was created.
func TestWebhookMessages(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t, private)
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	acme.attestMany(t, 2)
	e := newEndpoint(t)
	id, _ := acme.webhook(t, e.URL+"/hook?x=1", "")
	globex.attestMany(t, 1)
	for i := range 3 {
		r := acme.attestAs(t, "bot", "git.push")
		d := e.record(t, "acme", 2+i)
		want := fmt.Sprintf(`{"type":"record.appended","timestamp":"%s","data":{"companyId":"acme","index":%d,"hash":"%s","agentId":"bot","actionType":"git.push"}}`,
			r.str("timestamp"), 2+i, r.str("hash"))
		if err := like(t, want, d.body); err != nil {
			t.Error(err)
		}
		if got, want := d.header.Get("Webhook-Id"), fmt.Sprintf("msg_%s_%d_%s", id[3:], 2+i, r.str("hash")[:16]); got != want {
			t.Errorf("webhook-id %s, want %s", got, want)
		}
	}
	acme.do(t, "DELETE /v1/webhooks/"+id, "").gets(200, `{"deleted":true}`)
	acme.do(t, "DELETE /v1/webhooks/"+id, "").gets(404, `{"error":"Webhook not found"}`)
	acme.attestMany(t, 1)
	s.stop()
	if len(e.arrived) > 0 {
		t.Errorf("after its deletion it was sent %s", (<-e.arrived).body)
	}
}

// A webhook can be limited to some agents, and to some kinds of action, by name or by prefix.
func TestWebhookFilters(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t, private)
	acme := s.company(t, "acme")
	records := [][2]string{{"bot", "git.push"}, {"cat", "git.push"}, {"bot", "github"}, {"bot", "deploy"}, {"Ünï\"cøde", "git.pull"}, {"bot", "git."}}
	filters := map[string][]int{
		"":                                 {0, 1, 2, 3, 4, 5},
		`,"agents":["bot"]`:                {0, 2, 3, 5},
		`,"actions":["git.*"]`:             {0, 1, 4, 5},
		`,"actions":["git.push","deploy"]`: {0, 1, 3},
		`,"actions":["*"],"agents":["Ünï\"cøde"]`:  {4},
		`,"agents":["bot"],"actions":["git*"]`:     {0, 2, 5},
		`,"agents":null,"actions":["git.push.*"]`:  {},
		`,"description":"all","actions":["*push"]`: {},
	}
	endpoints := map[string]*endpoint{}
	for filter := range filters {
		endpoints[filter] = newEndpoint(t)
		acme.webhook(t, endpoints[filter].URL, filter)
	}
	for _, r := range records {
		acme.attestAs(t, r[0], r[1])
	}
	for filter, want := range filters {
		for _, index := range want {
			endpoints[filter].record(t, "acme", index)
		}
	}
	s.stop()
	for filter, e := range endpoints {
		if len(e.arrived) > 0 {
			t.Errorf("%s: %s", filter, (<-e.arrived).body)
		}
	}
}

// A webhook can be created, shown, tested, disabled, enabled, given another secret and deleted; its
// secret is shown only when it is created.
func TestWebhookRoutes(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t, private)
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	e := newEndpoint(t)
	made := acme.do(t, "POST /v1/webhooks", `{"url":"`+e.URL+`","agents":["bot"],"actions":["git.*"],"description":"mine"}`).gets(201,
		`{"webhookId":"…","url":"…","agents":["bot"],"actions":["git.*"],"description":"mine","createdAt":"<time>","publicKey":"…","fingerprint":"…","nextIndex":0,"failedAttempts":0,"secret":"…"}`)
	id, secret := made.str("webhookId"), made.str("secret")
	if raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_")); err != nil || len(raw) != 32 || !strings.HasPrefix(secret, "whsec_") {
		t.Errorf("secret of %d bytes: %v", len(raw), err)
	}
	if public := made.str("publicKey"); !strings.HasPrefix(public, "whpk_") {
		t.Errorf("public key %s", public)
	}
	const shown = `{"webhookId":"…","url":"…","agents":["bot"],"actions":["git.*"],"description":"mine","createdAt":"<time>","publicKey":"…","fingerprint":"…","nextIndex":0,"failedAttempts":0}`
	at := "/v1/webhooks/" + id
	acme.do(t, "GET "+at, "").gets(200, shown)
	acme.do(t, "GET /v1/webhooks", "").gets(200, `{"webhooks":[`+shown+`]}`)
	globex.do(t, "GET /v1/webhooks", "").gets(200, `{"webhooks":[]}`)
	for _, call := range []string{"GET " + at, "DELETE " + at, "POST " + at + "/enable", "POST " + at + "/disable", "POST " + at + "/rotate-secret", "POST " + at + "/test"} {
		globex.do(t, call, "").gets(404, `{"error":"Webhook not found"}`)
	}

	acme.do(t, "POST "+at+"/test", "").gets(200, `{"delivered":true,"status":204,"messageId":"…"}`)
	if d := e.next(t); d.Type != "webhook.test" || d.Data.WebhookID != id || strings.Count(d.header.Get("Webhook-Signature"), ",") != 2 {
		t.Errorf("%s with %v", d.body, d.header)
	}
	e.answers(500)
	acme.do(t, "POST "+at+"/test", "").gets(200, `{"delivered":false,"status":500,"messageId":"…"}`)
	e.next(t)
	e.answers(204)

	disabled := acme.do(t, "POST "+at+"/disable", "").status(200)
	if disabled.str("disabledReason") != "requested" {
		t.Errorf("%s", disabled.raw)
	}
	acme.attestAs(t, "bot", "git.push")
	acme.attestAs(t, "bot", "git.pull")
	acme.do(t, "POST "+at+"/test", "").gets(200, `{"delivered":true,"status":204,"messageId":"…"}`)
	if d := e.next(t); d.Type != "webhook.test" {
		t.Errorf("while disabled it was sent %s", d.body)
	}
	acme.do(t, "POST "+at+"/enable", "").gets(200, shown)
	e.record(t, "acme", 0)
	e.record(t, "acme", 1)

	rotated := acme.do(t, "POST "+at+"/rotate-secret", "").status(200)
	if rotated.str("secret") == secret || rotated.str("publicKey") == made.str("publicKey") {
		t.Error("the secret is the same")
	}
	acme.attestAs(t, "bot", "git.push")
	d := e.next(t)
	if d.Data.Index == 1 { // it was in progress when the secret was changed
		d = e.next(t)
	}
	if d.Data.Index != 2 || strings.Count(d.header.Get("Webhook-Signature"), "v1,") != 2 || strings.Count(d.header.Get("Webhook-Signature"), "v1a,") != 2 {
		t.Errorf("after a change of secrets: %v", d.header)
	}
	var kinds []string
	for _, r := range acme.do(t, "GET /v1/chain?log=control", "").status(200).at("records").([]any) {
		payload := r.(map[string]any)["payload"].(map[string]any)
		if kind := payload["actionType"].(string); strings.HasPrefix(kind, "webhook.") {
			kinds = append(kinds, kind)
		}
		if text := fmt.Sprint(r); strings.Contains(text, secret) || strings.Contains(text, e.URL) {
			t.Errorf("a control record shows a secret: %s", text)
		}
	}
	if want := []string{"webhook.created", "webhook.disabled", "webhook.enabled", "webhook.secret-rotated"}; !slices.Equal(kinds, want) {
		t.Errorf("control records of %q", kinds)
	}
}

// These webhooks are refused.
func TestWebhookRefused(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t, func(c *server.Config) { c.Bounds.Webhooks = 1 })
	acme := s.company(t, "acme")
	const make = "POST /v1/webhooks"
	url := func(u string) string { return fmt.Sprintf(`{"url":%q}`, u) }
	names := func(n int) string {
		return `{"url":"https://hooks.example.com/","agents":[` + strings.TrimSuffix(strings.Repeat(`"a",`, n), ",") + `]}`
	}
	var rows []row
	for does, body := range map[string]string{
		"no URL": `{}`, "a URL of this machine": url("https://127.0.0.1:8443/"), "http": url("http://hooks.example.com/"), "metadata": url("https://169.254.169.254/"),
		"a password": url("https://a:b@hooks.example.com/"), "no host": url("https:///x"), "no agents": names(0), "too many agents": names(101),
		"an agent that is no text":  `{"url":"https://hooks.example.com/","agents":[1]}`,
		"an action without a name":  `{"url":"https://hooks.example.com/","actions":[""]}`,
		"actions that are one text": `{"url":"https://hooks.example.com/","actions":"git.*"}`,
		"a number as description":   `{"url":"https://hooks.example.com/","description":1}`,
	} {
		rows = append(rows, row{does: does, as: acme, call: make, body: body, status: 400, gets: `{"error":"…"}`})
	}
	table(t, rows)
	acme.webhook(t, "https://hooks.example.invalid/", "")
	acme.do(t, make, url("https://hooks.example.com/")).gets(409, `{"error":"The company has 1 webhooks, the most that this server allows","code":"TOO_MANY"}`)
}

// An endpoint that does not accept a message delays no other; the answer 410 disables its webhook
// with a control record that names no credential. After it is enabled again it continues where it
// stopped.
func TestWebhookThatFails(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t, private)
	acme := s.company(t, "acme")
	bad, gone, good := newEndpoint(t), newEndpoint(t), newEndpoint(t)
	bad.answers(500)
	gone.answers(410)
	badID, _ := acme.webhook(t, bad.URL, "")
	goneID, _ := acme.webhook(t, gone.URL, "")
	acme.webhook(t, good.URL, "")
	acme.attestMany(t, 3)
	for i := range 3 {
		good.record(t, "acme", i)
	}
	first := bad.record(t, "acme", 0)
	gone.record(t, "acme", 0)
	state := func(id string, until func(r *reply) bool) *reply {
		for {
			if r := acme.do(t, "GET /v1/webhooks/"+id, "").status(200); until(r) {
				return r
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	state(goneID, func(r *reply) bool { return strings.Contains(string(r.raw), `"disabledReason":"gone"`) })
	state(badID, func(r *reply) bool {
		return r.at("failedAttempts") != 0.0 && r.at("nextIndex") == 0.0 && r.str("nextAttemptAt") != ""
	})

	// A restart changes neither state: a failed webhook waits for its next attempt, and a disabled
	// one stays disabled. When it is enabled again it continues with the same message.
	s.stop()
	again := startOn(t, s.path, cred.Domain{}, private)
	acme = caller{again, "acme", acme.credential}
	if r := acme.do(t, "GET /v1/webhooks/"+badID, "").status(200); r.at("failedAttempts") == 0.0 || r.at("nextIndex") != 0.0 || r.str("nextAttemptAt") == "" {
		t.Errorf("after a restart: %s", r.raw)
	}
	acme.do(t, "POST /v1/webhooks/"+badID+"/disable", "").status(200)
	gone.answers(204)
	bad.answers(204)
	acme.do(t, "POST /v1/webhooks/"+goneID+"/enable", "").status(200)
	for i := range 3 {
		gone.record(t, "acme", i)
	}
	acme.do(t, "POST /v1/webhooks/"+badID+"/enable", "").status(200)
	d := bad.record(t, "acme", 0)
	// more than once where the machine is slow: then an attempt came before it was disabled
	for ; d.Data.Index == 0; d = bad.next(t) {
		if d.header.Get("Webhook-Id") != first.header.Get("Webhook-Id") || string(d.body) != string(first.body) {
			t.Errorf("tried again: %v %s, at first: %v %s", d.header, d.body, first.header, first.body)
		}
	}
	if d.Data.Index != 1 {
		t.Errorf("after record 0 comes %s", d.body)
	}
	bad.record(t, "acme", 2)
	off := 0
	for _, r := range acme.do(t, "GET /v1/chain?log=control", "").status(200).at("records").([]any) {
		payload := r.(map[string]any)["payload"].(map[string]any)
		if inner := payload["payload"].(map[string]any); payload["actionType"] == "webhook.disabled" && inner["webhookId"] == goneID {
			off++
			if inner["by"] != nil || inner["reason"] != "gone" || inner["subject"] != "webhook:"+goneID {
				t.Errorf("%v", inner)
			}
		}
	}
	if off != 1 {
		t.Errorf("%d records of a webhook that was switched off", off)
	}
}

// The number of enabled webhooks of a server is limited: one more is refused, and there is room
// again when one is disabled.
func TestWebhooksHaveABudget(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t, func(c *server.Config) { c.Budgets.Webhooks = limit.Webhooks(2) })
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	const url = "https://hooks.example.invalid/"
	first, _ := acme.webhook(t, url, "")
	globex.webhook(t, url, "")
	full := `{"error":"Service Unavailable: as many webhooks are enabled as this server allows","code":"NOT_DONE","requestId":"…"}`
	globex.do(t, "POST /v1/webhooks", `{"url":"`+url+`"}`).gets(503, full).sets("Retry-After: <number>")
	acme.do(t, "POST /v1/webhooks/"+first+"/disable", "").status(200)
	globex.webhook(t, url, "")
	acme.do(t, "POST /v1/webhooks/"+first+"/enable", "").gets(503, full)
}
