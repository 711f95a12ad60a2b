// Works with a spool and prints what came of it: node waiting.mjs URL KEY FOLDER add N | flush |
// drain. add puts N items in it, each with an amount of 1000; drain runs the spool until it is
// empty, and attests one record after the other meanwhile.
import { setTimeout } from "node:timers/promises";
import { Client } from "../../../sdk/typescript/dist/index.js";
import { RefusedError, Spool } from "../../../sdk/typescript/dist/spool.js";

const [url, credential, folder, command, count] = process.argv.slice(2);
const client = new Client({ url, credential, retry: { times: 0 } });
const spool = await Spool.open(folder, client);
const refused = [];
const failed = [];
const note = (error) => {
  if (error instanceof RefusedError) refused.push(...error.refused.map(({ file }) => file));
  else failed.push(String(error));
};

if (command === "add") for (let n = 0; n < Number(count); n++) await spool.add({ agentId: "bot", actionType: "paid", payload: { amount: 1000, n } });
if (command === "flush") await spool.flush().catch(note);
if (command === "drain") {
  const stop = new AbortController();
  const running = spool.run(50, stop.signal, note);
  while (await spool.pending()) {
    await client.attest({ agentId: "bot", actionType: "live", payload: null });
    await setTimeout(200);
  }
  stop.abort();
  await running;
}
console.log(JSON.stringify({ pending: await spool.pending(), refused, failed }));
