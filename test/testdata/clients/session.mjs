// Signs in one session until it is killed, and flushes meanwhile; each tenth attestation has a delegation that the service refuses. node session.mjs KEYFILE URL FOLDER MODE DELEGATION;
// with "end" for MODE it sends all that is left, and ends the session.
import { readFileSync } from "node:fs";
import { Agent, Client, ServiceError } from "../../../sdk/typescript/dist/index.js";
import { RefusedError, Spool } from "../../../sdk/typescript/dist/spool.js";

const [keyFile, url, folder, mode, foreign] = process.argv.slice(2);
const agent = await Agent.parse(readFileSync(keyFile, "utf8"), { dpop: true });
const spool = await Spool.open(folder, new Client({ url, credential: agent, retry: { times: 0 } }));
const session = await spool.session("shared");
const refusable = (error) => { if (!(error instanceof ServiceError) && !(error instanceof RefusedError)) throw error; };
if (mode === "end") {
  await spool.flush().catch(refusable); // the end names what was refused
  await session.end({ agentId: "bot", actionType: "end", payload: true });
  await spool.flush();
  process.exit(await spool.pending());
}
for (let n = 0; ; n++) {
  const attestation = (payload, refused) => ({ agentId: "bot", actionType: "count", payload, ...(refused && { delegation: foreign }) });
  await Promise.all([session.attest(attestation(n, n % 10 === 3)).catch(refusable), session.add(attestation({ n }, n % 10 === 7))]);
  if (n % 5 === 0) spool.flush().catch(() => {});
}
