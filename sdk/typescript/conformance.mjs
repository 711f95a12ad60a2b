// The runner of the TypeScript client for test/conformance, which says what it reads and writes.
// With the argument "require" it takes the client as CommonJS.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const load = process.argv[2] === "require" ? createRequire(import.meta.url) : (name) => import(name);
const { Agent, AttestdError, Client, ConnectionError, NotApprovedError, OtherLogError, PayloadError, RecordMismatchError, ServiceError, VerificationError } = await load("attestd");
const { FullError, RefusedError, Spool } = await load("attestd/spool");
const { Keys, verifyEvidence, verifyPassport, verifyProof, verifyRecord } = await load("attestd/verify");

let client;
let spool;
const sessions = {};

const refusal = async (check, held, failed) => check.then(held, (error) => {
  if (!(error instanceof VerificationError)) throw error;
  return failed(error);
});
const genuine = (check) => refusal(check, () => ({ genuine: true }), () => ({ genuine: false }));

const calls = {
  async new({ url, key, oauth, agent, timeoutMs, retry, spool: folder, spoolLimit }) {
    // an alarm is an error of a call here, and nothing for standard error
    const credential = agent ? await Agent.parse(readFileSync(agent, "utf8"), { alarm: () => {} }) : oauth ? { clientId: oauth.clientId, clientSecret: oauth.clientSecret } : key;
    client = new Client({ url, ...(credential && { credential }), timeout: timeoutMs, retry: { times: retry.times, min: retry.minMs, max: retry.maxMs } });
    spool = await Spool.open(folder, client, spoolLimit ? { limit: spoolLimit } : {});
    return {};
  },
  attest: (args) => client.attest(args),
  attestBatch: async ({ records }) => ({ records: await client.attestAll(records) }),
  records: async (args) => ({ records: await collect(client.records(args)) }),
  ...(globalThis.WebSocket && {
    async stream({ count, ...args }) {
      const records = [];
      for await (const { record } of client.stream(args)) if (records.push(record) === count) break;
      return { records };
    },
  }),
  search: async (args) => ({ records: await collect(client.search(args)) }),
  verifyChain: () => client.verifyChain(),
  proof: (args) => client.getProof(args),
  evidence: (args) => client.getEvidence(args),
  health: async () => ((await client.getHealth()), {}),
  registerAgent: (args) => client.registerAgent(args),
  issuePassport: (args) => client.issuePassport(args),
  verifyPassport: (args) => client.verifyPassport(args),
  ask: (args) => client.ask(args),
  requestApproval: (args) => client.requestApproval(args),
  putPolicy: (args) => client.putPolicy(args),
  testPolicies: (args) => client.testPolicies(args),
  revokePassport: (args) => client.revokePassport(args),
  delegate: (args) => client.delegate(args),
  checkRecord: async ({ record, key }) => genuine(verifyRecord(record, await Keys.of(key, record.payload.companyId))),
  checkProof: async ({ proof, key, root }) => genuine(verifyProof(proof, await Keys.of(key, proof.record.payload.companyId), root ? { root } : {})),
  checkPassport: async ({ passport, key, companyId, ...call }) => refusal(verifyPassport(passport, await Keys.of(key, companyId), call),
    ({ scopeGranted }) => ({ valid: true, scopeGranted }), ({ code }) => ({ valid: false, code })),
  checkEvidence: ({ evidence, ...trust }) => refusal(verifyEvidence(evidence, trust), ({ checked }) => ({ verdict: "holds", word: checked.find((said) => said.includes("signed this")) }), ({ code }) => ({ verdict: "fails", code })),
  agentKeys: async () => ((await client.listAgentKeys({ agentId: client.agent.agentId })), {}),
  sessionBegin: async ({ id, continues }) => ((sessions.memory = client.session(id, { continues })), {}),
  sessionAttest: (args) => signed(sessions.memory, args),
  sessionLast: async () => sessions.memory.last,
  spoolSessionBegin: async ({ id, continues }) => ((sessions.spool = await spool.session(id, { continues })), {}),
  spoolSessionAttest: (args) => signed(sessions.spool, args),
  spoolSessionLast: async () => sessions.spool.last,
  spoolAttest: (args) => spool.attest(args),
  spoolFlush: async () => ((await spool.flush()), {}),
  spoolPending: async () => ({ pending: await spool.pending() }),
};

const signed = async (session, { end, ...attestation }) => session[end ? "end" : "attest"](attestation);

async function collect(source) {
  const all = [];
  for await (const one of source) all.push(one);
  return all;
}

function errorOf(error) {
  if (error instanceof ServiceError) return { kind: "status", status: error.status, code: error.code, pointer: error.pointer };
  if (error instanceof NotApprovedError) return { kind: "notApproved", state: error.approval.state };
  if (error instanceof ConnectionError) return { kind: "connection" };
  if (error instanceof PayloadError) return { kind: "invalid" };
  if (error instanceof FullError) return { kind: "full" };
  if (error instanceof RecordMismatchError) return { kind: "mismatch" };
  if (error instanceof OtherLogError) return { kind: "otherLog" };
  if (error instanceof AttestdError && error.message === "the session has ended") return { kind: "ended" };
  if (error instanceof RefusedError) return { kind: "refused", refused: error.refused.length };
  throw error;
}

for await (const line of createInterface({ input: process.stdin })) {
  const { call, args } = JSON.parse(line);
  const answer = calls[call] ? await calls[call](args).then((result) => ({ result }), (error) => ({ error: errorOf(error) })) : { error: { kind: "unsupported" } };
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
