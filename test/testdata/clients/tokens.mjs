// Gets tokens for others, checks them with jose as whoever accepts them does, and renews them before their end. node tokens.mjs URL KEY
import { createRemoteJWKSet, jwtVerify } from "jose";
import { Client } from "../../../sdk/typescript/dist/index.js";

const [url, credential] = process.argv.slice(2);
const client = new Client({ url, credential });
const metadata = await (await fetch(`${url}/o/acme/.well-known/openid-configuration`)).json();
const keys = createRemoteJWKSet(new URL(metadata.jwks_uri), { cooldownDuration: 0 });
for (const alg of ["ES256", "RS256", "EdDSA"]) {
  const { token } = await client.token({ agentId: "bot", audience: "https://mcp.example", alg });
  const { payload, protectedHeader } = await jwtVerify(token, keys, { issuer: metadata.issuer, audience: "https://mcp.example", typ: "JWT", algorithms: metadata.id_token_signing_alg_values_supported });
  console.log(protectedHeader.alg, payload.sub, payload.agent_id);
  await jwtVerify(token, keys, { issuer: metadata.issuer, audience: "https://elsewhere.example" }).then(() => { throw new Error("another audience"); }, () => {});
}

let asked = 0, fails = false;
const clock = Date.now;
const renewing = new Client({
  url, credential, retry: { times: 0 },
  fetch: async (_url, init) => {
    const n = ++asked;
    await Promise.resolve();
    if (fails) return new Response('{"error":"no","code":"NOT_DONE"}', { status: 503, headers: { "Content-Type": "application/json" } });
    return new Response(JSON.stringify({ token: `t${n}`, tokenType: "t", expiresAt: JSON.parse(init.body).audience }), { status: 201, headers: { "Content-Type": "application/json" } });
  },
});
const get = async (audience = "a") => (await renewing.token({ agentId: "bot", audience })).token;
const at = (seconds) => { const now = clock() + seconds * 1000; Date.now = () => now; };
const said = [...new Set(await Promise.all(Array.from({ length: 20 }, () => get())))];
said.push(await get("b"));
at(230); said.push(await get());
at(245); said.push(await get());
fails = true;
at(245 + 270); said.push(await get());
at(245 + 299); said.push(await get().catch((error) => error.status));
console.log(said.join(" "));
