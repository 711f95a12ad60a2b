package server_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"attestd/crypto/jose"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/server/limit"
)

const (
	exportTraces = "POST /v1/otlp/v1/traces"
	exportLogs   = "POST /v1/otlp/v1/logs"
	asJSON       = "Content-Type: application/json"
	asProtobuf   = "Content-Type: application/x-protobuf"
	gzipped      = "Content-Encoding: gzip"
)

// attribute is an attribute of OTLP with a text, and a comma.
func attribute(name, value string) string {
	quoted, _ := json.Marshal(value)
	return `{"key":"` + name + `","value":{"stringValue":` + string(quoted) + `}},`
}

// chat is a span of a model's with a number as its ID, and more attributes.
func chat(n int, attributes ...string) string {
	return fmt.Sprintf(`{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"%016x","name":"chat gpt-4o","startTimeUnixNano":"1793437200000000000",`+
		`"attributes":[%s{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}}]}`, n, strings.Join(attributes, ""))
}

// spans is an export of spans of a service.
func spans(service string, list ...string) string {
	return `{"resourceSpans":[{"resource":{"attributes":[` + strings.TrimSuffix(attribute("service.name", service), ",") + `]},"scopeSpans":[{"spans":[` + strings.Join(list, ",") + `]}]}]}`
}

// logs is an export of log records of a service.
func logRecords(service string, list ...string) string {
	return `{"resourceLogs":[{"resource":{"attributes":[` + strings.TrimSuffix(attribute("service.name", service), ",") + `]},"scopeLogs":[{"logRecords":[` + strings.Join(list, ",") + `]}]}]}`
}

// wire is an export of spans as protobuf. Its IDs are hexadecimal, so they become others there.
func wire(t testing.TB, export string) string {
	t.Helper()
	var data tracepb.TracesData
	must.OK(t, protojson.Unmarshal([]byte(export), &data))
	for _, of := range data.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			for _, span := range scope.Spans {
				span.TraceId, span.SpanId = span.TraceId[:16], append(make([]byte, 0, 8), span.SpanId[4:]...)
			}
		}
	}
	raw, err := proto.Marshal(&data)
	must.OK(t, err)
	return string(raw)
}

func zipped(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	must.OK(t, err)
	must.OK(t, w.Close())
	return b.String()
}

// partial is the content of partial_success in a protobuf answer.
func (r *reply) partial() (refused uint64, why string) {
	r.t.Helper()
	r.status(200).sets("Content-Type: application/x-protobuf")
	inner, n := protowire.ConsumeBytes(r.raw[1:])
	if r.raw[0] != 1<<3|2 || n != len(r.raw)-1 || inner[0] != 1<<3 {
		r.t.Fatalf("%x", r.raw)
	}
	refused, n = protowire.ConsumeVarint(inner[1:])
	text, m := protowire.ConsumeBytes(inner[n+2:])
	if m != len(inner)-n-2 || inner[n+1] != 2<<3|2 {
		r.t.Fatalf("%x", r.raw)
	}
	return refused, string(text)
}

// rpcStatus is the content of google.rpc.Status in a protobuf answer.
func (r *reply) rpcStatus(status int) (code uint64, message string) {
	r.t.Helper()
	r.status(status).sets("Content-Type: application/x-protobuf")
	code, n := protowire.ConsumeVarint(r.raw[1:])
	text, m := protowire.ConsumeBytes(r.raw[n+2:])
	if r.raw[0] != 1<<3 || r.raw[n+1] != 2<<3|2 || m != len(r.raw)-n-2 {
		r.t.Fatalf("%x", r.raw)
	}
	return code, string(text)
}

// An export is recorded once in each encoding, compressed or not, however often it is sent.
func TestExportIsRecordedOnce(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme").create(t, "writer", "")
	for range 3 {
		acme.do(t, exportTraces, spans("a", chat(1)), asJSON).gets(200, `{}`)
		acme.do(t, exportTraces, zipped(t, spans("a", chat(1), chat(2))), asJSON, gzipped).gets(200, `{}`)
		for _, r := range []*reply{
			acme.do(t, exportTraces, wire(t, spans("b", chat(1<<36), chat(2<<36))), asProtobuf),
			acme.do(t, exportTraces, zipped(t, wire(t, spans("b", chat(2<<36), chat(3<<36)))), asProtobuf, gzipped),
		} {
			if r.status(200).sets("Content-Type: application/x-protobuf"); len(r.raw) > 0 {
				t.Errorf("%x", r.raw)
			}
		}
		// without a media type it is JSON, as everywhere
		acme.do(t, exportLogs, logRecords("a", `{"timeUnixNano":"1","body":{"stringValue":"claude_code.tool_result"}}`)).gets(200, `{}`)
		acme.do(t, exportTraces, `{}`, asJSON).gets(200, `{}`)
	}
	var got []string
	for _, line := range acme.hooked(t) {
		got = append(got, strings.Join(strings.Fields(line)[:2], " "))
	}
	compare(t, got, []string{"a otel.model", "a otel.model", "b otel.model", "b otel.model", "b otel.model", "a otel.tool"})
	acme.checkChain(t)
}

// Equal log records of one export are as many records, and the same ones when it is sent again.
// Records that differ in their time alone are different ones.
func TestExportedLogRecordsThatAreEqual(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	event := func(at int) string {
		return fmt.Sprintf(`{"timeUnixNano":"%d","traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","eventName":"gen_ai.choice"}`, at)
	}
	for range 2 {
		acme.do(t, exportLogs, logRecords("a", event(1), event(2), event(1)), asJSON).gets(200, `{}`)
	}
	if got := acme.hooked(t); len(got) != 3 || got[0] != got[2] || got[0] == got[1] {
		t.Errorf("%q", got)
	}
}

// Other content under the same trace ID and span ID hides nothing: it is a record of its own, once,
// be it in one export or in two.
func TestExportedIDsTwice(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	first, second, third := chat(1, attribute("n", "1")), chat(1, attribute("n", "2")), chat(1, attribute("n", "3"))
	for _, export := range []string{spans("a", first, chat(2), first, second), spans("a", second, third), spans("a", third, first)} {
		for range 2 {
			acme.do(t, exportTraces, export, asJSON).gets(200, `{}`)
		}
	}
	got := acme.hooked(t)
	for i, want := range []string{`"n":"1"`, `"spanId":"0000000000000002"`, `"n":"2"`, `"n":"3"`} {
		if len(got) != 4 || !strings.Contains(got[i], want) {
			t.Fatalf("%s\nwant %s", strings.Join(got, "\n"), want)
		}
	}
}

// The agent is the one of the query, else the one that the span names, else that of its resource,
// else its service. One without any is refused.
func TestExportedAgents(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	named := func(n int) string {
		return chat(n, attribute("gen_ai.agent.name", "by-name"), attribute("gen_ai.agent.id", "by-id"))
	}
	acme.do(t, exportTraces+"?agent=query", spans("service", named(1)), asJSON).gets(200, `{}`)
	acme.do(t, exportTraces, spans("service", named(2), chat(3, attribute("gen_ai.agent.name", "by-name")), chat(4)), asJSON).gets(200, `{}`)
	acme.do(t, exportTraces, spans("service", chat(5)[:len(chat(5))-1]+`,"x":1}`), asJSON).gets(200, `{}`)
	acme.do(t, exportTraces, `{"resourceSpans":[{"scopeSpans":[{"spans":[`+chat(6)+`]}]}]}`, asJSON).
		gets(200, `{"partialSuccess":{"rejectedSpans":"1","errorMessage":"1 refused: no agent is named: set OTEL_SERVICE_NAME, or ?agent="}}`)
	acme.do(t, exportTraces, spans(strings.Repeat("x", 257), chat(7)), asJSON).
		gets(200, `{"partialSuccess":{"rejectedSpans":"1","errorMessage":"1 refused: the name of the agent must have 1 to 256 characters"}}`)
	var got []string
	for _, line := range acme.hooked(t) {
		got = append(got, strings.Fields(line)[0])
	}
	compare(t, got, []string{"query", "by-id", "by-name", "service", "service"})
}

// What may not be recorded is refused by partial_success, with its number and reason; the rest is
// recorded. What was recorded before it was forbidden stays acknowledged.
func TestExportPartialSuccess(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	for _, agent := range []string{"off", "signs"} {
		acme.agent(t, agent)
	}
	acme.do(t, exportTraces+"?agent=off", spans("x", chat(1)), asJSON).gets(200, `{}`)
	acme.do(t, "POST /v1/agents/off/disable", "").status(200)
	acme.do(t, "PUT /v1/agents/signs/policy", `{"attest":"key"}`).status(200)
	by := func(agent string, n int) string { return chat(n, attribute("gen_ai.agent.name", agent)) }
	other := `{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"00000000000000ff","name":"GET /"}`

	acme.do(t, exportTraces+"?agent=off", spans("x", chat(1)), asJSON).gets(200, `{}`)
	acme.do(t, exportTraces, spans("on", by("off", 1), by("on", 2), by("signs", 3), by("off", 4), by("on", 5), other), asJSON).gets(200,
		`{"partialSuccess":{"rejectedSpans":"4","errorMessage":"2 refused: Agent is disabled: off; `+
			`1 refused: not of an agent, a model or a tool: ?all=true records them too; `+
			`1 refused: the agent must sign what it does with its own key (AGENT_KEY_REQUIRED), and telemetry is not signed"}}`)
	acme.do(t, exportLogs, logRecords("on", `{"body":{"stringValue":"x"}}`), asJSON).gets(200, `{"partialSuccess":{"rejectedLogRecords":"1","errorMessage":"…"}}`)
	if n, why := acme.do(t, exportTraces, wire(t, spans("off", chat(1<<36), chat(2<<36))), asProtobuf).partial(); n != 2 || why != "2 refused: Agent is disabled: off" {
		t.Errorf("%d %s", n, why)
	}
	// another company's agents of the same names are its own
	globex.do(t, exportTraces, spans("on", by("off", 1), by("signs", 2)), asJSON).gets(200, `{}`)
	var got []string
	for _, line := range acme.hooked(t) {
		got = append(got, strings.Fields(line)[0])
	}
	compare(t, got, []string{"off", "on", "on"})
	if n := len(globex.hooked(t)); n != 2 {
		t.Errorf("%d records of globex", n)
	}
}

// Many agents in one export that may not act are found at once: their refusals cost what so many
// look-ups cost, and not as many attempts to append.
func TestExportOfManyForbiddenAgents(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	acme := start(t).company(t, "acme")
	var list []string
	for i := range 700 {
		list = append(list, chat(i+1, attribute("gen_ai.agent.name", "on")))
	}
	for i := range 200 {
		agent := fmt.Sprint("off-", i)
		acme.agent(t, agent)
		acme.do(t, "POST /v1/agents/"+agent+"/disable", "").status(200)
		list = append(list, chat(1000+i, attribute("gen_ai.agent.name", agent)))
	}
	acme.do(t, exportTraces, spans("x", list...), asJSON).gets(200, `{"partialSuccess":{"rejectedSpans":"200","errorMessage":"1 refused: Agent is disabled: off-0; … and 195 other reasons"}}`)
	if n := len(acme.hooked(t)); n != 700 {
		t.Errorf("%d records", n)
	}
}

// A credential that is one agent's own records in its name, whatever an item names, and in no
// other.
func TestAgentExportsForItself(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	bot := acme.signer(t, "bot", jose.EdDSA)
	own := bot.signsIn(t)
	own.do(t, exportTraces, spans("service", chat(1, attribute("gen_ai.agent.name", "other"))), asJSON).gets(200, `{}`)
	own.do(t, exportTraces+"?agent=other", spans("service", chat(2)), asJSON).gets(200, `{"partialSuccess":{"rejectedSpans":"1","errorMessage":"1 refused: The credential is the agent bot's own, and acts for no other"}}`)
	if got := acme.hooked(t); len(got) != 1 || !strings.HasPrefix(got[0], "bot otel.model ") {
		t.Errorf("%q", got)
	}
}

// No other caller can preempt the record of a span: not by an idempotency key, and not by the same
// span.
func TestExportKeysCannotBePreempted(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	ours, theirs := acme.create(t, "writer", ""), acme.create(t, "writer", "")
	for i, key := range []string{"span:5b8efff798038103d269b633813fc60c:0000000000000001:a", "5b8efff798038103d269b633813fc60c0000000000000001"} {
		theirs.do(t, "POST /v1/attest", fmt.Sprintf(`{"agentId":"a","actionType":"otel.model","payload":%d}`, i), "Idempotency-Key: "+key).status(201)
	}
	theirs.do(t, exportTraces, spans("a", chat(1, attribute("by", "them"))), asJSON).gets(200, `{}`)
	theirs.do(t, exportTraces, spans("a", chat(2)), asJSON).gets(200, `{}`)
	before := len(acme.hooked(t))
	for range 2 {
		ours.do(t, exportTraces, spans("a", chat(1), chat(2)), asJSON).gets(200, `{}`)
	}
	if n := len(acme.hooked(t)) - before; n != 2 {
		t.Errorf("%d records", n)
	}
}

// A record counts as one that is attested. An export over the limit is tried again later, and one
// that no minute allows is refused with what to do.
func TestExportCounts(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t, limits(limit.Limits{Sensitive: 1000, Attest: 5, Standard: 1000}))
	acme := s.company(t, "acme")
	acme.do(t, exportTraces, spans("a", chat(1), chat(2), chat(3), `{"name":"left out"}`), asJSON).status(200).limited(5, 2)
	r := acme.do(t, exportTraces, spans("a", chat(4), chat(5), chat(6)), asJSON).gets(429, `{"code":8,"message":"Too Many Requests","error":"Too Many Requests"}`)
	if r.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	if code, _ := acme.do(t, exportTraces, wire(t, spans("a", chat(1<<36), chat(2<<36), chat(3<<36))), asProtobuf).rpcStatus(429); code != 8 {
		t.Error(code)
	}
	acme.do(t, exportTraces, spans("a", chat(1), chat(2), chat(3), chat(4), chat(5), chat(6)), asJSON).
		gets(400, `{"code":3,"message":"An export of 6 records is more than the 5 …","error":"…"}`)
	if n := len(acme.hooked(t)); n != 3 {
		t.Errorf("%d records", n)
	}
}

// An export for which there is no room is refused before it is unpacked, and can be sent again.
func TestExportIsChargedBeforeItIsUnpacked(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t, func(c *server.Config) { c.Budgets.Bodies = limit.Size{Most: 256 << 10, Share: 256 << 10} })
	acme := s.company(t, "acme")
	bomb := zipped(t, strings.Repeat(" ", 2<<20))
	r := acme.do(t, exportTraces, bomb, asJSON, gzipped).gets(503, `{"code":14,"message":"Service Unavailable: the request buffers are full; try again later (NOT_DONE)","error":"…"}`)
	if r.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After %q", r.header.Get("Retry-After"))
	}
	acme.do(t, exportTraces, spans("a", chat(1)), asJSON).gets(200, `{}`)
}
