package telemetry

import (
	"fmt"
	"unicode/utf8"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// origin is what the items of one scope have in common.
type origin struct {
	resource *resource
	scope    *commonpb.InstrumentationScope
	recorded []byte // nil before it is first needed
}

// resource is what the items of one resource have in common.
type resource struct {
	attributes []*commonpb.KeyValue
	facts      *facts // nil before they are first needed
	recorded   []byte // the same
}

func (r *resource) read() *facts {
	if r.facts == nil {
		r.facts = &facts{}
		r.facts.read(r.attributes)
	}
	return r.facts
}

// The reasons for which items are refused, apart from bounds.
const (
	notOfAgents = "not of an agent, a model or a tool: ?all=true records them too"
	noAgent     = "no agent is named: set OTEL_SERVICE_NAME, or ?agent="
	longAgent   = "the name of the agent must have 1 to 256 characters"
	noSpanID    = "the trace ID or span ID is missing or not valid"
)

// Select returns the items of an export in their order, with the agent and action of each, and
// which of them are refused.
func (e *Export) Select(o Options) []Item {
	var items []Item
	e.each(func(from *origin, span *tracepb.Span, log *logspb.LogRecord) {
		item := Item{span: span, log: log, from: from}
		of := from.resource.read()
		if span != nil {
			item.facts.read(span.GetAttributes())
			item.Action = item.facts.spanAction(span.GetName())
		} else {
			item.facts.read(log.GetAttributes())
			item.Action = item.facts.logAction(item.event())
		}
		if item.Agent = o.Agent; item.Agent == "" {
			item.Agent = item.facts.agent(of)
		}
		item.Refused = item.refusal(o)
		items = append(items, item)
	})
	return items
}

// event returns the name of a log record's event. Claude Code also has it as the body, and in the
// attribute event.name without its own name before. Codex has it in that attribute alone: the
// event name of its log records is a place in its source.
func (i *Item) event() string {
	body := i.log.GetBody().GetStringValue()
	if _, ok := codingAgent(body); ok && isEventName(body) {
		return body
	}
	if _, ok := codingAgent(i.facts.says[event]); ok {
		return i.facts.says[event]
	}
	if name := i.log.GetEventName(); name != "" {
		return name
	}
	return i.facts.says[event]
}

// isEventName reports whether a text has the form of the name of an event, so it is no content.
func isEventName(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < 'a' || c > 'z') && c != '_' && c != '.' {
			return false
		}
	}
	return len(text) <= 64
}

// refusal returns why an item is not recorded, and sets the action of one that is of nothing known.
func (i *Item) refusal(o Options) string {
	if i.Action == "" {
		if i.Action = "otel.span"; i.log != nil {
			i.Action = "otel.log"
		}
		if !o.All {
			return notOfAgents
		}
	}
	switch {
	case i.Agent == "":
		return noAgent
	case utf8.RuneCountInString(i.Agent) > maxAgent:
		return longAgent
	case i.log != nil:
		if trace, span := i.log.GetTraceId(), i.log.GetSpanId(); len(trace) > 0 && !isID(trace, 16) || len(span) > 0 && !isID(span, 8) {
			return noSpanID
		}
		return beyondBounds(i.log.GetAttributes(), i.log.GetBody())
	}
	if !isID(i.span.GetTraceId(), 16) || !isID(i.span.GetSpanId(), 8) || len(i.span.GetParentSpanId()) > 0 && len(i.span.GetParentSpanId()) != 8 {
		return noSpanID
	}
	switch {
	case len(i.span.GetEvents()) > maxEvents:
		return fmt.Sprintf("more than %d events", maxEvents)
	case len(i.span.GetLinks()) > maxLinks:
		return fmt.Sprintf("more than %d links", maxLinks)
	}
	refused := beyondBounds(i.span.GetAttributes())
	for _, event := range i.span.GetEvents() {
		if refused == "" {
			refused = beyondBounds(event.GetAttributes())
		}
	}
	for _, link := range i.span.GetLinks() {
		if refused == "" {
			refused = beyondBounds(link.GetAttributes())
		}
	}
	return refused
}

// beyondBounds says which bound attributes or values exceed; "" for none.
func beyondBounds(attributes []*commonpb.KeyValue, values ...*commonpb.AnyValue) string {
	if len(attributes) > maxAttributes {
		return fmt.Sprintf("more than %d attributes", maxAttributes)
	}
	for _, a := range attributes {
		values = append(values, a.GetValue())
	}
	for _, v := range values {
		if valueDepth(v, maxValueDepth) > maxValueDepth {
			return fmt.Sprintf("a value nests deeper than %d", maxValueDepth)
		}
	}
	return ""
}

// isID reports whether an ID has a length and is not all zero.
func isID(id []byte, length int) bool {
	for _, b := range id {
		if b != 0 {
			return len(id) == length
		}
	}
	return false
}
