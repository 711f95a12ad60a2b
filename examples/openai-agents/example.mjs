// An agent with two tools whose model is a script: node example.mjs FOLDER, with ATTESTD_URL and
// ATTESTD_KEY in the environment.
import { Agent, Runner, setTraceProcessors, tool, Usage } from "@openai/agents";
import { Client } from "attestd";
import { Spool } from "attestd/spool";
import { z } from "zod";
import { AttestdProcessor } from "./processor.mjs";

const call = (callId, name, args) => ({ type: "function_call", callId, name, arguments: JSON.stringify(args), status: "completed" });
const text = (said) => ({ type: "message", role: "assistant", status: "completed", content: [{ type: "output_text", text: said }] });
const script = [call("1", "weather", { city: "Oslo" }), call("2", "book", { city: "Oslo" }), text("It rains in Oslo, and I could not book.")];
const model = {
  getResponse: async () => ({ usage: new Usage(), output: [script.shift()] }),
  async* getStreamedResponse() { throw new Error("this model does not stream"); },
};

const parameters = z.object({ city: z.string() });
const agent = new Agent({
  name: "travel-bot",
  tools: [
    tool({ name: "weather", description: "Tells the weather", parameters, execute: async ({ city }) => `rain in ${city}` }),
    tool({ name: "book", description: "Books a room", parameters, execute: async () => { throw new Error("no room"); } }),
  ],
});

const client = new Client({ url: process.env.ATTESTD_URL, credential: process.env.ATTESTD_KEY });
const spool = await Spool.open(process.argv[2], client);
const processor = new AttestdProcessor(spool, "travel-bot");
setTraceProcessors([processor]); // or addTraceProcessor, to keep the exporter that is there
const result = await new Runner({ modelProvider: { getModel: () => model }, tracingDisabled: false }).run(agent, "A room in Oslo?");
console.log(result.finalOutput);
await processor.forceFlush();
await spool.flush();
