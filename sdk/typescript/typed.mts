// What the compiler takes of the built package, and what it refuses. It is never run.
import { Client } from "attestd";
import { Spool } from "attestd/spool";
import { Keys, verifyEvidence, verifyRecord } from "attestd/verify";

const client = new Client({ url: "https://attest.example.com", credential: process.env.ATTESTD_KEY });
const issued = await client.issuePassport({ agentId: "bot", ttl: 60, scopes: ["*"] });
await client.issuePassport({ agentId: "bot", ttl: 60 });
const token: string = issued.passport;
const page = await client.listAgents();
const agents: string[] = page.agents.map(({ agentId }) => agentId);
for await (const record of client.records()) await verifyRecord(record, await Keys.pin(await client.getPublicKeys({ companyId: agents[0]! }), record.hash));
for await (const found of client.search({ agent: "bot", action: "file.*", q: "text", order: "oldest", limit: 5 })) found.hash.trim();
for await (const line of await client.getReport()) line.trim();
const verdict = await client.verifyPassport({ passport: token });
const said: string = verdict.valid ? verdict.scopeGranted : verdict.code;
const checkpoint: string = await client.getCheckpoint({ logId: said });
const tile: Uint8Array = await client.getTile({ logId: checkpoint, path: "0/000" });
const attested = await (await Spool.open("spool", client)).attest({ agentId: "bot", actionType: "typed", payload: tile.length });
if (!attested.queued) attested.record.hash.trim();
await verifyEvidence(tile, { fingerprint: checkpoint, agentKey: said });
const session = client.session("one", { continues: client.session().last });
await client.revokeAgentKey({ agentId: "bot", thumbprint: session.id, reason: null, since: said });
const approved = await client.ask({ agentId: "bot", tool: "bank/transfer", arguments: { amount: 500 }, reason: "March" });
const until: string = (await client.awaitApproval({ approvalId: approved.approvalId })).expiresAt;
until.trim();
await client.createKey();
await client.registerAgent({ agentId: "bot", "If-None-Match": "*" });

// @ts-expect-error a key of the agent alone names no company
await verifyEvidence(tile, { agentKey: said });
// @ts-expect-error agentId is the name of the reference
await client.issuePassport({ agent: "bot" });
// @ts-expect-error agentId is a string
await client.issuePassport({ agentId: 3 });
// @ts-expect-error agentId is missing
await client.getAgent();
// @ts-expect-error there is no such order
client.search({ order: "up" });
// @ts-expect-error there is no such operation
await client.getAgents();
// @ts-expect-error an attestation has a payload
await client.attest({ agentId: "bot", actionType: "typed" });
