// Signs in as an agent and attests where each proof has to repeat a nonce, and counts the requests. node nonce.mjs URL KEY SPIFFE-ID
import { Agent, Client, generateKey, signerOf } from "../../../sdk/typescript/dist/index.js";

const [url, credential, spiffeId] = process.argv.slice(2);
const key = await signerOf(await generateKey("ES256"));
await new Client({ url, credential }).enrolKey({ agentId: "bot", key });

let counts = new Map();
let spoils = false; // the nonce of the next answer
let never = false; // is a proof good
const NAMES = { "/v1/oauth/token": "sign-in", "/v1/agents/bot/keys": "keys", "/v1/attest": "attest" };
async function counting(at, init) {
  const name = NAMES[new URL(at).pathname] ?? "lines";
  counts.set(name, (counts.get(name) ?? 0) + 1);
  const refused = { status: name === "sign-in" ? 400 : 401, headers: { "DPoP-Nonce": `n${Math.random()}` } };
  if (never) return new Response(JSON.stringify(name === "sign-in" ? { error: "use_dpop_nonce" } : { error: "Unauthorized", code: "USE_DPOP_NONCE" }), refused);
  const answer = await fetch(at, init);
  if (!spoils) return answer;
  spoils = false;
  const headers = new Headers(answer.headers);
  headers.set("DPoP-Nonce", "stale");
  return new Response(answer.body, { status: answer.status, headers });
}
const agent = new Agent({ key, spiffeId, dpop: true });
const made = () => new Client({ url, credential: agent, fetch: counting, retry: { times: 0 } });
const client = made();
const attest = (by) => by.attest({ agentId: "bot", actionType: "a", payload: 1 });
const count = async (f) => {
  counts = new Map();
  await f();
  return counts;
};
const all = (found) => [...found].map(([name, n]) => `${name} ${n}`).join(", ");
const spoil = async (by) => {
  spoils = true;
  await by.listAgentKeys({ agentId: "bot" });
};
console.log(all(await count(() => attest(client))));
console.log(all(await count(() => attest(client))));
await spoil(client);
console.log("stale:", all(await count(() => attest(client))));
await spoil(client);
console.log("stale: sign-in", (await count(() => attest(made()))).get("sign-in"));
await spoil(client);
console.log("stale:", all(await count(() => client.getReport().then(() => { throw new Error("an agent reads a report"); }, ({ code }) => { if (code !== "FORBIDDEN_ROLE") throw new Error(code); }))));
never = true;
const refused = (f) => count(() => f().then(() => { throw new Error("attested"); }, ({ status }) => { if (status !== 400 && status !== 401) throw new Error(status); }));
const most = Math.max(...(await refused(() => attest(client))).values(), ...(await refused(() => attest(made()))).values());
console.log("never content:", most, "at most");
