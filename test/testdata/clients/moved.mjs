// Attests in a session under a key of the caller's, or without one: FILE URL FOLDER ID N [KEY] prints what the statement says of its place and of others, or the code of a refusal. With "" for
// FOLDER the session is one in memory.
import { readFileSync } from "node:fs";
import { Agent, Client, ServiceError } from "../../../sdk/typescript/dist/index.js";
import { Spool } from "../../../sdk/typescript/dist/spool.js";

const [file, url, folder, id, n, key] = process.argv.slice(2);
const client = new Client({ url, credential: await Agent.parse(readFileSync(file, "utf8")), retry: { times: 0 } });
const session = folder ? await (await Spool.open(folder, client)).session(id) : client.session(id);
const attestation = { agentId: "bot", actionType: "count", payload: Number(n), ...(key && { idempotencyKey: key }) };
const answer = await session.attest(attestation).catch((error) => {
  if (!(error instanceof ServiceError)) throw error;
  return error;
});
if (answer instanceof ServiceError) console.log(JSON.stringify({ code: answer.code, id: session.id }));
else {
  const { statement } = (answer.record ?? answer).payload;
  const { sid, seq, refused, continues } = JSON.parse(Buffer.from(statement.split(".")[1], "base64url"));
  console.log(JSON.stringify({ sid, seq, refused, continues, id: session.id, last: session.last }));
}
