package server_test

import (
	"fmt"
	"testing"

	"attestd/crypto/cred"
	"attestd/crypto/jose"
	"attestd/internal/testenv"
)

// keyEvent waits for the message about a control record on a key of an agent.
func (e *endpoint) keyEvent(t testing.TB, event, agent string) delivered {
	t.Helper()
	d := e.next(t)
	if d.Type != event || d.Data.ActionType != event || d.Data.AgentID != agent || d.Data.Log != "control" {
		t.Fatalf("%s arrives, want %s of %s", d.body, event, agent)
	}
	return d
}

// revokeKey revokes a key of the agent.
func (a signer) revokeKey(t testing.TB, key *jose.PrivateKey) {
	t.Helper()
	a.do(t, "DELETE "+a.keys()+"/"+key.Key().Thumbprint, "").status(200)
}

// The enrolment and the revocation of a key are messages of their own types, which name the control
// record. No other control record is sent, and none before the webhook was created.
func TestWebhookKeyEvents(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t, private)
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	a := acme.signer(t, "bot", jose.EdDSA)
	e := newEndpoint(t)
	id, _ := acme.webhook(t, e.URL, "")
	globex.signer(t, "bot", jose.EdDSA)
	acme.agent(t, "other")
	acme.do(t, "POST /v1/agents/bot/enrolments", "").status(201)
	acme.do(t, "PUT /v1/agents/other/policy", `{"attest":"key"}`).status(200)
	next := newKey(t, jose.ES256)
	a.enrol(t, next).status(201)
	enrolled := e.keyEvent(t, "agent-key.enrolled", "bot")
	a.revokeKey(t, a.key)
	a.revokeKey(t, a.key) // no second record
	revoked := e.keyEvent(t, "agent-key.revoked", "bot")
	for _, d := range []delivered{enrolled, revoked} {
		r := acme.do(t, fmt.Sprintf("GET /v1/chain?log=control&from=%d&limit=1", d.Data.Index), "").status(200).at("records").([]any)[0].(map[string]any)
		payload := r["payload"].(map[string]any)
		if r["hash"] != d.Data.Hash || payload["actionType"] != d.Type {
			t.Errorf("%s is about %v", d.body, r)
		}
		want := fmt.Sprintf(`{"type":%q,"timestamp":%q,"data":{"log":"control","companyId":"acme","index":%d,"hash":%q,"agentId":"bot","actionType":%q}}`,
			d.Type, r["timestamp"], d.Data.Index, r["hash"], d.Type)
		if err := like(t, want, d.body); err != nil {
			t.Error(err)
		}
		if got, want := d.header.Get("Webhook-Id"), fmt.Sprintf("msg_%s_control_%d_%s", id[3:], d.Data.Index, d.Data.Hash[:16]); got != want {
			t.Errorf("webhook-id %s, want %s", got, want)
		}
	}

	// An action of the same name is a record of the actions log.
	acme.attestAs(t, "bot", "agent-key.enrolled")
	if d := e.record(t, "acme", 0); d.Data.Log != "" {
		t.Errorf("an action arrives as %s", d.body)
	}
	acme.do(t, "DELETE /v1/webhooks/"+id, "").status(200)
	a.enrol(t, newKey(t, jose.EdDSA)).status(201)
	s.stop()
	if len(e.arrived) > 0 {
		t.Errorf("%s arrives too", (<-e.arrived).body)
	}
}

// The filters of a webhook hold for events of keys: their agent is the key's.
func TestWebhookFiltersHoldForKeyEvents(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t, private)
	acme := s.company(t, "acme")
	bot, cat := acme.signer(t, "bot", jose.EdDSA), acme.signer(t, "cat", jose.EdDSA)
	service := acme.do(t, "GET /v1/chain?log=control&limit=1", "").status(200).at("records").([]any)[0].(map[string]any)["payload"].(map[string]any)["agentId"]
	const enrolled, revoked = "agent-key.enrolled", "agent-key.revoked"
	filters := map[string][][2]string{
		fmt.Sprintf(`,"agents":[%q]`, service): {}, // who all control records are by
		"":                                     {{enrolled, "bot"}, {revoked, "bot"}, {enrolled, "cat"}},
		`,"agents":["bot"]`:                    {{enrolled, "bot"}, {revoked, "bot"}},
		`,"agents":["bot","cat"]`:              {{enrolled, "bot"}, {revoked, "bot"}, {enrolled, "cat"}},
		`,"actions":["agent-key.*"]`:           {{enrolled, "bot"}, {revoked, "bot"}, {enrolled, "cat"}},
		`,"actions":["x","agent-key.revoked"]`: {{revoked, "bot"}},
		`,"actions":["*"],"agents":["cat"]`:    {{enrolled, "cat"}},
		`,"actions":["agent-key"]`:             {},
		`,"actions":["git.*"]`:                 {},
	}
	endpoints := map[string]*endpoint{}
	for filter := range filters {
		endpoints[filter] = newEndpoint(t)
		acme.webhook(t, endpoints[filter].URL, filter)
	}
	key := newKey(t, jose.EdDSA)
	bot.enrol(t, key).status(201)
	bot.revokeKey(t, key)
	cat.enrol(t, newKey(t, jose.EdDSA)).status(201)
	for filter, want := range filters {
		for _, w := range want {
			endpoints[filter].keyEvent(t, w[0], w[1])
		}
	}
	s.stop()
	for filter, e := range endpoints {
		if len(e.arrived) > 0 {
			t.Errorf("%s: %s", filter, (<-e.arrived).body)
		}
	}
}

// Nothing is lost if the service stops between an enrolment and its message.
func TestWebhookKeyEventSurvivesRestart(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t, private)
	acme := s.company(t, "acme")
	a := acme.signer(t, "bot", jose.EdDSA)
	down, off := newEndpoint(t), newEndpoint(t)
	down.answers(503)
	acme.webhook(t, down.URL, "")
	id, _ := acme.webhook(t, off.URL, "")
	acme.do(t, "POST /v1/webhooks/"+id+"/disable", "").status(200)
	a.enrol(t, newKey(t, jose.EdDSA)).status(201)
	a.revokeKey(t, a.key)
	first := down.keyEvent(t, "agent-key.enrolled", "bot")
	s.stop()

	down.answers(204)
	again := startOn(t, s.path, cred.Domain{}, private)
	acme = caller{again, "acme", acme.credential}
	acme.do(t, "POST /v1/webhooks/"+id+"/enable", "").status(200)
	for _, e := range []*endpoint{off, down} {
		d := e.keyEvent(t, "agent-key.enrolled", "bot")
		if e == down && (d.header.Get("Webhook-Id") != first.header.Get("Webhook-Id") || string(d.body) != string(first.body)) {
			t.Errorf("tried again: %v %s, at first: %v %s", d.header, d.body, first.header, first.body)
		}
		e.keyEvent(t, "agent-key.revoked", "bot")
	}
}
