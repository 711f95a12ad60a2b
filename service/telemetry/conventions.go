package telemetry

import (
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
)

// facts are what the attributes of an item say by the conventions that are known.
type facts struct {
	says  [numFacts]string // by the attributes of the table
	model bool             // it names a model
	// it counts the tokens of a request to a model, as Codex does
	tokens bool
	known  bool // an attribute is of one of the conventions
	tool   string
}

// fact is what an attribute says.
type fact int

const (
	operation fact = iota
	kind           // of a span, by OpenInference
	step           // kind of a span, by OpenLLMetry
	request        // kind of a request to a model, by OpenLLMetry
	call           // ID of an operation, by the AI SDK
	callAndID      // the same, and what its user calls it
	method         // of a request to an MCP server
	event
	agentID
	agentName
	agentOfSpan // of a span that has a kind
	service
	toolName
	entity   // name of what a span is about, by OpenLLMetry
	function // by which Gemini CLI names a tool
	callID
	session
	modelName
	tokenCount
	numFacts
)

// attributeFacts says what each attribute of the conventions says:
//
//   - the semantic conventions of OpenTelemetry for GenAI and MCP (gen_ai.*, mcp.*),
//   - OpenInference (openinference.*, llm.*, tool.*, agent.*, session.*),
//   - OpenLLMetry (traceloop.*, llm.request.type),
//   - the AI SDK of Vercel (ai.*, operation.name),
//   - the coding agents, in snake_case.
var attributeFacts = map[string]fact{
	"gen_ai.operation.name":  operation,
	"gen_ai.agent.id":        agentID,
	"gen_ai.agent.name":      agentName,
	"gen_ai.tool.name":       toolName,
	"gen_ai.tool.call.id":    callID,
	"gen_ai.tool.call_id":    callID,
	"gen_ai.conversation.id": session,
	"gen_ai.request.model":   modelName,
	"gen_ai.response.model":  modelName,
	"mcp.method.name":        method,

	"openinference.span.kind": kind,
	"tool.name":               toolName,
	"tool_call.function.name": toolName,
	"tool_call.id":            callID,
	"tool.id":                 callID,
	"agent.name":              agentOfSpan,
	"session.id":              session,
	"llm.model_name":          modelName,
	"embedding.model_name":    modelName,
	"reranker.model_name":     modelName,

	"traceloop.span.kind":                              step,
	"traceloop.entity.name":                            entity,
	"llm.request.type":                                 request,
	"traceloop.association.properties.session_id":      session,
	"traceloop.association.properties.conversation_id": session,
	"traceloop.association.properties.thread_id":       session,
	"traceloop.association.properties.chat_id":         session,

	"ai.operationId":                       call,
	"operation.name":                       callAndID,
	"ai.toolCall.name":                     toolName,
	"ai.toolCall.id":                       callID,
	"ai.model.id":                          modelName,
	"ai.telemetry.metadata.sessionId":      session,
	"ai.telemetry.metadata.conversationId": session,
	"ai.telemetry.metadata.threadId":       session,
	"ai.telemetry.metadata.chatId":         session,

	"event.name":        event,
	"service.name":      service,
	"tool_name":         toolName,
	"function_name":     function,
	"tool_use_id":       callID,
	"call_id":           callID,
	"conversation.id":   session,
	"input_token_count": tokenCount,
}

// The actionTypes of records.
const (
	aTool  = "otel.tool"
	aModel = "otel.model"
	aAgent = "otel.agent"
	aStep  = "otel.step"
)

// valueActions says what the values of the facts say a span is about. A fact that comes first here
// decides before one that comes later; a value that is not listed is that of another step where the
// convention has it on every span of its own.
var valueActions = []struct {
	fact    fact
	isOther bool // a value that is not listed is that of another step
	values  map[string]string
}{
	{operation, true, map[string]string{
		"execute_tool": aTool, "tool_call": aTool, // the second of each kind are Gemini CLI's
		"chat": aModel, "llm_call": aModel, "text_completion": aModel, "generate_content": aModel, "embeddings": aModel,
		// earlier spellings, and OpenLIT's
		"completion": aModel, "embedding": aModel, "image": aModel, "audio": aModel,
		"invoke_agent": aAgent, "agent_call": aAgent, "create_agent": aAgent, "invoke_workflow": aAgent,
		"retrieval": aStep, "plan": aStep,
	}},
	{kind, true, map[string]string{
		"TOOL": aTool, "LLM": aModel, "EMBEDDING": aModel, "AGENT": aAgent,
		"CHAIN": aStep, "RETRIEVER": aStep, "RERANKER": aStep, "GUARDRAIL": aStep, "EVALUATOR": aStep, "PROMPT": aStep, "DECISION": aStep,
	}},
	{step, false, map[string]string{"tool": aTool, "agent": aAgent, "workflow": aAgent, "task": aStep}},
	{call, false, map[string]string{
		"ai.toolCall":                  aTool,
		"ai.generateText":              aAgent, // with all its calls of tools, until it is done
		"ai.streamText":                aAgent,
		"ai.generateObject":            aAgent,
		"ai.streamObject":              aAgent,
		"ai.generateText.doGenerate":   aModel,
		"ai.streamText.doStream":       aModel,
		"ai.generateObject.doGenerate": aModel,
		"ai.streamObject.doStream":     aModel,
		"ai.embed.doEmbed":             aModel,
		"ai.embedMany.doEmbed":         aModel,
		"ai.rerank.doRerank":           aModel,
		"ai.embed":                     aStep,
		"ai.embedMany":                 aStep,
		"ai.rerank":                    aStep,
	}},
	{method, false, map[string]string{"tools/call": aTool}},
	{request, false, map[string]string{"chat": aModel, "completion": aModel, "embedding": aModel, "rerank": aModel}},
}

// conventionalPrefixes begin the names of attributes that only the conventions have.
var conventionalPrefixes = []string{
	"gen_ai.", "openinference.", "llm.", "traceloop.", "mcp.", "ai.operationId", "ai.toolCall.", "ai.model.", "ai.telemetry.",
}

// read reads the facts in attributes. The first of several that say the same counts.
func (f *facts) read(attributes []*commonpb.KeyValue) {
	for _, a := range attributes {
		key := a.GetKey()
		if is, listed := attributeFacts[key]; listed {
			if value := a.GetValue().GetStringValue(); f.says[is] == "" {
				f.says[is] = value
			}
			f.model = f.model || is == modelName
			f.tokens = f.tokens || is == tokenCount
		}
		f.known = f.known || isConventional(key)
	}
	f.tool = f.says[toolName]
	// Before version 4 the AI SDK wrote its operation together with the user's name for it.
	if id, _, _ := strings.Cut(f.says[callAndID], " "); f.says[call] == "" && strings.HasPrefix(id, "ai.") {
		f.says[call], f.known = id, true
	}
}

// isConventional reports whether an attribute is of a convention for agents, models and tools.
func isConventional(key string) bool {
	for _, prefix := range conventionalPrefixes {
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
	for _, by := range valueActions {
		value := f.says[by.fact]
		if action := by.values[value]; action != "" {
			return action
		}
		if value != "" && by.isOther {
			return aStep
		}
	}
	switch {
	case f.tool != "":
		return aTool
	case f.model:
		return aModel
	}
	return aStep
}

// toolOfSpan returns the name of the tool that a span of a call is about: that of an attribute, or
// what the convention has in the span's own name.
func (f *facts) toolOfSpan(name string) string {
	switch {
	case f.tool != "":
		return f.tool
	case f.says[step] == "tool" && f.says[entity] != "":
		return f.says[entity]
	case f.says[step] == "tool":
		return strings.TrimSuffix(name, ".tool")
	case f.says[kind] == "TOOL":
		return name
	}
	for _, begin := range [...]string{"execute_tool ", "tools/call "} {
		if tool, ok := strings.CutPrefix(name, begin); ok {
			return tool
		}
	}
	return ""
}

// spanAction returns the actionType of a span; "" if it is of no agent, model or tool.
func (f *facts) spanAction(name string) string {
	if event, ok := codingAgent(name); ok {
		switch {
		case event == "llm_request":
			return aModel
		case event == "interaction":
			return aAgent
		case event == "tool", strings.HasPrefix(event, "tool."):
			return aTool
		}
		return aStep
	}
	if !f.known {
		return ""
	}
	action := f.action()
	if action == aTool {
		f.tool = f.toolOfSpan(name)
	}
	return action
}

// logAction returns the actionType of a log record by the name of its event; "" if it is of no
// agent, model or tool.
func (f *facts) logAction(name string) string {
	if event, ok := codingAgent(name); ok {
		if f.tool == "" {
			f.tool = f.says[function]
		}
		switch event {
		case "tool_result", "tool_call":
			return aTool
		case "tool_decision":
			return "otel.decision"
		case "api_request", "api_response", "api_error":
			return aModel
		case "sse_event", "websocket_event": // one for each piece of what a model streams to Codex
			if f.tokens {
				return aModel
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
	ofSpan := ""
	if f.says[kind] != "" {
		ofSpan = f.says[agentOfSpan]
	}
	for _, name := range [...]string{f.says[agentID], f.says[agentName], ofSpan, of.says[agentID], of.says[agentName], of.says[service]} {
		if name != "" {
			return name
		}
	}
	return ""
}
