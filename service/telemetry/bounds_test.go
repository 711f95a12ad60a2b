package telemetry

import (
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"attestd/crypto/jcs"
)

// attributesOf returns the attributes of the record of a span with these.
func attributesOf(t testing.TB, o Options, attributes ...string) string {
	t.Helper()
	attributes = append(attributes, text("gen_ai.operation.name", "chat"))
	lines, _ := recorded(t, Traces, span(`"name":"x","attributes":[`+strings.Join(attributes, ",")+`]`), o)
	_, inner, _ := strings.Cut(lines[0], `"attributes":`)
	inner, _, _ = strings.Cut(inner, `,"gen_ai.operation.name"`)
	return strings.TrimPrefix(inner, "{")
}

// What may be content is hashed: by its name, its length or its form. Numbers and metadata are not.
func TestContentIsHashed(t *testing.T) {
	t.Parallel()
	list := func(key, values string) string {
		return `{"key":"` + key + `","value":{"arrayValue":{"values":[` + values + `]}}}`
	}
	for _, c := range []struct {
		attribute string
		hashed    bool
	}{
		{text("gen_ai.prompt.0.content", "a"), true},
		{text("gen_ai.input.messages", "a"), true},
		{text("input.value", "a"), true},
		{text("ai.toolCall.args", "a"), true},
		{text("pydantic_ai.all_messages", "a"), true},
		{text("ToolArguments", "a"), true},
		{text("db.query.text", "a"), true},
		{text("user-message", "a"), true},
		{text("exception.stacktrace", "a"), true},
		{text("prompt_tokens", "a"), true},
		{text("gen_ai.request.model", strings.Repeat("a", 257)), true},
		{list("tags", `{"kvlistValue":{}}`), true},
		{list("tags", `{"arrayValue":{}}`), true},
		{list("tags", `{"stringValue":"`+strings.Repeat("a", 200)+`"},{"stringValue":"`+strings.Repeat("a", 57)+`"}`), true},
		{list("stop.messages", `{"stringValue":"a"}`), true},
		{`{"key":"b","value":{"bytesValue":"YQ=="}}`, true},
		{`{"key":"input.value","value":{"intValue":7}}`, false},
		{text("prompt_tokens", "12"), false},
		{text("gen_ai.request.model", "a"), false},
		{text("gen_ai.response.id", "a"), false},
		{text("input.mime_type", "a"), false},
		{text("error.type", "a"), false},
		{text("customer.tier", "gold"), false},
		{text("messaging.system", "kafka"), false},
		{list("tags", `{"stringValue":"a"},{"intValue":1}`), false},
	} {
		for _, keep := range []bool{false, true} {
			if got := attributesOf(t, Options{RecordContent: keep}, c.attribute); strings.Contains(got, `"sha256"`) != (c.hashed && !keep) {
				t.Errorf("%s, kept: %v: %s", c.attribute, keep, got)
			}
		}
	}
}

// Secrets are masked although content is recorded, and under the names of secrets whatever they
// hold.
func TestTelemetrySecretsAreMasked(t *testing.T) {
	t.Parallel()
	for _, attribute := range []string{
		text("note", "Authorization: Bearer hunter2hunter2"),
		text("tool.arguments", `{"password":"hunter2"}`),
		text("http.request.header.authorization", "hunter2"),
		`{"key":"session_token","value":{"intValue":"2222222"}}`,
		`{"key":"credentials","value":{"kvlistValue":{"values":[{"key":"a","value":{"stringValue":"hunter2"}}]}}}`,
		`{"key":"env","value":{"kvlistValue":{"values":[{"key":"DB_PASSWORD","value":{"stringValue":"hunter2"}}]}}}`,
		`{"key":"argv","value":{"arrayValue":{"values":[{"stringValue":"--password"},{"stringValue":"hunter2"}]}}}`,
		text("https://u:hunter2@host/", "x"),
	} {
		got := attributesOf(t, Options{RecordContent: true}, attribute)
		if strings.Contains(got, "hunter2") || strings.Contains(got, "2222222") || !strings.Contains(got, "[masked") {
			t.Errorf("%s: %s", attribute, got)
		}
	}
	lines, _ := recorded(t, Traces, span(`"name":"curl -u a:hunter2","traceState":"a=sk-a7Bd9fGh1jKl3nOp5rSt","status":{"message":"token=hunter2"},`+
		`"attributes":[`+text("gen_ai.tool.call.id", "password=hunter2")+`]`), Options{RecordContent: true})
	if strings.Contains(lines[0], "hunter2") || strings.Contains(lines[0], "sk-a7") {
		t.Error(lines[0])
	}
}

// A large resource is in no record whole: many spans of it take no more memory and disk than they
// are.
func TestLargeResourcesAreBounded(t *testing.T) {
	t.Parallel()
	large := strings.Repeat(text("a", strings.Repeat("b ", 100))+",", 100)
	one := `{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","attributes":[` + text("gen_ai.operation.name", "chat") + `]}`
	export := `{"resourceSpans":[{"resource":{"attributes":[` + large + text("service.name", "a") + `]},"scopeSpans":[{"scope":{"name":"s","attributes":[` + large + text("z", "z") + `]},"spans":[` + one + `]}]}]}`
	lines, _ := recorded(t, Traces, export, Options{})
	if len(lines[0]) > 4<<10 || strings.Count(lines[0], `"bytes":`) != 2 {
		t.Errorf("%d bytes: %.600s", len(lines[0]), lines[0])
	}
}

// Whatever is sent, in either encoding, decoding ends within its bounds, and what is recorded has a
// canonical form. The same export gives the same records.
func FuzzDecode(f *testing.F) {
	seed := span(`"name":"x","links":[{"traceId":"5b8efff798038103d269b633813fc60c"}],"events":[{"name":"e"}],"attributes":[` + text("gen_ai.prompt", "a") + `,{"key":"k","value":{"kvlistValue":{"values":[{"key":"a"},{"key":"a","value":{"doubleValue":1e300}}]}}}]`)
	f.Add(true, []byte(seed))
	f.Add(true, []byte(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"\ud800"},"timeUnixNano":"18446744073709551615"}]}]}]}`))
	export, err := Decode(Traces, JSON, []byte(seed))
	if err != nil {
		f.Fatal(err)
	}
	wire, err := proto.Marshal(export.traces)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(false, wire)
	f.Add(false, []byte("\x0a\x02\x12\x00\x0b\x0c"))
	f.Fuzz(func(t *testing.T, isJSON bool, raw []byte) {
		in := map[bool]Encoding{true: JSON, false: Protobuf}[isJSON]
		for _, signal := range []Signal{Traces, Logs} {
			messages, err := Weigh(signal, in, raw)
			if err != nil {
				continue
			}
			export, err := Decode(signal, in, raw)
			if err != nil {
				if reason := Reason(err); reason == "" || len(reason) > 210 {
					t.Fatalf("%q", reason)
				}
				continue
			}
			for _, o := range []Options{{}, {Agent: "a", All: true, RecordContent: true}} {
				first, second := NewRecorder(o), NewRecorder(o)
				items := export.Select(o)
				if in == Protobuf && len(items) > messages {
					t.Fatalf("%d items of %d messages", len(items), messages)
				}
				for i := range items {
					if items[i].Refused != "" {
						continue
					}
					one, two := first.Record(&items[i]), second.Record(&items[i])
					if one.Key != two.Key || string(one.Payload) != string(two.Payload) || one.Key == "" {
						t.Fatalf("%+v %+v", one, two)
					}
					if _, err := jcs.Append(nil, one.Payload, 128); err != nil || !json.Valid(one.Payload) {
						t.Fatal(err, string(one.Payload))
					}
				}
			}
		}
	})
}
