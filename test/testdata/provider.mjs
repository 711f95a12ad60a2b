// oidc-provider as it is, the authorization server of somebody else: its access tokens become an
// agent here (federation), and that agent's tokens for others are redeemed there (RFC 7523), by a
// grant that the library lets its users register.
// node provider.mjs URL COMPANY ADMIN_KEY: exits with 1 at the first thing that is not as it must
// be, or prints how much it has checked.
import { strict as assert } from "node:assert";
import { webcrypto } from "node:crypto";
import { createServer } from "node:http";

globalThis.crypto ??= webcrypto; // Node 18 has them by import alone
globalThis.CryptoKey ??= webcrypto.CryptoKey;
URL.parse ??= (text, base) => (URL.canParse(text, base) ? new URL(text, base) : null); // from Node 20 on
const jose = await import("jose");
const { default: Provider, errors } = await import("oidc-provider");

const [url, company, admin] = process.argv.slice(2);
const issuer = `${url}/o/${company}`;
const jwtBearer = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const tokenExchange = "urn:ietf:params:oauth:grant-type:token-exchange";
const count = { federated: 0, redeemed: 0, refused: 0 };

// The other server, with a client for each workload.
const http = createServer();
await new Promise((listens) => http.listen(0, "127.0.0.1", listens));
const theirs = `http://127.0.0.1:${http.address().port}`;
const pairs = await Promise.all(["ES256", "RS256"].map((alg) => jose.generateKeyPair(alg, { extractable: true })));
const keys = await Promise.all(pairs.map(async ({ privateKey }, n) => ({ ...(await jose.exportJWK(privateKey)), kid: String(n), use: "sig" })));
const client = (client_id, alg) => ({
  client_id, client_secret: "secret", redirect_uris: [], response_types: [], grant_types: ["client_credentials", jwtBearer], alg,
});
const clients = [client("ci-deploy", "ES256"), client("ci-other", "RS256")];
const provider = new Provider(theirs, {
  clients: clients.map(({ alg, ...rest }) => rest),
  jwks: { keys },
  ttl: { ClientCredentials: 300 },
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: false },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (_ctx, resource, { clientId }) => ({
        scope: "", audience: resource, accessTokenTTL: 300, accessTokenFormat: "jwt",
        jwt: { sign: { alg: clients.find((c) => c.client_id === clientId).alg } },
      }),
    },
  },
});
// The grant verifies our tokens by our metadata alone.
const metadata = await (await fetch(`${issuer}/.well-known/openid-configuration`)).json();
assert.equal(metadata.issuer, issuer);
const ours = jose.createRemoteJWKSet(new URL(metadata.jwks_uri));
provider.registerGrantType(jwtBearer, async (ctx) => {
  const { payload } = await jose.jwtVerify(ctx.oidc.params.assertion, ours, {
    issuer, audience: theirs, typ: "JWT", algorithms: metadata.id_token_signing_alg_values_supported, requiredClaims: ["exp", "sub", "jti"],
  }).catch((error) => { throw new errors.InvalidGrant(error.message); });
  if (payload.sub !== `spiffe://attestd.local/company/${company}/agent/deploy`) throw new errors.InvalidGrant("another agent");
  const token = new provider.ClientCredentials({ client: ctx.oidc.client, scope: undefined, extra: { on_behalf_of: payload.sub } });
  ctx.body = { access_token: await token.save(), token_type: token.tokenType, expires_in: token.expiration };
}, ["assertion"]);
http.on("request", provider.callback());

async function post(to, form, authorization) {
  const headers = { "Content-Type": typeof form === "string" ? "application/json" : "application/x-www-form-urlencoded", ...(authorization && { Authorization: authorization }) };
  const answer = await fetch(to, { method: "POST", headers, body: typeof form === "string" ? form : new URLSearchParams(form) });
  return { status: answer.status, ...(await answer.json()) };
}
const basic = (id) => `Basic ${Buffer.from(`${id}:secret`).toString("base64")}`;
const theirToken = async (id, resource) => {
  const { access_token } = await post(`${theirs}/token`, { grant_type: "client_credentials", resource }, basic(id));
  assert.equal(access_token.split(".").length, 3);
  return access_token;
};
const refused = (answer, why) => {
  assert.deepEqual([answer.status, answer.error], [400, "invalid_grant"]);
  assert.match(answer.error_description, why);
  count.refused++;
};

// Its tokens here.
const made = await post(`${url}/v1/federation`, JSON.stringify({
  name: "others", issuer: theirs, audience: issuer, rules: [{ match: { sub: "ci-deploy" }, agentId: "deploy", register: true }],
}), `Bearer ${admin}`);
assert.equal(made.status, 201, JSON.stringify(made));
const federate = (assertion) => post(`${issuer}/token`, { grant_type: jwtBearer, assertion });
const exchange = (subject_token) => post(`${issuer}/token`, {
  grant_type: tokenExchange, subject_token, subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
});
let agent;
for (const way of [federate, exchange]) {
  const presented = await theirToken("ci-deploy", issuer);
  const answer = await way(presented);
  assert.equal(answer.status, 200, JSON.stringify(answer));
  agent = answer.access_token;
  const record = await post(`${url}/v1/attest`, JSON.stringify({ agentId: "deploy", actionType: "deploy.started", payload: 1 }), `Bearer ${agent}`);
  assert.deepEqual([record.status, record.payload.agentId], [201, "deploy"]);
  const other = await post(`${url}/v1/attest`, JSON.stringify({ agentId: "other", actionType: "x", payload: 1 }), `Bearer ${agent}`);
  assert.equal(other.status, 403);
  count.federated++;
  refused(await way(presented), /used before/);
  refused(await way(await theirToken("ci-other", issuer)), /rule/);
  refused(await way(await theirToken("ci-deploy", "https://other.example/")), /aud/);
}

// The agent's tokens there.
const redeem = (assertion) => post(`${theirs}/token`, { grant_type: jwtBearer, assertion }, basic("ci-deploy"));
const issue = async (audience, alg) =>
  (await post(`${url}/v1/agents/deploy/token`, JSON.stringify({ audience, alg }), `Bearer ${agent}`)).token;
const algorithms = ["ES256", "RS256", "EdDSA"];
// All first: their keys are made now, and the other server keeps the key set that it has read.
const tokens = await Promise.all(algorithms.map((alg) => issue(theirs, alg)));
for (const [n, token] of tokens.entries()) {
  const answer = await redeem(token);
  assert.equal(answer.status, 200, JSON.stringify(answer));
  count.redeemed++;
  const elsewhere = await redeem(await issue("https://other.example", algorithms[n]));
  assert.deepEqual([elsewhere.status, elsewhere.error], [400, "invalid_grant"]);
  count.refused++;
}
http.close();
http.closeAllConnections();
console.log(JSON.stringify(count));
