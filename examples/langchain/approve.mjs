// An agent that pays when a person approves it, and whose model is a script: node approve.mjs, with
// ATTESTD_URL and ATTESTD_KEY in the environment.
import { AIMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { END, MemorySaver, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { Client } from "attestd";
import { approved, invokeApproved } from "./approval.mjs";

const client = new Client({ url: process.env.ATTESTD_URL, credential: process.env.ATTESTD_KEY });

const pay = tool(approved({ client, agentId: "travel-bot", tool: "pay", run: async ({ amount }) => `paid ${amount}` }), {
  name: "pay", description: "Pays the hotel", schema: { type: "object", properties: { amount: { type: "number" } }, required: ["amount"] },
});

const model = async ({ messages }) => {
  const last = messages.at(-1);
  if (last instanceof ToolMessage) return { messages: [new AIMessage(`The hotel: ${last.content}.`)] };
  return { messages: [new AIMessage({ content: "", tool_calls: [{ id: "call-1", name: "pay", args: { amount: 500 }, type: "tool_call" }] })] };
};

// An interrupt has to reach the graph, so only other errors become answers.
const tools = async ({ messages }, config) => {
  const [call] = messages.at(-1).tool_calls;
  return { messages: [await pay.invoke(call, config).catch((error) => {
    if (error.name === "GraphInterrupt") throw error;
    return new ToolMessage({ content: error.message, tool_call_id: call.id });
  })] };
};

const graph = new StateGraph(MessagesAnnotation)
  .addNode("model", model)
  .addNode("tools", tools)
  .addEdge(START, "model")
  .addConditionalEdges("model", ({ messages }) => (messages.at(-1).tool_calls?.length ? "tools" : END))
  .addEdge("tools", "model")
  .compile({ checkpointer: new MemorySaver() }); // one that outlives the program, in earnest

const { messages } = await invokeApproved(client, graph, { messages: [new HumanMessage("Pay the hotel")] }, { configurable: { thread_id: "1" } });
console.log(messages.at(-1).content);
