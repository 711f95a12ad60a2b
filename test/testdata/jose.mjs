// The tokens of a company over three changes of its key, and then one because of a theft, as the package jose checks them: with its
// createRemoteJWKSet, which knows nothing of the service but the jwks_uri.
// node jose.mjs URL KEY: exits with 1 at the first thing that is not as it must be, or prints how much it has checked.
import { strict as assert } from "node:assert";
import { webcrypto } from "node:crypto";

globalThis.crypto ??= webcrypto; // Node 18 has it by import alone
const { createRemoteJWKSet, decodeProtectedHeader, jwksCache, jwtVerify } = await import("jose");

const [url, key] = process.argv.slice(2);
const count = { verified: 0, expired: 0, found: 0, refused: 0, compromised: 0 };

async function call(method, path, body) {
  const answer = await fetch(url + path, { method, headers: { Authorization: `Bearer ${key}` }, body: body && JSON.stringify(body) });
  assert.ok(answer.ok, `${method} ${path}: ${answer.status}`);
  return answer.json();
}

const discovery = await call("GET", "/v1/ca/well-known?companyId=acme");
const jwks = new URL(discovery.jwks_uri);
const { claims_namespace: service, audience } = discovery.passport_format;

// One token of each kind by the key that signs now, with what a verifier must demand of it.
async function issue() {
  const passport = await call("POST", "/v1/agents/bot/passport", { ttl: 86400 });
  const delegation = await call("POST", "/v1/token-exchange", { agentId: "bot", actingOn: "acme", scope: "pay" });
  const svid = { typ: "JWT", audience: service, lifetime: 3600 };
  return [
    { ...svid, token: (await call("POST", "/v1/companies/svid")).svid },
    { ...svid, token: (await call("GET", "/v1/agents/bot/svid")).svid },
    { ...svid, token: delegation.token },
    { typ: "CAP+JWT", audience, lifetime: 86400, token: passport.passport },
  ];
}

const check = (set, { token, lifetime, ...demand }, at = new Date()) =>
  jwtVerify(token, set, { algorithms: ["EdDSA"], issuer: discovery.issuer, currentDate: at, ...demand });

const kidOf = ({ token }) => decodeProtectedHeader(token).kid;
const holds = (set, token) => set.jwks().keys.some(({ kid }) => kid === kidOf(token));

async function refuses(set, token, code, at) {
  await assert.rejects(check(set, token, at), { code });
  count.refused++;
}

// A token verifies until the last second before it expires, and as what it is alone.
async function good(set, token) {
  const { payload, protectedHeader } = await check(set, token);
  assert.equal(payload.exp - payload.iat, token.lifetime);
  assert.deepEqual(Object.keys(protectedHeader).sort(), ["alg", "kid", "typ"]);
  await check(set, token, new Date(payload.exp * 1000 - 1));
  count.verified++;
  await refuses(set, token, "ERR_JWT_EXPIRED", new Date(payload.exp * 1000));
  count.expired++;
  await refuses(set, { ...token, typ: token.typ === "JWT" ? "CAP+JWT" : "JWT" }, "ERR_JWT_CLAIM_VALIDATION_FAILED");
  const [header, claims, signature] = token.token.split(".");
  const flipped = (signature[0] === "A" ? "B" : "A") + signature.slice(1);
  await refuses(set, { ...token, token: [header, claims, flipped].join(".") }, "ERR_JWS_SIGNATURE_VERIFICATION_FAILED");
}

// The set that a client of jose's own settings has held for half a minute. Then its cooldown, which keeps made-up kids from making it ask
// again and again, is over.
const held = (set) => createRemoteJWKSet(jwks, { [jwksCache]: { jwks: set.jwks(), uat: Date.now() - 30_001 } });

await call("POST", "/v1/agents/register", { agentId: "bot" });
const steady = createRemoteJWKSet(jwks, { cooldownDuration: 0 }); // one client all along
const tokens = await issue();
for (const token of tokens) await good(steady, token);

for (let rotation = 1; rotation <= 3; rotation++) {
  const byDefault = held(steady);
  await call("POST", "/v1/companies/rotate-keys");
  const fresh = await issue();
  for (const set of [byDefault, steady]) {
    assert.ok(holds(set, tokens[0]) && !holds(set, fresh[0]), "the client's cache is to hold the old set");
    await check(set, fresh[0]);
    assert.ok(holds(set, fresh[0]), "the client has not asked again");
    count.found++;
  }
  tokens.push(...fresh);
  for (const set of [byDefault, steady, createRemoteJWKSet(jwks)]) for (const token of tokens) await good(set, token);
}
assert.equal(new Set(tokens.map(kidOf)).size, 4);

// After a theft, a client that has refreshed finds no key of before: it does so when it meets the new one, or when its set is too old.
const [waiting, byDefault] = [createRemoteJWKSet(jwks), held(steady)];
await waiting.reload();
await call("POST", "/v1/companies/rotate-keys", { compromised: true });
const fresh = await issue();
await waiting.reload(); // as it does by itself ten minutes after the last time
for (const set of [waiting, byDefault, steady, createRemoteJWKSet(jwks)]) {
  for (const token of fresh) await good(set, token);
  assert.equal(set.jwks().keys.length, 1);
  for (const token of tokens) {
    await refuses(set, token, "ERR_JWKS_NO_MATCHING_KEY");
    count.compromised++;
  }
}

console.log(JSON.stringify(count));
