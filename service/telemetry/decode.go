package telemetry

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"attestd/crypto/strictjson"
)

// Encoding is how an export is encoded.
type Encoding int

// The encodings of OTLP/HTTP.
const (
	Protobuf Encoding = iota
	JSON
)

// Export is a decoded export of one signal.
type Export struct {
	traces *tracepb.TracesData
	logs   *logspb.LogsData
}

// message returns the message of an export: ExportTraceServiceRequest and TracesData are the same
// on the wire, and so are those of logs.
func (e *Export) message(s Signal) proto.Message {
	if s == Logs {
		e.logs = &logspb.LogsData{}
		return e.logs
	}
	e.traces = &tracepb.TracesData{}
	return e.traces
}

// Weigh returns how many messages decoding an export will make, before it is decoded. It returns an
// error for an export with too many, or that nests too deep.
func Weigh(s Signal, in Encoding, raw []byte) (messages int, err error) {
	if in == JSON {
		messages = strictjson.Weigh(raw).Objects
	} else {
		messages, err = weigh((&Export{}).message(s).ProtoReflect().Descriptor(), raw, maxNesting)
	}
	if err == nil && messages > maxMessages {
		err = fmt.Errorf("more than %d values; export smaller batches", maxMessages)
	}
	return messages, err
}

var errDeep = errors.New("it nests too deep")

// weigh counts the messages and other elements of lists in an encoded message, which may nest depth
// deep, and itself.
func weigh(of protoreflect.MessageDescriptor, raw []byte, depth int) (messages int, err error) {
	if depth == 0 {
		return 0, errDeep
	}
	fields := of.Fields()
	messages = 1
	for len(raw) > 0 && messages <= maxMessages {
		number, kind, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return 0, protowire.ParseError(n)
		}
		raw = raw[n:]
		field := fields.ByNumber(number)
		if kind != protowire.BytesType || field == nil || field.Message() == nil {
			if n = protowire.ConsumeFieldValue(number, kind, raw); n < 0 {
				return 0, protowire.ParseError(n)
			}
			if raw = raw[n:]; field != nil && field.IsList() {
				messages++
			}
			continue
		}
		inner, n := protowire.ConsumeBytes(raw)
		if n < 0 {
			return 0, protowire.ParseError(n)
		}
		more, err := weigh(field.Message(), inner, depth-1)
		if err != nil {
			return 0, err
		}
		messages, raw = messages+more, raw[n:]
	}
	return messages, nil
}

// Decode decodes an export that Weigh has accepted. Unknown fields are ignored, as OTLP demands;
// JSON with a duplicate name is an error, because other parsers could read it differently.
func Decode(s Signal, in Encoding, raw []byte) (*Export, error) {
	e := &Export{}
	var err error
	if in == JSON {
		err = e.decodeJSON(s, raw)
	} else {
		err = proto.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: maxNesting}.Unmarshal(raw, e.message(s))
	}
	if err != nil {
		return nil, err
	}
	n := 0
	e.each(func(*origin, *tracepb.Span, *logspb.LogRecord) { n++ })
	if n > MaxItems {
		return nil, fmt.Errorf("%d %s in one request, and %d are taken; export smaller batches (OTEL_BSP_MAX_EXPORT_BATCH_SIZE, OTEL_BLRP_MAX_EXPORT_BATCH_SIZE)",
			n, s, MaxItems)
	}
	return e, nil
}

// decodeJSON decodes JSON of OTLP, which differs from that of protobuf in its IDs: they are
// hexadecimal.
func (e *Export) decodeJSON(s Signal, raw []byte) error {
	// Agents do send text that is cut within a character: it is repaired, so that what else is in
	// the export is not lost with it.
	repaired, err := jsontext.AppendFormat(make([]byte, 0, len(raw)), raw, jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(false))
	if err != nil {
		return err
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: maxNesting}).Unmarshal(repaired, e.message(s)); err != nil {
		return err
	}
	e.each(func(_ *origin, span *tracepb.Span, log *logspb.LogRecord) {
		if log != nil {
			log.TraceId, log.SpanId = fromHex(log.TraceId), fromHex(log.SpanId)
			return
		}
		span.TraceId, span.SpanId, span.ParentSpanId = fromHex(span.TraceId), fromHex(span.SpanId), fromHex(span.ParentSpanId)
		for _, link := range span.Links {
			if link != nil {
				link.TraceId, link.SpanId = fromHex(link.TraceId), fromHex(link.SpanId)
			}
		}
	})
	return nil
}

// fromHex returns the bytes of a hexadecimal text that was decoded as base64. The digits of an ID
// are base64 without padding, so encoding gives them back. Anything else becomes no valid ID.
func fromHex(decoded []byte) []byte {
	if len(decoded) == 0 {
		return nil
	}
	id, err := hex.DecodeString(base64.StdEncoding.EncodeToString(decoded))
	if err != nil {
		return []byte{0}
	}
	return id
}

// each calls yield for each span or log record, and with what it has in common with others.
func (e *Export) each(yield func(*origin, *tracepb.Span, *logspb.LogRecord)) {
	for _, of := range e.traces.GetResourceSpans() {
		shared := &resource{attributes: of.GetResource().GetAttributes()}
		for _, scope := range of.GetScopeSpans() {
			from := &origin{resource: shared, scope: scope.GetScope()}
			for _, span := range scope.GetSpans() {
				yield(from, span, nil)
			}
		}
	}
	for _, of := range e.logs.GetResourceLogs() {
		shared := &resource{attributes: of.GetResource().GetAttributes()}
		for _, scope := range of.GetScopeLogs() {
			from := &origin{resource: shared, scope: scope.GetScope()}
			for _, log := range scope.GetLogRecords() {
				yield(from, nil, log)
			}
		}
	}
}

// Reason is a decoding error as text of one line that is short enough for an answer. The errors of
// protobuf begin with a space of their own choice.
func Reason(err error) string {
	const longest = 200
	text := strings.ToValidUTF8(strings.NewReplacer("\u00a0", " ", "\n", " ").Replace(err.Error()), "?")
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}
