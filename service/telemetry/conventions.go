package telemetry

import (
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
)

// facts are what the attributes of an item say by the conventions that are known: GenAI semantic
// conventions, OpenInference, and those of coding agents.
type facts struct {
	operation string // gen_ai.operation.name
	kind      string // openinference.span.kind
	step      string // traceloop.span.kind
	event     string // event.name
	agentID   string // gen_ai.agent.id
	agentName string // gen_ai.agent.name
	service   string // service.name
	tool      string
	function  string // function_name, by which Gemini CLI names a tool
	callID    string
	session   string
	model     bool // it names a model
	tokens    bool // it counts the tokens of a request to a model, as Codex does
	known     bool // an attribute is of one of the conventions
}

// read reads the facts in attributes. The first of several that say the same counts.
func (f *facts) read(attributes []*commonpb.KeyValue) {
	for _, a := range attributes {
		key := a.GetKey()
		var into *string
		switch key {
		case "gen_ai.operation.name":
			into = &f.operation
		case "openinference.span.kind":
			into = &f.kind
		case "traceloop.span.kind":
			into = &f.step
		case "event.name":
			into = &f.event
		case "gen_ai.agent.id":
			into = &f.agentID
		case "gen_ai.agent.name":
			into = &f.agentName
		case "service.name":
			into = &f.service
		case "gen_ai.tool.name", "tool.name", "tool_name":
			into = &f.tool
		case "function_name":
			into = &f.function
		case "gen_ai.tool.call.id", "gen_ai.tool.call_id", "tool_call.id", "tool_use_id", "call_id":
			into = &f.callID
		case "gen_ai.conversation.id", "session.id", "conversation.id":
			into = &f.session
		case "gen_ai.request.model", "gen_ai.response.model", "llm.model_name":
			f.model = true
		case "input_token_count":
			f.tokens = true
		}
		if into != nil && *into == "" {
			*into = a.GetValue().GetStringValue()
		}
		f.known = f.known || isConventional(key)
	}
}

// isConventional reports whether an attribute is of a convention for agents, models and tools.
func isConventional(key string) bool {
	for _, prefix := range [...]string{"gen_ai.", "openinference.", "llm.", "traceloop.", "mcp."} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// codingAgent returns what follows the name of a coding agent in the name of its event or span.
func codingAgent(name string) (event string, ok bool) {
	for _, prefix := range [...]string{"claude_code.", "gemini_cli.", "codex."} {
		if event, ok = strings.CutPrefix(name, prefix); ok {
			return event, true
		}
	}
	return "", false
}

// action returns the actionType for what a convention names.
func (f *facts) action() string {
	switch f.operation {
	case "execute_tool", "tool_call": // the second of each are Gemini CLI's
		return "otel.tool"
	case "chat", "llm_call", "text_completion", "generate_content", "embeddings":
		return "otel.model"
	case "invoke_agent", "agent_call", "create_agent", "invoke_workflow":
		return "otel.agent"
	case "":
	default:
		return "otel.step"
	}
	switch f.kind {
	case "TOOL":
		return "otel.tool"
	case "LLM", "EMBEDDING":
		return "otel.model"
	case "AGENT":
		return "otel.agent"
	case "":
	default:
		return "otel.step"
	}
	switch {
	case f.step == "tool", f.tool != "":
		return "otel.tool"
	case f.step == "agent", f.step == "workflow":
		return "otel.agent"
	case f.model:
		return "otel.model"
	}
	return "otel.step"
}

// spanAction returns the actionType of a span; "" if it is of no agent, model or tool.
func (f *facts) spanAction(name string) string {
	if event, ok := codingAgent(name); ok {
		switch {
		case event == "llm_request":
			return "otel.model"
		case event == "interaction":
			return "otel.agent"
		case event == "tool", strings.HasPrefix(event, "tool."):
			return "otel.tool"
		}
		return "otel.step"
	}
	if f.known {
		return f.action()
	}
	return ""
}

// logAction returns the actionType of a log record by the name of its event; "" if it is of no
// agent, model or tool.
func (f *facts) logAction(name string) string {
	if event, ok := codingAgent(name); ok {
		if f.tool == "" {
			f.tool = f.function
		}
		switch event {
		case "tool_result", "tool_call":
			return "otel.tool"
		case "tool_decision":
			return "otel.decision"
		case "api_request", "api_response", "api_error":
			return "otel.model"
		case "sse_event", "websocket_event": // one for each piece of what a model streams to Codex
			if f.tokens {
				return "otel.model"
			}
			return ""
		}
		return "otel.event"
	}
	if f.known || strings.HasPrefix(name, "gen_ai.") {
		return "otel.event"
	}
	return ""
}

// agent returns the agent that an item names: itself, or its resource.
func (f *facts) agent(of *facts) string {
	for _, name := range [...]string{f.agentID, f.agentName, of.agentID, of.agentName, of.service} {
		if name != "" {
			return name
		}
	}
	return ""
}
