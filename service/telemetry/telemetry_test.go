package telemetry

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"attestd/crypto/jcs"
)

// recorded returns what becomes of an export in JSON: each item's agent, action and payload, or why
// it is refused. The same export as protobuf must give the same.
func recorded(t testing.TB, s Signal, text string, o Options) (lines []string, records []Record) {
	t.Helper()
	lines, records = decoded(t, s, JSON, []byte(text), o)
	export, err := Decode(s, JSON, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	message := proto.Message(export.traces)
	if s == Logs {
		message = export.logs
	}
	wire, err := proto.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := decoded(t, s, Protobuf, wire, o); strings.Join(again, "\n") != strings.Join(lines, "\n") {
		t.Errorf("as protobuf\n%s\nand as JSON\n%s", strings.Join(again, "\n"), strings.Join(lines, "\n"))
	}
	return lines, records
}

func decoded(t testing.TB, s Signal, in Encoding, raw []byte, o Options) (lines []string, records []Record) {
	t.Helper()
	if _, err := Weigh(s, in, raw); err != nil {
		t.Fatal(err)
	}
	export, err := Decode(s, in, raw)
	if err != nil {
		t.Fatal(err)
	}
	recorder := NewRecorder(o)
	items := export.Select(o)
	for i := range items {
		if refused := items[i].Refused; refused != "" {
			lines, records = append(lines, "refused: "+refused), append(records, Record{})
			continue
		}
		r := recorder.Record(&items[i])
		if _, err := jcs.Append(nil, r.Payload, 128); err != nil {
			t.Fatalf("%v\n%s", err, r.Payload)
		}
		lines, records = append(lines, items[i].Agent+" "+r.ActionType+" "+string(r.Payload)), append(records, r)
	}
	return lines, records
}

// shortened cuts each hash to its first four digits.
func shortened(text string) string {
	parts := strings.Split(text, `"sha256":"`)
	for i := range parts[1:] {
		parts[i+1] = parts[i+1][:4] + parts[i+1][64:]
	}
	return strings.Join(parts, `"sha256":"`)
}

// span returns an export of one span with these members and its IDs and times.
func span(members string) string {
	return `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},"scopeSpans":[{"scope":{"name":"lib","version":"1.2"},"spans":[` +
		`{"traceId":"5B8EFFF798038103D269B633813FC60C","spanId":"eee19b7ec3c1b174","startTimeUnixNano":"1544712660000000001","endTimeUnixNano":1544712661250000000,` + members + `}]}]}]}`
}

func text(key, value string) string {
	quoted, _ := json.Marshal(value)
	return `{"key":"` + key + `","value":{"stringValue":` + string(quoted) + `}}`
}

// The captured exports of testdata become these records. Each file has the export, and behind a
// line of dashes what becomes of it.
func TestCapturedExports(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		signal  Signal
		options Options
	}{
		"genai": {}, "genai_keep": {options: Options{RecordContent: true}}, "openinference": {}, "openllmetry": {}, "mixed": {}, "mixed_all": {options: Options{All: true, Agent: "bot"}},
		"gemini_spans": {}, "gemini_logs": {signal: Logs}, "codex": {signal: Logs},
		"claude_code": {signal: Logs}, "claude_code_keep": {signal: Logs, options: Options{RecordContent: true}}, "genai_events": {signal: Logs},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, err := os.ReadFile("testdata/" + name + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			export, want, _ := strings.Cut(string(file), "\n----\n")
			lines, _ := recorded(t, c.signal, export, c.options)
			got := shortened(strings.Join(lines, "\n")) + "\n"
			if got != want {
				t.Errorf("got\n%swant\n%s", got, want)
				if os.Getenv("UPDATE") != "" {
					_ = os.WriteFile("testdata/"+name+".txt", []byte(export+"\n----\n"+got), 0o600)
				}
			}
		})
	}
}
