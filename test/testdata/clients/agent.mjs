// Signs in as an agent with keys of each kind, signs a session, enrols the next key, and hears of one that it does not know. node agent.mjs URL KEY SPIFFE-ID
import { Agent, Client, generateKey, signerOf, UnknownKeyError } from "../../../sdk/typescript/dist/index.js";

const [url, credential, spiffeId] = process.argv.slice(2);
const admin = new Client({ url, credential });
const known = [];
for (const algorithm of ["EdDSA", "ES256"]) {
  for (const dpop of [false, true]) {
    const { jwk, sign } = await signerOf(await generateKey(algorithm));
    const key = { jwk, sign: async (input) => sign(input) }; // a callback
    known.push((await admin.enrolKey({ agentId: "bot", key, label: "test" })).thumbprint);
    const alarms = [];
    const made = () => new Agent({ key, spiffeId, dpop, known, alarm: (error) => alarms.push(error) });
    const client = new Client({ url, credential: made() });
    const session = client.session();
    await session.attest({ agentId: "bot", actionType: "a", payload: { "é": [1.0, "\u2028"] } });
    await session.attest({ agentId: "other", actionType: "a", payload: 1 }).then(() => { throw new Error("signed for another"); }, () => {});
    await session.end({ agentId: "bot", actionType: "a", payload: null });
    const next = await signerOf(await generateKey());
    known.push((await client.enrolKey({ agentId: "bot", key: next })).thumbprint);
    if (alarms.length) throw alarms[0];
    const stranger = await admin.enrolKey({ agentId: "bot", key: await signerOf(await generateKey()) });
    await new Client({ url, credential: made() }).listAgentKeys({ agentId: "bot" });
    if (!(alarms[0] instanceof UnknownKeyError) || alarms[0].key.thumbprint !== stranger.thumbprint) throw new Error("no alarm about the stranger");
    known.push(stranger.thumbprint);
    console.log(algorithm, dpop, "alarms", alarms.length);
  }
}
