package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"attestd/chain"
	"attestd/crypto/jose"
	"attestd/internal/must"
	"attestd/server"
	"attestd/store/names"
	"attestd/store/storetest"
)

const refund = `{"agentId":"bot","actionType":"refund","payload":{"cents":5000}}`

func blob(b []byte) string { return fmt.Sprintf("x'%x'", b) }

// claimed is a row that claims of a record that it is the one of a request under an
// Idempotency-Key.
func claimed(key, body, delegation string, index int) string {
	payload := strings.TrimSuffix(strings.SplitN(body, `"payload":`, 2)[1], "}")
	canonical := `{"actionType":"refund","agentId":"bot","companyId":"acme","payload":` + payload + "}"
	name, request := names.Key(key), names.Request([]byte(canonical), delegation, "")
	return fmt.Sprintf(`INSERT INTO idempotency_key (chain, name, request, idx, expires_at) VALUES (1, %s, %s, %d, %d)`,
		blob(name[:]), blob(request[:]), index, time.Now().Add(time.Hour).UnixMilli())
}

// A row from an external write answers no request: not with another record, nor with one of another
// delegation, nor with one that is not below the head. The request is refused, and so are the
// company's changes.
func TestForgedRetryKeyAnswersNothing(t *testing.T) {
	t.Parallel()
	for does, forge := range map[string]func(t *testing.T, acme caller) (body string, statements []string){
		"another record": func(*testing.T, caller) (string, []string) {
			return refund, []string{claimed("k", refund, "", 0)}
		},
		"the same action without the delegation": func(t *testing.T, acme caller) (string, []string) {
			acme.do(t, attest, refund).status(201)
			svid := acme.agent(t, "bot")
			return strings.TrimSuffix(refund, "}") + `,"delegation":"` + svid + `"}`, []string{claimed("k", refund, svid, 1)}
		},
		"the same action with a delegation": func(t *testing.T, acme caller) (string, []string) {
			svid := acme.agent(t, "bot")
			acme.do(t, attest, strings.TrimSuffix(refund, "}")+`,"delegation":"`+svid+`"}`).status(201)
			return refund, []string{claimed("k", refund, "", 1)}
		},
		"the same action, of another's delegation, and the agent is disabled": func(t *testing.T, acme caller) (string, []string) {
			acme.agent(t, "bot")
			other, mine := acme.agent(t, "other"), acme.do(t, "GET /v1/agents/bot/svid", "").status(200).str("svid")
			acme.do(t, attest, strings.TrimSuffix(refund, "}")+`,"delegation":"`+other+`"}`).status(201)
			acme.do(t, "POST /v1/agents/bot/disable", "").status(200)
			return strings.TrimSuffix(refund, "}") + `,"delegation":"` + mine + `"}`, []string{claimed("k", refund, mine, 1)}
		},
		"a record that nobody has signed": func(*testing.T, caller) (string, []string) {
			r := chain.Record{Index: 9, Timestamp: "2026-03-04T05:06:07.008Z"}
			payload := `{"actionType":"refund","agentId":"bot","companyId":"acme","payload":{"cents":5000}}`
			hash := r.ComputeHash([]byte(payload))
			return refund, []string{claimed("k", refund, "", 9), fmt.Sprintf(`INSERT INTO record (id, hash, signature, timestamp, payload) VALUES (%d, %s, %s, '%s', '%s')`,
				1<<40+9, blob(hash[:]), blob(make([]byte, 64)), r.Timestamp, payload)}
		},
		"a name that has been taken away": func(t *testing.T, acme caller) (string, []string) {
			a := acme.signer(t, "bot", jose.EdDSA)
			body := attestBody("bot", "1", a.states(t, a.claims(t, "note", "1")).Compact)
			acme.do(t, attest, body).status(201)
			return body, []string{"UPDATE idempotency_key SET expires_at = 1"}
		},
		"a statement's name that leads elsewhere": func(t *testing.T, acme caller) (string, []string) {
			a := acme.signer(t, "bot", jose.EdDSA)
			body := attestBody("bot", "1", a.states(t, a.claims(t, "note", "1")).Compact)
			acme.do(t, attest, body).status(201)
			return body, []string{"UPDATE idempotency_key SET idx = 0"}
		},
		"a place in a session that was taken by no statement": func(t *testing.T, acme caller) (string, []string) {
			a := acme.signer(t, "bot", jose.EdDSA)
			c := a.claims(t, "note", "1")
			c.Session = "run"
			s := a.states(t, c)
			name := names.Statement(s)[1].Name
			return attestBody("bot", "1", s.Compact), []string{fmt.Sprintf(`INSERT INTO idempotency_key (chain, name, request, idx, expires_at) VALUES (1, %s, %s, 0, %d)`,
				blob(name[:]), blob(name[:]), chain.LastTime.UnixMilli())}
		},
	} {
		t.Run(does, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			acme := s.company(t, "acme")
			acme.do(t, attest, `{"agentId":"bot","actionType":"greet","payload":1}`).status(201)
			body, statements := forge(t, acme)
			before := acme.length(t)
			must.OK(t, storetest.Stranger(t, s.path, statements...).Close())
			acme.do(t, attest, body, "Idempotency-Key: k").gets(503, tablesChanged)
			acme.do(t, attestBatch, `{"records":[`+strings.TrimSuffix(body, "}")+`,"idempotencyKey":"k"}]}`).gets(503, tablesChanged)
			acme.do(t, "POST /v1/keys", "").gets(503, tablesChanged)
			s.anyone().do(t, "GET /readyz", "").gets(200, `{"status":"degraded","reasons":["TABLES_CHANGED"],"headFile":"written","tablesChanged":1}`)
			acme.do(t, attest, `{"agentId":"other","actionType":"a","payload":1}`, "Idempotency-Key: other").status(201)
			// with the row of the unsigned record
			if n := acme.length(t); n != before+1 && n != before+2 {
				t.Errorf("%d records, and %d before", n, before)
			}
		})
	}
}

// An event of a tool call is recorded or refused even if an attacker has written a row that calls
// it recorded: no row suppresses a late report.
func TestForgedKeyHidesNoEvent(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *server.Config) { c.VerifyEvery = 0 })
	acme := s.company(t, "acme")
	ended := `{"hook_event_name":"PostToolUse","session_id":"s-1","tool_name":"Bash","tool_input":{"command":"ls"},"tool_response":"a","tool_use_id":"toolu_1"}`
	acme.do(t, attest, `{"agentId":"bot","actionType":"greet","payload":1}`).status(201)
	acme.do(t, hook+"?agent=bot", ended).status(200)
	acme.do(t, hook+"?agent=bot", ended).status(200)
	if n := acme.length(t); n != 2 {
		t.Fatalf("%d records", n)
	}
	late := `{"session_id":"s-1","hook_event_name":"PostToolBatch","tool_calls":[{"tool_name":"Bash","tool_use_id":"toolu_1"}]}`
	acme.do(t, hook+"?agent=bot", late).gets(200, `{}`)
	if n := acme.length(t); n != 3 { // that it was asked for is new
		t.Fatalf("%d records", n)
	}
	must.OK(t, storetest.Stranger(t, s.path, "UPDATE idempotency_key SET idx = 0").Close())
	for _, event := range []string{ended, late} {
		acme.do(t, hook+"?agent=bot", event).gets(503, tablesChanged)
	}
}
