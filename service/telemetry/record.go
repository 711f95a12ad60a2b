package telemetry

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"attestd/chain/action"
	"attestd/crypto/jcs"
)

// Record is the attested form of an item.
type Record struct {
	action.Record
	// the time of the item, by which keys of about one time are stored together
	UnixNano uint64
}

// Recorder makes the records of one export, in the order of its items.
type Recorder struct {
	writer *writer
	equal  map[[sha256.Size]byte]int // how many equal log records there were
}

// NewRecorder returns a Recorder for an export.
func NewRecorder(o Options) *Recorder {
	return &Recorder{writer: newWriter(o.RecordContent), equal: map[[sha256.Size]byte]int{}}
}

// Record returns the record of an item that is not refused.
func (r *Recorder) Record(i *Item) Record {
	if i.log != nil {
		payload := r.log(i)
		sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s%s%s", len(i.Agent), i.Agent, i.Action, payload))
		key := "log:" + hex.EncodeToString(sum[:]) + ":" + strconv.Itoa(r.equal[sum])
		r.equal[sum]++
		return Record{action.Record{ActionType: i.Action, Payload: payload, Key: key}, max(i.log.GetTimeUnixNano(), i.log.GetObservedTimeUnixNano())}
	}
	key := fmt.Sprintf("span:%x:%x:%s", i.span.GetTraceId(), i.span.GetSpanId(), i.Agent)
	return Record{action.Record{ActionType: i.Action, Payload: r.span(i), Key: key}, i.span.GetStartTimeUnixNano()}
}

// head begins a payload: what spans and log records have in common.
func (r *Recorder) head(i *Item, signal, name string, trace, span []byte) []byte {
	dst := append(make([]byte, 0, 2<<10), `{"source":"otlp","signal":"`...)
	dst = append(append(dst, signal...), '"')
	dst = identifier(dst, "name", name)
	if i.facts.tool != "" {
		dst = jcs.AppendString(member(dst, "tool"), action.RecordedName(i.facts.tool))
	}
	dst = identifier(dst, "callId", i.facts.says[callID])
	of := i.facts.says[session]
	if of == "" {
		of = i.from.resource.read().says[session]
	}
	dst = identifier(dst, "sessionId", of)
	dst = id(dst, "traceId", trace)
	return id(dst, "spanId", span)
}

// id appends a member with an ID in hexadecimal, unless that is empty.
func id(dst []byte, name string, id []byte) []byte {
	if len(id) == 0 {
		return dst
	}
	return append(hex.AppendEncode(append(member(dst, name), '"'), id), '"')
}

var spanKinds = [...]string{"", "internal", "server", "client", "producer", "consumer"}

func (r *Recorder) span(i *Item) []byte {
	s, w := i.span, r.writer
	dst := r.head(i, "span", s.GetName(), s.GetTraceId(), s.GetSpanId())
	dst = id(dst, "parentSpanId", s.GetParentSpanId())
	dst = identifier(dst, "traceState", s.GetTraceState())
	if kind := int(s.GetKind()); kind > 0 && kind < len(spanKinds) {
		dst = identifier(dst, "kind", spanKinds[kind])
	}
	start, end := s.GetStartTimeUnixNano(), s.GetEndTimeUnixNano()
	dst = moment(moment(dst, "start", start), "end", end)
	if start > 0 && end > start {
		dst = number(dst, "durationMs", (end-start)/1e6)
	}
	dst = r.status(dst, s.GetStatus())
	if len(s.GetAttributes()) > 0 {
		dst = w.attributes(member(dst, "attributes"), s.GetAttributes())
	}
	if len(s.GetEvents()) > 0 {
		dst = append(member(dst, "events"), '[')
		for n, event := range s.GetEvents() {
			if n > 0 {
				dst = append(dst, ',')
			}
			dst = w.parts(dst, nil, nil, event.GetName(), event.GetTimeUnixNano(), event.GetAttributes())
		}
		dst = append(dst, ']')
	}
	if len(s.GetLinks()) > 0 {
		dst = append(member(dst, "links"), '[')
		for n, link := range s.GetLinks() {
			if n > 0 {
				dst = append(dst, ',')
			}
			dst = w.parts(dst, link.GetTraceId(), link.GetSpanId(), "", 0, link.GetAttributes())
		}
		dst = append(dst, ']')
	}
	dst = dropped(dst, s.GetDroppedAttributesCount(), s.GetDroppedEventsCount(), s.GetDroppedLinksCount())
	return r.tail(dst, i.from)
}

// parts appends an event or a link of a span.
func (w *writer) parts(dst, trace, span []byte, name string, at uint64, attributes []*commonpb.KeyValue) []byte {
	start := len(dst)
	dst = moment(identifier(id(id(dst, "traceId", trace), "spanId", span), "name", name), "time", at)
	if len(attributes) > 0 {
		dst = w.attributes(member(dst, "attributes"), attributes)
	}
	return object(dst, start)
}

// object makes an object of the members from start on, each of which has a comma before it.
func object(dst []byte, start int) []byte {
	if len(dst) == start {
		return append(dst, "{}"...)
	}
	dst[start] = '{'
	return append(dst, '}')
}

func (r *Recorder) status(dst []byte, s *tracepb.Status) []byte {
	codes := [...]string{"", "ok", "error"}
	code := int(s.GetCode())
	if code <= 0 || code >= len(codes) {
		code = 0
	}
	if code == 0 && s.GetMessage() == "" {
		return dst
	}
	dst = member(dst, "status")
	start := len(dst)
	dst = r.writer.text(identifier(dst, "code", codes[code]), "message", s.GetMessage(), true)
	return object(dst, start)
}

func (r *Recorder) log(i *Item) []byte {
	l, w := i.log, r.writer
	dst := r.head(i, "log", i.event(), l.GetTraceId(), l.GetSpanId())
	dst = moment(moment(dst, "time", l.GetTimeUnixNano()), "observed", l.GetObservedTimeUnixNano())
	if severity := l.GetSeverityText(); severity != "" {
		dst = identifier(dst, "severity", severity)
	} else {
		dst = number(dst, "severity", uint64(max(0, l.GetSeverityNumber())))
	}
	if body := l.GetBody(); body.GetValue() != nil && body.GetStringValue() != i.event() {
		_, isNumber := body.GetValue().(*commonpb.AnyValue_IntValue)
		dst = w.value(member(dst, "body"), body, false, !isNumber)
	}
	if len(l.GetAttributes()) > 0 {
		dst = w.attributes(member(dst, "attributes"), l.GetAttributes())
	}
	dst = dropped(dst, l.GetDroppedAttributesCount(), 0, 0)
	return r.tail(dst, i.from)
}

// dropped appends how much the agent's side says that it has left out.
func dropped(dst []byte, attributes, events, links uint32) []byte {
	if attributes == 0 && events == 0 && links == 0 {
		return dst
	}
	dst = member(dst, "dropped")
	start := len(dst)
	dst = number(number(number(dst, "attributes", uint64(attributes)), "events", uint64(events)), "links", uint64(links))
	return object(dst, start)
}

// maxOrigin is the size in bytes of a resource or scope that is recorded in full, with each item.
const maxOrigin = 1 << 10

// tail ends a payload with scope and resource.
func (r *Recorder) tail(dst []byte, from *origin) []byte {
	if from.recorded == nil {
		bounded := action.Policy{Limit: maxOrigin}
		text := identifier(identifier(nil, "name", from.scope.GetName()), "version", from.scope.GetVersion())
		if attributes := from.scope.GetAttributes(); len(attributes) > 0 {
			text = r.writer.attributes(member(text, "attributes"), attributes)
		}
		from.recorded = []byte{}
		if len(text) > 0 {
			from.recorded = append(member(nil, "scope"), bounded.Member(object(text, 0), false, false)...)
		}
	}
	if of := from.resource; of.recorded == nil {
		of.recorded = []byte{}
		if len(of.attributes) > 0 {
			text := r.writer.attributes(nil, of.attributes)
			of.recorded = append(member(nil, "resource"), action.Policy{Limit: maxOrigin}.Member(text, false, false)...)
		}
	}
	return append(append(append(dst, from.recorded...), from.resource.recorded...), '}')
}
