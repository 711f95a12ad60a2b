package telemetry

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// convention is a kind of span as a convention writes it, and what becomes of it.
type convention struct {
	source     string // whose it is
	span       string // its name
	attributes string // as key=value, with commas between

	action, tool, callID, session string
}

// conventions has a row for each kind of span of each convention.
var conventions = []convention{
	// OpenTelemetry, semantic conventions for GenAI
	{"gen_ai", "chat gpt-4o", "gen_ai.operation.name=chat,gen_ai.provider.name=openai,gen_ai.request.model=gpt-4o,gen_ai.conversation.id=c1", aModel, "", "", "c1"},
	{"gen_ai", "generate_content gemini", "gen_ai.operation.name=generate_content,gen_ai.request.model=gemini", aModel, "", "", ""},
	{"gen_ai", "text_completion gpt", "gen_ai.operation.name=text_completion,gen_ai.request.model=gpt", aModel, "", "", ""},
	{"gen_ai", "embeddings e", "gen_ai.operation.name=embeddings,gen_ai.request.model=e", aModel, "", "", ""},
	{"gen_ai", "retrieval d", "gen_ai.operation.name=retrieval,gen_ai.data_source.id=d,gen_ai.request.model=e", aStep, "", "", ""},
	{"gen_ai", "create_agent a", "gen_ai.operation.name=create_agent,gen_ai.request.model=gpt", aAgent, "", "", ""},
	{"gen_ai", "invoke_agent a", "gen_ai.operation.name=invoke_agent,gen_ai.conversation.id=c1", aAgent, "", "", "c1"},
	{"gen_ai", "invoke_workflow w", "gen_ai.operation.name=invoke_workflow", aAgent, "", "", ""},
	{"gen_ai", "plan a", "gen_ai.operation.name=plan", aStep, "", "", ""},
	{"gen_ai", "search_memory m", "gen_ai.operation.name=search_memory,gen_ai.memory.store.id=m", aStep, "", "", ""},
	{"gen_ai", "execute_tool lookup", "gen_ai.operation.name=execute_tool,gen_ai.tool.name=lookup,gen_ai.tool.call.id=t1", aTool, "lookup", "t1", ""},
	{"gen_ai without a tool's name", "execute_tool lookup", "gen_ai.operation.name=execute_tool", aTool, "lookup", "", ""},
	{"gen_ai before 1.30", "chat", "gen_ai.system=openai,gen_ai.request.model=gpt", aModel, "", "", ""},
	{"gen_ai, earlier spelling", "completion", "gen_ai.operation.name=completion", aModel, "", "", ""},
	{"gen_ai, earlier spelling", "embedding", "gen_ai.operation.name=embedding", aModel, "", "", ""},
	{"OpenLIT", "images", "gen_ai.operation.name=image", aModel, "", "", ""},
	{"OpenLIT", "speech", "gen_ai.operation.name=audio", aModel, "", "", ""},
	{"an operation that no table has", "x", "gen_ai.operation.name=dream", aStep, "", "", ""},

	// OpenTelemetry, semantic conventions for MCP
	{"mcp", "tools/call lookup", "mcp.method.name=tools/call,gen_ai.tool.name=lookup,mcp.session.id=m1", aTool, "lookup", "", ""},
	{"mcp without a tool's name", "tools/call lookup", "mcp.method.name=tools/call", aTool, "lookup", "", ""},
	{"mcp", "resources/read", "mcp.method.name=resources/read,mcp.resource.uri=file:///x", aStep, "", "", ""},

	// OpenInference
	{"OpenInference", "ChatOpenAI", "openinference.span.kind=LLM,llm.model_name=gpt,session.id=s1", aModel, "", "", "s1"},
	{"OpenInference", "CreateEmbeddings", "openinference.span.kind=EMBEDDING,embedding.model_name=e", aModel, "", "", ""},
	{"OpenInference", "RunnableSequence", "openinference.span.kind=CHAIN", aStep, "", "", ""},
	{"OpenInference", "Retriever", "openinference.span.kind=RETRIEVER", aStep, "", "", ""},
	{"OpenInference", "Reranker", "openinference.span.kind=RERANKER,reranker.model_name=r", aStep, "", "", ""},
	{"OpenInference", "Guard", "openinference.span.kind=GUARDRAIL", aStep, "", "", ""},
	{"OpenInference", "Judge", "openinference.span.kind=EVALUATOR", aStep, "", "", ""},
	{"OpenInference", "Decision", "openinference.span.kind=DECISION", aStep, "", "", ""},
	{"OpenInference", "Prompt", "openinference.span.kind=PROMPT", aStep, "", "", ""},
	{"OpenInference", "AgentExecutor", "openinference.span.kind=AGENT", aAgent, "", "", ""},
	{"OpenInference", "a tool", "openinference.span.kind=TOOL,tool.name=lookup,tool_call.id=t1", aTool, "lookup", "t1", ""},
	{"OpenInference", "a tool", "openinference.span.kind=TOOL,tool_call.function.name=lookup,tool.id=t1", aTool, "lookup", "t1", ""},
	{"OpenInference without a tool's name", "lookup", "openinference.span.kind=TOOL", aTool, "lookup", "", ""},

	// OpenLLMetry
	{"OpenLLMetry", "joke.workflow", "traceloop.span.kind=workflow,traceloop.entity.name=joke", aAgent, "", "", ""},
	{"OpenLLMetry", "step.task", "traceloop.span.kind=task,traceloop.entity.name=step,traceloop.association.properties.session_id=s1", aStep, "", "", "s1"},
	{"OpenLLMetry", "a.agent", "traceloop.span.kind=agent,traceloop.entity.name=a", aAgent, "", "", ""},
	{"OpenLLMetry", "lookup.tool", "traceloop.span.kind=tool,traceloop.entity.name=lookup", aTool, "lookup", "", ""},
	{"OpenLLMetry without an entity's name", "lookup.tool", "traceloop.span.kind=tool", aTool, "lookup", "", ""},
	{"OpenLLMetry", "openai.chat", "llm.request.type=chat,gen_ai.system=OpenAI", aModel, "", "", ""},
	{"OpenLLMetry", "openai.completion", "llm.request.type=completion", aModel, "", "", ""},
	{"OpenLLMetry", "openai.embeddings", "llm.request.type=embedding", aModel, "", "", ""},
	{"OpenLLMetry", "cohere.rerank", "llm.request.type=rerank", aModel, "", "", ""},

	// Vercel, AI SDK
	{"AI SDK", "ai.generateText", "operation.name=ai.generateText shop,ai.operationId=ai.generateText,ai.model.id=gpt,ai.telemetry.metadata.sessionId=s1", aAgent, "", "", "s1"},
	{"AI SDK", "ai.generateText.doGenerate", "ai.operationId=ai.generateText.doGenerate,ai.model.id=gpt,gen_ai.request.model=gpt", aModel, "", "", ""},
	{"AI SDK", "ai.streamText", "ai.operationId=ai.streamText,ai.model.id=gpt", aAgent, "", "", ""},
	{"AI SDK", "ai.streamText.doStream", "ai.operationId=ai.streamText.doStream,gen_ai.request.model=gpt", aModel, "", "", ""},
	{"AI SDK", "ai.generateObject", "ai.operationId=ai.generateObject", aAgent, "", "", ""},
	{"AI SDK", "ai.generateObject.doGenerate", "ai.operationId=ai.generateObject.doGenerate", aModel, "", "", ""},
	{"AI SDK", "ai.streamObject", "ai.operationId=ai.streamObject", aAgent, "", "", ""},
	{"AI SDK", "ai.streamObject.doStream", "ai.operationId=ai.streamObject.doStream", aModel, "", "", ""},
	{"AI SDK", "ai.embed", "ai.operationId=ai.embed,ai.model.id=e", aStep, "", "", ""},
	{"AI SDK", "ai.embed.doEmbed", "ai.operationId=ai.embed.doEmbed,ai.model.id=e", aModel, "", "", ""},
	{"AI SDK", "ai.embedMany", "ai.operationId=ai.embedMany", aStep, "", "", ""},
	{"AI SDK", "ai.embedMany.doEmbed", "ai.operationId=ai.embedMany.doEmbed", aModel, "", "", ""},
	{"AI SDK", "ai.rerank", "ai.operationId=ai.rerank", aStep, "", "", ""},
	{"AI SDK", "ai.rerank.doRerank", "ai.operationId=ai.rerank.doRerank", aModel, "", "", ""},
	{"AI SDK", "ai.toolCall", "operation.name=ai.toolCall shop,ai.operationId=ai.toolCall,ai.toolCall.name=lookup,ai.toolCall.id=t1", aTool, "lookup", "t1", ""},
	{"AI SDK before 4", "ai.toolCall", "operation.name=ai.toolCall shop,ai.toolCall.name=lookup", aTool, "lookup", "", ""},
	{"AI SDK before 4", "ai.generateText.doGenerate", "operation.name=ai.generateText.doGenerate shop,ai.prompt=x", aModel, "", "", ""},
}

// Each kind of span of each convention becomes a record with its action, and with the tool, the
// call and the session that the convention names.
func TestConventions(t *testing.T) {
	t.Parallel()
	for _, c := range conventions {
		var attributes []string
		for pair := range strings.SplitSeq(c.attributes, ",") {
			key, value, _ := strings.Cut(pair, "=")
			attributes = append(attributes, text(key, value))
		}
		lines, records := recorded(t, Traces, span(`"name":"`+c.span+`","attributes":[`+strings.Join(attributes, ",")+`]`), Options{})
		var payload struct{ Tool, CallID, SessionID string }
		if err := json.Unmarshal(records[0].Payload, &payload); err != nil {
			t.Errorf("%s: %s: %s", c.source, c.span, lines[0])
			continue
		}
		got := fmt.Sprint(records[0].ActionType, payload)
		if want := fmt.Sprint(c.action, struct{ Tool, CallID, SessionID string }{c.tool, c.callID, c.session}); got != want {
			t.Errorf("%s: %s: %s: %s, want %s", c.source, c.span, c.attributes, got, want)
		}
	}
}

// Every value of the tables, and every attribute that names a tool, a call or a session, has a row
// above, so that none is added without a test.
func TestConventionsAreAllTested(t *testing.T) {
	t.Parallel()
	pairs, keys := map[string]bool{}, map[string]bool{}
	for _, c := range conventions {
		for pair := range strings.SplitSeq(c.attributes, ",") {
			key, value, _ := strings.Cut(pair, "=")
			pairs[fmt.Sprint(attributeFacts[key], value)], keys[key] = true, true
		}
	}
	// of Gemini CLI, in testdata
	elsewhere := map[string]bool{"tool_call": true, "llm_call": true, "agent_call": true}
	for _, by := range valueActions {
		for value := range by.values {
			if !pairs[fmt.Sprint(by.fact, value)] && !elsewhere[value] {
				t.Errorf("%s has no row", value)
			}
		}
	}
	for key, is := range attributeFacts {
		if (is == toolName || is == callID || is == kind || is == step || is == call) && strings.Contains(key, ".") && !keys[key] &&
			key != "gen_ai.tool.call_id" {
			t.Errorf("%s has no row", key)
		}
	}
}

// A span is recorded in the name of the agent that it names, whatever the order of its attributes.
// OpenInference's attribute for that counts on a span of OpenInference alone.
func TestAgentOfSpan(t *testing.T) {
	t.Parallel()
	for attributes, want := range map[string]string{
		text("openinference.span.kind", "AGENT") + "," + text("agent.name", "travel"):                                       "travel",
		text("agent.name", "travel") + "," + text("openinference.span.kind", "AGENT"):                                       "travel",
		text("agent.name", "travel") + "," + text("gen_ai.operation.name", "chat"):                                          "shop",
		text("gen_ai.agent.name", "a") + "," + text("openinference.span.kind", "AGENT") + "," + text("agent.name", "b"):     "a",
		text("gen_ai.operation.name", "execute_tool") + "," + text("gen_ai.agent.id", "id") + "," + text("agent.name", "b"): "id",
	} {
		lines, _ := recorded(t, Traces, span(`"name":"x","attributes":[`+attributes+`]`), Options{})
		if !strings.HasPrefix(lines[0], want+" ") {
			t.Errorf("%s: %s, want %s", attributes, lines[0], want)
		}
	}
}
