// Attests behind a gateway that answers some requests itself, and prints what came of it: node
// gateway.mjs KEYFILE URL KEY FOLDER ROUND go | end. end sends what is left, and ends the session.
import { readFileSync } from "node:fs";
import { Agent, AttestdError, Client } from "../../../sdk/typescript/dist/index.js";
import { RefusedError, Spool } from "../../../sdk/typescript/dist/spool.js";

const [keyFile, url, key, folder, round, mode] = process.argv.slice(2);
const agent = await Agent.parse(readFileSync(keyFile, "utf8"), { dpop: true });
const retry = { times: 1, min: 0, max: 1 };
const unsigned = await Spool.open(`${folder}/${round}-unsigned`, new Client({ url, credential: key, retry }));
const signed = await Spool.open(`${folder}/${round}`, new Client({ url, credential: agent, retry }));
const session = await signed.session(round);
const refused = [];
const undecided = (error) => {
  if (error instanceof RefusedError) refused.push(...error.refused.map(({ reason }) => reason));
  else if (!(error instanceof AttestdError)) throw error;
};
const made = (kind, n) => ({ agentId: "bot", actionType: "a.b", payload: `${round} ${kind} ${n}` });
for (let n = 0; mode === "go" && n < 18; n++) {
  await unsigned.attest(made("u-sent", n));
  await unsigned.add(made("u-added", n));
  await session.attest(made("sent", n));
  await session.add(made("added", n));
  await unsigned.flush().catch(undecided);
  await signed.flush().catch(undecided);
}
if (mode === "end") {
  await session.end(made("end", 0));
  await unsigned.flush();
  await signed.flush();
}
console.log(JSON.stringify({ pending: await unsigned.pending() + await signed.pending(), refused }));
