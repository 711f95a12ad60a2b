// An agent with two tools whose model is a script: node example.mjs FOLDER, with ATTESTD_URL and
// ATTESTD_KEY in the environment.
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { RunnableLambda } from "@langchain/core/runnables";
import { tool } from "@langchain/core/tools";
import { FakeChatModel } from "@langchain/core/utils/testing";
import { Client } from "attestd";
import { Spool } from "attestd/spool";
import { AttestdHandler } from "./handler.mjs";

const call = (id, name, args) => new AIMessage({ content: "", tool_calls: [{ id, name, args, type: "tool_call" }] });
const script = [call("1", "weather", { city: "Oslo" }), call("2", "book", { city: "Oslo" }), new AIMessage("It rains in Oslo, and I could not book.")];

class Model extends FakeChatModel {
  async _generate() {
    const message = script.shift();
    return { generations: [{ message, text: message.text }] };
  }
}

const model = new Model({});
const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const tools = {
  weather: tool(async ({ city }) => `rain in ${city}`, { name: "weather", description: "Tells the weather", schema }),
  book: tool(async () => { throw new Error("no room"); }, { name: "book", description: "Books a room", schema }),
};

const agent = RunnableLambda.from(async (question, config) => {
  const messages = [new HumanMessage(question)];
  for (;;) {
    const answer = await model.invoke(messages, config);
    messages.push(answer);
    if (!answer.tool_calls?.length) return answer.content;
    for (const asked of answer.tool_calls) {
      messages.push(await tools[asked.name].invoke(asked, config).catch((error) => new HumanMessage(`${asked.name}: ${error.message}`)));
    }
  }
});

const client = new Client({ url: process.env.ATTESTD_URL, credential: process.env.ATTESTD_KEY });
const spool = await Spool.open(process.argv[2], client);
console.log(await agent.invoke("A room in Oslo?", { callbacks: [new AttestdHandler(spool, "travel-bot")] }));
await spool.flush();
