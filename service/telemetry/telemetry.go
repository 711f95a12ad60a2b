// Package telemetry makes records of what instrumented agents export by OpenTelemetry: spans and
// log records in OTLP 1.x, as protobuf or JSON. It is pure: the same export gives the same records
// and keys.
//
// A record's actionType begins with "otel." and says what the span or log record is about:
//
//	otel.tool      a call of a tool
//	otel.model     a request to a model
//	otel.agent     a run of an agent
//	otel.step      another step of an agent: a chain, a retrieval, a guardrail
//	otel.decision  whether a tool may be called, as a coding agent reports it
//	otel.event     another event of an agent
//	otel.span      any other span; recorded only if all are
//	otel.log       any other log record; recorded only if all are
//
// The payload is one JSON object with these members in this order; absent ones are left out:
//
//	{"source":"otlp","signal":"span","name":"execute_tool search","tool":"…","callId":"…",
//	 "sessionId":"…","traceId":"…","spanId":"…","parentSpanId":"…","traceState":"…","kind":"internal",
//	 "start":"2026-03-02T09:05:04.218000001Z","end":"…","durationMs":12,
//	 "status":{"code":"error","message":…},"attributes":{…},"events":[{"name","time","attributes"}],
//	 "links":[{"traceId","spanId","attributes"}],"dropped":{"attributes":1},
//	 "scope":{"name","version"},"resource":{…}}
//
// That of a log record has "signal":"log", and in place of kind to status:
//
//	"time":"…","observed":"…","severity":"INFO","body":…
//
// Values go through the steps of package action: they are made well-formed, masked and bounded.
// What may be content (prompts, completions, arguments and results of tools, errors) is recorded as
// {"sha256","bytes"}, unless Options.RecordContent is set; see isContent. A resource or scope of
// more than 1 KiB is bounded alike.
//
// The key of a span is made of its trace ID and span ID. A log record has no ID of its own: its key
// is the SHA-256 of its action and payload, and of how many equal ones come before it in the same
// export. Both contain the agent.
package telemetry

import (
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// Signal is what an export consists of.
type Signal int

// The signals.
const (
	Traces Signal = iota
	Logs
)

// String is what the items of a signal are called in text.
func (s Signal) String() string { return [...]string{"spans", "log records"}[s] }

// Options say which items of an export are recorded, in whose name, and how much of them.
type Options struct {
	Agent         string // the agent of all items; "" for the agent that each item names
	All           bool   // items that are not of agents, models or tools as well
	RecordContent bool   // content is recorded and not hashed
}

// Bounds of an export.
const (
	MaxItems    = 10_000  // spans or log records
	maxMessages = 500_000 // protobuf messages or JSON objects
	maxNesting  = 128     // of messages

	// Bounds of an item, which is refused beyond them.
	maxAttributes = 1000 // of the item, and of each event and link
	maxEvents     = 1000
	maxLinks      = 1000
	maxValueDepth = 32 // of arrays and lists within a value
	maxAgent      = 256
)

// Item is a span or a log record of an export.
type Item struct {
	Agent   string
	Action  string
	Refused string // why it is not recorded; "" if it is to be

	span  *tracepb.Span
	log   *logspb.LogRecord
	from  *origin
	facts facts
}
