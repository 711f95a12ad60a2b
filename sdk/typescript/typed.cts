// What the compiler takes of the built package in CommonJS. It is never run.
import attestd = require("attestd");
import spool = require("attestd/spool");
import verify = require("attestd/verify");

export async function typed(): Promise<string> {
  const client = new attestd.Client({ url: "https://attest.example.com", credential: "svc_key" });
  const keys = await verify.Keys.pin(await client.getPublicKeys({ companyId: "acme" }), "SHA256:");
  const { queued } = await (await spool.Spool.open("spool", client)).attest({ agentId: "bot", actionType: "typed", payload: queuedBefore });
  await verify.verifyRecord(await client.attest({ agentId: "bot", actionType: "typed", payload: queued }), keys);
  return (await client.issuePassport({ agentId: "bot", ttl: 60 })).passport;
}

const queuedBefore: boolean = false;
