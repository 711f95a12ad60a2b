// An agent that pays when a person approves it, and whose model is a script: node approve.mjs, with
// ATTESTD_URL and ATTESTD_KEY in the environment.
import { Agent, Runner, tool, Usage } from "@openai/agents";
import { Client } from "attestd";
import { z } from "zod";
import { runApproved } from "./approval.mjs";

const model = {
  getResponse: async ({ input }) => {
    const last = input.at(-1);
    const said = last.type === "function_call_result" ? `The hotel: ${last.output.text ?? last.output}.` : "";
    const output = said
      ? { type: "message", role: "assistant", status: "completed", content: [{ type: "output_text", text: said }] }
      : { type: "function_call", callId: "call-1", name: "pay", arguments: '{"amount":500}', status: "completed" };
    return { usage: new Usage(), output: [output] };
  },
  async* getStreamedResponse() { throw new Error("this model does not stream"); },
};

const agent = new Agent({
  name: "travel-bot",
  tools: [tool({
    name: "pay", description: "Pays the hotel", parameters: z.object({ amount: z.number() }), needsApproval: true,
    execute: async ({ amount }) => `paid ${amount}`,
  })],
});

const client = new Client({ url: process.env.ATTESTD_URL, credential: process.env.ATTESTD_KEY });
const runner = new Runner({ modelProvider: { getModel: () => model }, tracingDisabled: true });
const result = await runApproved(client, runner, agent, [{ role: "user", content: "Pay the hotel" }], "travel-bot");
console.log(result.finalOutput);
