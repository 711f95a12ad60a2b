// Signs in one session until it is killed, and flushes meanwhile. node session.mjs KEYFILE URL FOLDER MODE; with "end" for MODE it ends the session, and sends all that is left.
import { readFileSync } from "node:fs";
import { Agent, Client } from "../../../sdk/typescript/dist/index.js";
import { Spool } from "../../../sdk/typescript/dist/spool.js";

const [keyFile, url, folder, mode] = process.argv.slice(2);
const agent = await Agent.parse(readFileSync(keyFile, "utf8"), { dpop: true });
const spool = await Spool.open(folder, new Client({ url, credential: agent, retry: { times: 0 } }));
const session = await spool.session("shared");
if (mode === "end") {
  await session.end({ agentId: "bot", actionType: "end", payload: true });
  await spool.flush();
  process.exit(await spool.pending());
}
for (let n = 0; ; n++) {
  await Promise.all([session.attest({ agentId: "bot", actionType: "count", payload: n }), session.add({ agentId: "bot", actionType: "count", payload: { n } })]);
  if (n % 5 === 0) spool.flush().catch(() => {});
}
