package telemetry

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
)

// BenchmarkRecord decodes an export of 512 spans and makes their records.
func BenchmarkRecord(b *testing.B) {
	one := `{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","parentSpanId":"eee19b7ec3c1b173","name":"chat gpt-4o","kind":3,"startTimeUnixNano":"1544712660000000001","endTimeUnixNano":"1544712661250000000","attributes":[` +
		strings.Join([]string{
			text("gen_ai.operation.name", "chat"), text("gen_ai.provider.name", "openai"), text("gen_ai.agent.name", "travel-bot"), text("gen_ai.request.model", "gpt-4o"),
			text("gen_ai.response.model", "gpt-4o-2024-08-06"), text("gen_ai.response.id", "chatcmpl-CDyq1"), text("gen_ai.conversation.id", "conv_5j66UpCpwteGg4YSxUnt7lPY"), text("server.address", "api.openai.com"),
			text("gen_ai.input.messages", `[{"role":"user","parts":[{"type":"text","content":"Weather in Paris?"}]}]`), text("gen_ai.output.messages", `[{"role":"assistant"}]`),
		}, ",") + `]}`
	raw := []byte(`{"resourceSpans":[{"resource":{"attributes":[` + text("service.name", "travel-app") + `]},"scopeSpans":[{"scope":{"name":"lib"},"spans":[` + strings.TrimSuffix(strings.Repeat(one+",", 512), ",") + `]}]}]}`)
	export, err := Decode(Traces, JSON, raw)
	if err != nil {
		b.Fatal(err)
	}
	wire, err := proto.Marshal(export.traces)
	if err != nil {
		b.Fatal(err)
	}
	for name, in := range map[string]Encoding{"protobuf": Protobuf, "JSON": JSON} {
		text := map[Encoding][]byte{Protobuf: wire, JSON: raw}[in]
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Weigh(Traces, in, text); err != nil {
					b.Fatal(err)
				}
				export, err := Decode(Traces, in, text)
				if err != nil {
					b.Fatal(err)
				}
				r := NewRecorder(Options{})
				items := export.Select(Options{})
				for i := range items {
					r.Record(&items[i])
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/512, "µs/span")
		})
	}
}
