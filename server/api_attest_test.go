package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"attestd/internal/testenv"
	"attestd/server"
)

func TestAttest(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	svid := acme.agent(t, "bot")
	const (
		attest  = "POST /v1/attest"
		missing = `{"error":"Missing or invalid fields: agentId, actionType, payload are required"}`
	)
	record := func(index int, payload string) string {
		return fmt.Sprintf(`{"index":%d,"timestamp":"<time>","payload":%s,"hash":"<hash>","signature":"<signature>"}`, index, payload)
	}
	of := func(agent, action, payload string) string {
		return fmt.Sprintf(`{"agentId":"%s","companyId":"acme","actionType":"%s","payload":%s}`, agent, action, payload)
	}
	long := strings.Repeat("é", 256)
	table(t, []row{
		{
			does: "an action becomes the first record", as: acme, call: attest, body: `{"agentId":"bot","actionType":"deploy","payload":{"version":"1.4.2"}}`,
			status: 201, gets: record(0, of("bot", "deploy", `{"version":"1.4.2"}`)), sets: []string{"Content-Type: application/json"},
		},
		{
			does: "the agent need not be registered", as: acme, call: attest, body: `{"agentId":"who else?","actionType":"x/y z","payload":0}`,
			status: 201, gets: record(1, of("who else?", "x/y z", "0")),
		},
		{
			does: "a companyId in the body is ignored", as: acme, call: attest, body: `{"companyId":"globex","agentId":"bot","actionType":"x","payload":[]}`,
			status: 201, gets: record(2, of("bot", "x", "[]")),
		},
		{
			does: "null is a payload", as: acme, call: attest, body: `{"agentId":"bot","actionType":"x","payload":null}`,
			status: 201, gets: record(3, of("bot", "x", "null")),
		},
		{
			does: "null is no delegation", as: acme, call: attest, body: `{"agentId":"bot","actionType":"x","payload":false,"delegation":null}`,
			status: 201, gets: record(4, of("bot", "x", "false")),
		},
		{
			does: "256 characters each", as: acme, call: attest, body: `{"agentId":"` + long + `","actionType":"` + long + `","payload":""}`,
			status: 201, gets: record(5, of(long, long, `""`)),
		},
		{
			does: "free text keeps its characters", as: acme, call: attest, body: `{"agentId":"<a>&\"\\\u2028","actionType":"\u0000\ud83d\ude00","payload":true}`,
			status: 201, gets: strings.ReplaceAll(record(6, of(`LESSa>&\"\\\u2028`, `\u0000😀`, "true")), "LESS", `\u003c`),
		},
		{
			does: "an SVID is a delegation without actors", as: acme, call: attest, body: `{"agentId":"bot","actionType":"x","payload":1,"delegation":"` + svid + `"}`,
			status: 201, gets: strings.Replace(record(7, of("bot", "x", "1")), `,"hash"`,
				`,"delegation":{"subject":"spiffe://attestd.local/company/acme/agent/bot","delegationChain":["spiffe://attestd.local/company/acme/agent/bot"],"act":null,"tokenId":"<uuid>"},"hash"`, 1),
		},

		{does: "the body is missing", as: acme, call: attest, status: 400, gets: missing},
		{does: "everything is missing", as: acme, call: attest, body: `{}`, status: 400, gets: missing},
		{does: "agentId is missing", as: acme, call: attest, body: `{"actionType":"x","payload":1}`, status: 400, gets: missing},
		{does: "agentId is a number", as: acme, call: attest, body: `{"agentId":1,"actionType":"x","payload":1}`, status: 400, gets: missing},
		{does: "agentId is null", as: acme, call: attest, body: `{"agentId":null,"actionType":"x","payload":1}`, status: 400, gets: missing},
		{does: "agentId is empty", as: acme, call: attest, body: `{"agentId":"","actionType":"x","payload":1}`, status: 400, gets: missing},
		{does: "actionType is missing", as: acme, call: attest, body: `{"agentId":"a","payload":1}`, status: 400, gets: missing},
		{does: "actionType is an object", as: acme, call: attest, body: `{"agentId":"a","actionType":{},"payload":1}`, status: 400, gets: missing},
		{does: "actionType is empty", as: acme, call: attest, body: `{"agentId":"a","actionType":"","payload":1}`, status: 400, gets: missing},
		{does: "payload is missing", as: acme, call: attest, body: `{"agentId":"a","actionType":"x"}`, status: 400, gets: missing},
		{does: "agentId has 257 characters", as: acme, call: attest, body: `{"agentId":"` + long + `é","actionType":"x","payload":1}`, status: 400, gets: `{"error":"…agentId…256…"}`},
		{does: "actionType has 257 characters", as: acme, call: attest, body: `{"agentId":"x","actionType":"` + long + `é","payload":1}`, status: 400, gets: `{"error":"…actionType…256…"}`},
		{does: "the body is not JSON", as: acme, call: attest, body: `agentId=a`, status: 400, gets: `{"error":"…"}`},
		{does: "the body is no object", as: acme, call: attest, body: `[{"agentId":"a","actionType":"x","payload":1}]`, status: 400, gets: `{"error":"…"}`},
		{does: "something follows the body", as: acme, call: attest, body: `{"agentId":"a","actionType":"x","payload":1},`, status: 400, gets: `{"error":"…"}`},
		{does: "delegation is a number", as: acme, call: attest, body: `{"agentId":"a","actionType":"x","payload":1,"delegation":1}`, status: 400, gets: `{"error":"Invalid delegation: …"}`},
		{does: "delegation is an object", as: acme, call: attest, body: `{"agentId":"a","actionType":"x","payload":1,"delegation":{}}`, status: 400, gets: `{"error":"Invalid delegation: …"}`},
		{does: "delegation is false", as: acme, call: attest, body: `{"agentId":"a","actionType":"x","payload":1,"delegation":false}`, status: 400, gets: `{"error":"Invalid delegation: …"}`},
		{does: "delegation is empty", as: acme, call: attest, body: `{"agentId":"a","actionType":"x","payload":1,"delegation":""}`, status: 400, gets: `{"error":"Invalid delegation: …"}`},
		{does: "delegation is no token", as: acme, call: attest, body: `{"agentId":"a","actionType":"x","payload":1,"delegation":"none"}`, status: 400, gets: `{"error":"Invalid delegation: …"}`},
		{does: "a stranger appends nothing", as: s.anyone(), call: attest, body: `{"agentId":"a","actionType":"x","payload":1}`, status: 401, gets: `{"error":"Unauthorized"}`, sets: []string{"WWW-Authenticate: Bearer …"}},

		{does: "what was refused left no trace", as: acme, call: "GET /v1/proof/8", status: 404, gets: `{"error":"…"}`},
	})
}

// A payload comes back byte for byte as it was sent: at once, in the chain, and in a proof.
func TestPayloadVerbatim(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	acme := start(t).company(t, "acme")
	payloads := []string{
		// These are spellings of numbers, each with a value that a double can represent.
		`0`, `-0`, `-0.0`, `0e7`, `1.0`, `4.50`, `1E2`, `1e+2`, `100e-2`, `0.1`, `1e21`, `1e-7`,
		`9007199254740992`, `-9007199254740992`, `1.7976931348623157e308`, `5e-324`, `2.2250738585072014E-308`, `123456789012345680000`,
		// These are orders of keys, including keys that sort differently in UTF-16 and UTF-8, and
		// keys that JavaScript reorders.
		`{"b":1,"a":2}`, `{"10":1,"9":2,"1":3}`, `{"\ud83d\ude00":1,"\ufb33":2,"€":3}`, `{"__proto__":{"constructor":1},"":0}`,
		// These are escapes, and characters that some encoders escape of their own accord.
		`"\u0041\/\u00e9é"`, `"<script>&amp;\u003c"`, "\"\u2028\u2029\u007f\"", `"\ud83d\ude00😀"`, `"\b\f\n\r\t\"\\"`, `"\u001f\u0000"`,
		// This is white space between the tokens.
		"{ \"a\" :\t[ 1 ,\r\n 2 ] , \"b\" : { } }", "[\n\n]", "[ [ ] , { } ]",
		// These are other kinds of values.
		`null`, `true`, `false`, `""`, `[]`, `{}`, `[null,true,false,"",0,[],{}]`,
		`{"index":7,"hash":"not this one","payload":{"payload":null},"agentId":"another"}`,
		nested(128),
		`{"long":"` + strings.Repeat("x", 1<<19) + `"}`,
	}
	for i, sent := range payloads {
		r := acme.do(t, "POST /v1/attest", `{"agentId":"a","actionType":"b","payload": `+sent+` }`).status(201)
		if got := recordIn(t, r.raw).Payload.Payload; string(got) != sent {
			t.Errorf("payload %d came back at once as %.200s, was %.200s", i, got, sent)
		}
	}
	var chain struct{ Records []json.RawMessage }
	acme.do(t, "GET /v1/chain", "").status(200).into(&chain)
	for i, sent := range payloads {
		var proof struct{ Record json.RawMessage }
		acme.do(t, fmt.Sprintf("GET /v1/proof/%d", i), "").status(200).into(&proof)
		for where, raw := range map[string]json.RawMessage{"chain": chain.Records[i], "proof": proof.Record} {
			if got := recordIn(t, raw).Payload.Payload; string(got) != sent {
				t.Errorf("payload %d came back in a %s as %.200s, was %.200s", i, where, got, sent)
			}
		}
	}
	acme.checkChain(t)
}

// A payload that RFC 8785 cannot represent without loss is refused with its place as a JSON
// Pointer, and never changed silently.
func TestPayloadRefused(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	s := start(t, func(c *server.Config) { c.MaxBody = 4096 })
	acme := s.company(t, "acme")
	attest := func(does, payload, pointer string) row {
		return row{
			does: does, as: acme, call: "POST /v1/attest", body: `{"agentId":"a","actionType":"b","payload":` + payload + `}`,
			status: 400, gets: `{"error":"…\"` + pointer + `\"…"}`,
		}
	}
	rows := []row{
		attest("an integer that no double holds", `12345678901234567890`, "/payload"),
		attest("the first integer that no double holds", `{"n":9007199254740993}`, "/payload/n"),
		attest("a number too large", `[0,1e400]`, "/payload/1"),
		attest("a negative number too large", `-1e309`, "/payload"),
		attest("a number too small", `{"a":{"b":[1e-400]}}`, "/payload/a/b/0"),
		attest("more digits than a double has", `3.14159265358979323846`, "/payload"),
		attest("a key twice", `{"a":1,"a":2}`, "/payload/a"),
		attest("a key twice, far inside", `[{},{"x":{"k":1,"l":2,"k":1}}]`, "/payload/1/x/k"),
		attest("a key twice, spelt in two ways", `{"a":1,"\u0061":1}`, "/payload/a"),
		attest("a key that a pointer must escape, twice", `{"a/b~c":1,"a/b~c":1}`, "/payload/a~1b~0c"),
		attest("a lone surrogate", `"\ud800"`, "/payload"),
		attest("a lone low surrogate", `["x","\udc00"]`, "/payload/1"),
		attest("surrogates in the wrong order", `{"s":"\ude00\ud83d"}`, "/payload/s"),
		attest("bytes that are not UTF-8", "{\"a\":\"\xff\"}", "/payload/a"),
		attest("a surrogate in UTF-8", "[\"\xed\xa0\x80\"]", "/payload/0"),
		attest("an overlong form", "\"\xc0\xaf\"", "/payload"),
	}
	for _, r := range []struct{ does, payload string }{
		{"nesting deeper than 128", nested(129)},
		{"nesting far deeper", strings.Repeat("[", 1500) + strings.Repeat("]", 1500)},
		{"no value", ``}, {"a value that breaks off", `[1`}, {"two values", `1 2`}, {"a leading zero", `01`}, {"a comma too many", `[1,]`},
		{"NaN", `NaN`}, {"a single quote", `'a'`}, {"a comment", `/**/1`}, {"a raw line break in a string", "\"\n\""}, {"an unknown escape", `"\x41"`},
		{"a byte order mark", "\ufeff1"}, {"a plus", `+1`}, {"a bare point", `.5`},
	} {
		row := attest(r.does, r.payload, "")
		row.gets = `{"error":"…"}`
		rows = append(rows, row)
	}
	big := row{
		does: "a body over the limit", as: acme, call: "POST /v1/attest", status: 413, gets: `{"error":"…"}`,
		body: `{"agentId":"a","actionType":"b","payload":"` + strings.Repeat("x", 4097) + `"}`,
	}
	agent := row{does: "a lone surrogate in agentId", as: acme, call: "POST /v1/attest", status: 400, gets: `{"error":"…/agentId…"}`, body: `{"agentId":"\ud800","actionType":"b","payload":1}`}
	twice := row{does: "payload twice", as: acme, call: "POST /v1/attest", status: 400, gets: `{"error":"…/payload…"}`, body: `{"agentId":"a","actionType":"b","payload":1,"payload":1}`}
	respelt := row{
		does: "2^64, a double whose canonical form has other digits", as: acme, call: "POST /v1/attest", status: 400,
		body: `{"agentId":"a","actionType":"b","payload":[18446744073709551616]}`,
		gets: `{"error":"Malformed JSON at \"/payload/0\": number 18446744073709551616 is an IEEE 754 double whose canonical form has other digits, 18446744073709552000; send those, or send it as a string"}`,
	}
	none := row{does: "nothing of all this was recorded", as: acme, call: "GET /v1/chain", status: 200, gets: `{"records":[]}`}
	table(t, append(rows, big, agent, twice, respelt, none))

	// The limit counts bytes: a body of exactly that size is accepted.
	body := `{"agentId":"a","actionType":"b","payload":"` + strings.Repeat("x", 4096)
	body = body[:4096-2] + `"}`
	acme.do(t, "POST /v1/attest", body).status(201)
}

// nested returns an array nested n deep.
func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }
