// Uses what the conformance file does not reach: many calls at once, a signal, values that JSON does not carry, a long answer, and a spool whose disk or
// credential fails. node use.mjs URL KEY
import { deepStrictEqual, rejects } from "node:assert/strict";
import { chmod, chown, mkdir, mkdtemp, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, PayloadError } from "../../../sdk/typescript/dist/index.js";
import { RefusedError, Spool } from "../../../sdk/typescript/dist/spool.js";
import { Keys, verifyProof, verifyToken } from "../../../sdk/typescript/dist/verify.js";

const [url, credential] = process.argv.slice(2);
const client = new Client({ url, credential });
const collect = async (source) => {
  const all = [];
  for await (const one of source) all.push(one);
  return all;
};

const records = await Promise.all(Array.from({ length: 20 }, (_, n) => client.attest({ agentId: "bot", actionType: "at once", payload: { n } })));
deepStrictEqual(records.map(({ index }) => index).sort((a, b) => a - b), Array.from({ length: 20 }, (_, n) => n));
deepStrictEqual((await collect(client.records({ from: 3, limit: 2 }))).map(({ index }) => index), [3, 4]);
if ((await collect(await client.getReport({}))).length <= 20) throw new Error("the report is not whole");

for (const [payload, pointer] of [[{ a: [1, { "b/c": 2n ** 60n }] }, "/payload/a/1/b~1c"], [NaN, "/payload"], [2 ** 60, "/payload"], [undefined, "/payload"]]) {
  await rejects(client.attest({ agentId: "bot", actionType: "refused", payload }), (error) => error instanceof PayloadError && error.pointer === pointer);
}
deepStrictEqual((await client.attest({ agentId: "bot", actionType: "kept", payload: [12n, 1e300] })).payload.payload, [12, 1e300]);
await rejects(client.attest({ agentId: "bot", actionType: "stopped", payload: 1 }, { signal: AbortSignal.abort(new Error("no more")) }), /no more/);

for (const [call, meant] of [
  [() => client.issuePassport({ agentId: "bot", scope: ["tool:read"] }), /did you mean scopes\?/],
  [() => client.issuePassport({ agentId: "bot", Scopes: ["tool:read"] }), /did you mean scopes\?/],
  [() => client.createKey({ role: "reader", expires: "2030-01-01T00:00:00.000Z" }), /did you mean expiresAt\?/],
  [() => client.createKey({ rol: "reader" }), /did you mean role\?/],
  [() => client.createKey({ expires_at: undefined }), /did you mean expiresAt\?/],
  [() => client.listKeys({ all: true }), /it has none/],
  [() => client.listKeys({}, { signals: null }), /did you mean signal\?/],
  [() => client.raw("getEvidence", { index: 0, logs: "control" }), /did you mean log\?/],
  [() => collect(client.records({ form: 3 })), /did you mean from\?/],
  [() => collect(client.search({ agents: "bot" })), /did you mean agent\?/],
  [() => collect(client.stream({ form: 3 })), /did you mean from\?/],
  [() => client.attest({ agentId: "bot", actionType: "a", payload: 1, idempotency_key: "k" }), /did you mean idempotencyKey\?/],
  [() => client.attestAll([{ agentId: "bot", actionType: "a", payload: 1, delegations: "t" }]), /did you mean delegation\?/],
  [async () => new Client({ url, credentials: "k" }), /did you mean credential\?/],
  [async () => new Client({ url, retry: { time: 3 } }), /did you mean times\?/],
  [async () => new Client({ url, credential: { client_id: "a", clientSecret: "b" } }), /did you mean clientId\?/],
  [() => Spool.open("never", client, { limits: 3 }), /did you mean limit\?/],
  [() => verifyProof("{}", null, { rot: "00" }), /did you mean root\?/],
]) await rejects(call, (error) => error instanceof TypeError && meant.test(error.message));

const { companyId } = await client.getCompany();
const published = await client.getPublicKeys({ companyId });
const keys = await Keys.pin(published, published.keys[0].fingerprint);
await verifyProof(await client.getProof({ index: 2, log: "control" }), keys, { log: "control" });
await client.registerAgent({ agentId: "bot" });
deepStrictEqual((await verifyToken((await client.getAgentSVID({ agentId: "bot" })).svid, keys)).kind, "SVID");

// The folder of a spool is the user's alone, and one in which others may write is refused.
if (process.geteuid) {
  const base = await mkdtemp(join(tmpdir(), "attestd-folder-"));
  try {
    const umask = process.umask(0);
    await Spool.open(join(base, "one", "spool"), client);
    process.umask(umask);
    for (const name of ["one", "one/spool", "one/spool/pending"]) deepStrictEqual((await stat(join(base, name))).mode & 0o777, 0o700, name);
    await mkdir(join(base, "shared", "below"), { recursive: true });
    await symlink("shared/below", join(base, "link"));
    for (const mode of [0o770, 0o707]) {
      await chmod(join(base, "shared"), mode);
      for (const place of ["shared", "shared/new", "shared/below", "link", "link/new"]) await rejects(Spool.open(join(base, place), client), /may write/, place);
    }
    await chmod(join(base, "shared"), 0o1777);
    await Spool.open(join(base, "shared", "below"), client);
    if (process.geteuid() === 0) {
      await chown(join(base, "shared", "below"), 12345, 12345);
      await rejects(Spool.open(join(base, "shared", "below", "new"), client), /another user/);
    }
  } finally {
    await rm(base, { recursive: true });
  }
}

const folder = await mkdtemp(join(tmpdir(), "attestd-spool-"));
try {
  const count = async () => (await collect(client.records())).length;
  const before = await count();
  const spool = await Spool.open(folder, client);
  for (let i = 0; i < 2; i++) await spool.add({ agentId: "bot", actionType: "queued", payload: { same: true }, idempotencyKey: "one key" });
  await writeFile(join(folder, "pending", "00000000000000000-torn.json"), '{"agentId":"bo');
  await rejects(spool.flush(), (error) => error instanceof RefusedError && error.refused.map(({ file }) => file).join() === "00000000000000000-torn.json");
  deepStrictEqual([await spool.pending(), await count()], [0, before + 1]);

  const unable = await Spool.open(folder, new Client({ url, credential: (await client.createKey({ role: "reader" })).key }));
  await unable.add({ agentId: "bot", actionType: "queued", payload: 1 });
  await rejects(unable.flush(), { code: "FORBIDDEN_ROLE" });
  deepStrictEqual(await unable.pending(), 1);
} finally {
  await rm(folder, { recursive: true });
}
