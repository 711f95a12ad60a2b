// Adds attestations to a spool, and prints the number of each once it is safe there; flushes meanwhile. node spool.mjs URL KEY FOLDER FIRST; with "flush" for FIRST it
// sends what is left and ends.
import { Client } from "../../../sdk/typescript/dist/index.js";
import { Spool } from "../../../sdk/typescript/dist/spool.js";

const [url, credential, folder, first] = process.argv.slice(2);
const spool = await Spool.open(folder, new Client({ url, credential }));
if (first === "flush") {
  await spool.flush();
  process.exit(await spool.pending());
}
for (let n = Number(first); ; n++) {
  await spool.add({ agentId: "bot", actionType: "count", payload: n });
  console.log(n);
  if (n % 5 === 0) spool.flush();
}
