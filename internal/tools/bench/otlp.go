package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// spansInExport is the default of OTEL_BSP_MAX_EXPORT_BATCH_SIZE.
const spansInExport = 512

// otlp measures exports of spans, as protobuf and JSON, by two exporters, in turns with batches of
// as many records of the same payload, under an idempotency key each, as spans have one too.
func (b *bench) otlp(ctx context.Context) (err error) {
	server, t, err := b.serveTenant(ctx, "otlp.db")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	var next atomic.Uint64
	next.Store(1)
	export := spanExport(t)
	if _, err := ask(ctx, server.addr, export.request(&next), 200, nil); err != nil {
		return err
	}
	var list struct {
		Records []struct {
			Payload struct{ Payload json.RawMessage }
		}
	}
	if _, err := ask(ctx, server.addr, request("GET", "/v1/chain?limit=1", t.key, "", ""), 200, &list); err != nil {
		return err
	}
	if len(list.Records) != 1 {
		return fmt.Errorf("an export of %d spans made no record", spansInExport)
	}
	same, small := recordBatch(t, list.Records[0].Payload.Payload), recordBatch(t, []byte("1"))

	rounds, each := pick(b.quick, 3, 7), pick(b.quick, 300*time.Millisecond, 3*time.Second)
	for _, c := range []struct {
		name    string
		subject *template
		against *template
		target  *target
	}{
		{"÷ batches of the same payloads", export, same, atLeast(0.5)},
		{"as JSON ÷ batches of the same payloads", spanExportJSON(t), same, nil},
		{"÷ batches of small payloads", export, small, nil},
	} {
		b.say("exports %s", c.name)
		subject := &side{child: server, status: 200, request: func(int) []byte { return c.subject.request(&next) }}
		reference := &side{child: server, status: 201, request: func(int) []byte { return c.against.request(&next) }}
		for _, s := range []*side{subject, reference} {
			if s.clients, err = connect(ctx, server.addr, 2); err != nil {
				return err
			}
			defer hangUp(s.clients)
		}
		r, err := compare(ctx, subject, reference, rounds, each)
		if err != nil {
			return fmt.Errorf("exports %s: %w", c.name, err)
		}
		if c.target != nil {
			b.report.add("otlp", "2 exporters", "spans/s", r.perSecond*spansInExport, perSecond, atLeast(10_000))
			if r.hasCPU {
				b.report.add("otlp", "2 exporters", "  server processor time a span", perSpan(r.cpu), micro, nil)
				b.report.add("otlp", "2 exporters", "  the same of a record in a batch", perSpan(r.bareCPU), micro, nil)
			}
		}
		b.report.addRounds("otlp", "2 exporters", "  "+c.name, r.ratios, c.target)
	}
	return nil
}

// perSpan returns the share of one span in the time of an export, in microseconds.
func perSpan(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) / spansInExport }

// template is a request with numbers to fill in, each of 16 hexadecimal digits or 8 bytes, and the
// times at which spans start, of 19 digits or 8 bytes.
type template struct {
	text   []byte
	places []int
	starts []int
	binary bool
}

// request returns the request with the next numbers. It may be called concurrently.
func (t *template) request(next *atomic.Uint64) []byte {
	filled := bytes.Clone(t.text)
	first := next.Add(uint64(len(t.places)))
	for i, place := range t.places {
		if n := first + uint64(i); t.binary {
			binary.BigEndian.PutUint64(filled[place:], n)
		} else {
			copy(filled[place:], fmt.Sprintf("%016x", n))
		}
	}
	now := uint64(time.Now().UnixNano())
	for i, place := range t.starts {
		if t.binary {
			binary.LittleEndian.PutUint64(filled[place:], now+uint64(i))
		} else {
			strconv.AppendUint(filled[place:place], now+uint64(i), 10)
		}
	}
	return filled
}

const (
	placeholder = "@@@@@@@@@@@@@@@@"
	nanoseconds = "@nanoseconds_______"
)

// all returns the places of a text in a longer one.
func all(text []byte, of string) (places []int) {
	for at := 0; ; at += len(of) {
		n := bytes.Index(text[at:], []byte(of))
		if n < 0 {
			return places
		}
		at += n
		places = append(places, at)
	}
}

// recordBatch is a batch of as many records as an export has spans.
func recordBatch(t tenant, payload []byte) *template {
	item := `{"agentId":"travel-bot","actionType":"otel.model","payload":` + string(payload) + `,"idempotencyKey":"` + placeholder + `"}`
	text := request("POST", "/v1/attest/batch", t.key, jsonType, `{"records":[`+strings.TrimSuffix(strings.Repeat(item+",", spansInExport), ",")+`]}`)
	return &template{text: text, places: all(text, placeholder)}
}

// spanAttributes are what instrumentation of a model's client says of a request.
var spanAttributes = [][2]string{
	{"gen_ai.operation.name", "chat"}, {"gen_ai.provider.name", "openai"}, {"gen_ai.agent.name", "travel-bot"}, {"gen_ai.request.model", "gpt-4o"},
	{"gen_ai.response.model", "gpt-4o-2024-08-06"}, {"gen_ai.response.id", "chatcmpl-CDyq1"}, {"gen_ai.conversation.id", "conv_5j66UpCpwteGg4YSxUnt7lPY"},
	{"server.address", "api.openai.com"}, {"gen_ai.input.messages", `[{"role":"user","parts":[{"type":"text","content":"Weather in Paris?"}]}]`},
	{"gen_ai.output.messages", `[{"role":"assistant","parts":[{"type":"text","content":"Rain."}]}]`},
}

// spanExport is an export of spans as protobuf, each with its own ID.
func spanExport(t tenant) *template {
	field := func(number byte, content []byte) []byte {
		return append(binary.AppendUvarint([]byte{number<<3 | 2}, uint64(len(content))), content...)
	}
	fixed := func(number byte, n uint64) []byte { return binary.LittleEndian.AppendUint64([]byte{number<<3 | 1}, n) }
	attribute := func(key, value string) []byte {
		return append(field(1, []byte(key)), field(2, field(1, []byte(value)))...)
	}
	span := bytes.Join([][]byte{
		field(1, []byte("0123456789abcdef")), field(2, []byte(placeholder[:8])), field(4, []byte("parentid")), field(5, []byte("chat gpt-4o")), {6 << 3, 3},
		{7<<3 | 1}, []byte("nanosecs"), fixed(8, uint64(time.Now().UnixNano())+60_000_000_000),
	}, nil)
	for _, a := range spanAttributes {
		span = append(span, field(9, attribute(a[0], a[1]))...)
	}
	scope := bytes.Repeat(field(2, span), spansInExport)
	resource := field(1, field(1, attribute("service.name", "travel-app")))
	body := field(1, append(resource, field(2, append(field(1, field(1, []byte("opentelemetry.instrumentation.openai_v2"))), scope...))...))
	text := request("POST", "/v1/otlp/v1/traces", t.key, "application/x-protobuf", string(body))
	return &template{text, all(text, placeholder[:8]), all(text, "nanosecs"), true}
}

// spanExportJSON is the same export as JSON.
func spanExportJSON(t tenant) *template {
	var attributes []string
	for _, a := range spanAttributes {
		value, _ := json.Marshal(a[1]) // a string
		attributes = append(attributes, fmt.Sprintf(`{"key":%q,"value":{"stringValue":%s}}`, a[0], value))
	}
	span := fmt.Sprintf(`{"traceId":"%x","spanId":"%s","parentSpanId":"%x","name":"chat gpt-4o","kind":3,"startTimeUnixNano":"%s","endTimeUnixNano":"%d","attributes":[%s]}`,
		"0123456789abcdef", placeholder, "parentid", nanoseconds, time.Now().UnixNano()+60_000_000_000, strings.Join(attributes, ","))
	body := `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"travel-app"}}]},"scopeSpans":[{"scope":{"name":"opentelemetry.instrumentation.openai_v2"},"spans":[` +
		strings.TrimSuffix(strings.Repeat(span+",", spansInExport), ",") + `]}]}]}`
	text := request("POST", "/v1/otlp/v1/traces", t.key, jsonType, body)
	return &template{text, all(text, placeholder), all(text, nanoseconds), false}
}
