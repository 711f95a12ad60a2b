// Attests in a session of a spool, under a key of the caller's: FILE URL FOLDER KEY N prints what
// becomes of it, as queued, a record's index or a refusal, and of the flush after it.
import { readFileSync } from "node:fs";
import { Agent, Client } from "../../../sdk/typescript/dist/index.js";
import { Spool } from "../../../sdk/typescript/dist/spool.js";

const [file, url, folder, key, n] = process.argv.slice(2);
const client = new Client({ url, credential: await Agent.parse(readFileSync(file, "utf8")), retry: { times: 1, min: 1, max: 1 } });
const spool = await Spool.open(folder, client);
const session = await spool.session("one");
const attestation = { agentId: "bot", actionType: "count", payload: Number(n), idempotencyKey: key };
const said = [];
for (let i = 0; i < 2; i++) {
  said.push(await session.attest(attestation).then(({ queued, record }) => (queued ? "queued" : String(record.index)), (error) => error.code || error.name));
}
await spool.flush().catch(() => said.push("left"));
console.log(JSON.stringify(said));
