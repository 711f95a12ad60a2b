// OAuth clients by packages that know nothing of the service: oauth4webapi and openid-client find the issuer's metadata, get tokens with a scope and for a resource,
// by a secret and by a key, bound to keys with a nonce, and introspect and revoke them; jose verifies what is a JWT.
// node oauth.mjs URL COMPANY ADMIN_KEY: exits with 1 at the first thing that is not as it must be, or prints how much it has checked.
import { strict as assert } from "node:assert";
import { webcrypto } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";

globalThis.crypto ??= webcrypto; // Node 18 has them by import alone
globalThis.CryptoKey ??= webcrypto.CryptoKey;
const jose = await import("jose");
const oauth = await import("oauth4webapi");
const openid = await import("openid-client");

const [url, company, admin] = process.argv.slice(2);
const issuer = new URL(`${url}/o/${company}`);
const insecure = { [oauth.allowInsecureRequests]: true }; // the test's server has no TLS
const count = { discovered: 0, issued: 0, introspected: 0, revoked: 0, nonces: 0, refused: 0, exchanged: 0 };

async function create(body) {
  const answer = await fetch(`${url}/v1/oauth/clients`, { method: "POST", headers: { "Content-Type": "application/json", Authorization: `Bearer ${admin}` }, body: JSON.stringify(body) });
  assert.equal(answer.status, 201);
  return answer.json();
}

// Both ways to the metadata lead to the same.
const as = await oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer, { ...insecure, algorithm: "oauth2" }));
const oidc = await oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer, { ...insecure, algorithm: "oidc" }));
assert.deepEqual(as, oidc);
count.discovered += 2;

const made = await create({ role: "writer" });
const pair = await jose.generateKeyPair("ES256");
const signing = await create({ role: "writer", jwks: { keys: [{ ...(await jose.exportJWK(pair.publicKey)), kid: "one" }] } });
assert.equal(signing.clientSecret, undefined);
// RSA keys: given, and at a URL
const [rsa, pss] = [await jose.generateKeyPair("RS256"), await jose.generateKeyPair("PS256")];
const given = await create({ role: "writer", jwks: { keys: [{ ...(await jose.exportJWK(rsa.publicKey)), kid: "rsa", alg: "RS256", use: "sig" }] } });
const published = JSON.stringify({ keys: [{ ...(await jose.exportJWK(pss.publicKey)), kid: "pss", alg: "PS256", use: "sig" }] });
const server = createServer((_request, response) => response.end(published)).listen(0, "127.0.0.1");
await once(server, "listening");
server.unref();
const fetched = await create({ role: "writer", jwksUri: `http://127.0.0.1:${server.address().port}/jwks` });
for (const algorithm of ["RS256", "PS256", "ES256"]) assert.ok(as.token_endpoint_auth_signing_alg_values_supported.includes(algorithm));
const ways = [
  [{ client_id: made.clientId }, oauth.ClientSecretBasic(made.clientSecret), openid.ClientSecretBasic(made.clientSecret)],
  [{ client_id: made.clientId }, oauth.ClientSecretPost(made.clientSecret), openid.ClientSecretPost(made.clientSecret)],
  [{ client_id: signing.clientId }, oauth.PrivateKeyJwt({ key: pair.privateKey, kid: "one" }), openid.PrivateKeyJwt({ key: pair.privateKey, kid: "one" })],
  [{ client_id: given.clientId }, oauth.PrivateKeyJwt({ key: rsa.privateKey, kid: "rsa" }), openid.PrivateKeyJwt({ key: rsa.privateKey, kid: "rsa" })],
  [{ client_id: fetched.clientId }, oauth.PrivateKeyJwt({ key: pss.privateKey, kid: "pss" }), openid.PrivateKeyJwt({ key: pss.privateKey, kid: "pss" })],
];
const proofKey = async () => webcrypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, false, ["sign", "verify"]);
const keys = jose.createRemoteJWKSet(new URL(as.jwks_uri));

for (const [client, auth, auth2] of ways) {
  const DPoP = oauth.DPoP(client, await proofKey());
  const ask = async (params, options = {}) => {
    const send = () => oauth.clientCredentialsGrantRequest(as, client, auth, params, { ...insecure, ...options }).then((response) => oauth.processClientCredentialsResponse(as, client, response));
    try {
      return await send();
    } catch (error) {
      if (!oauth.isDPoPNonceError(error)) throw error;
      count.nonces++;
      return send(); // the handle has the nonce now
    }
  };
  const introspect = async (token) => {
    count.introspected++;
    return oauth.processIntrospectionResponse(as, client, await oauth.introspectionRequest(as, client, auth, token, insecure));
  };
  const revoke = async (token) => {
    count.revoked++;
    await oauth.processRevocationResponse(await oauth.revocationRequest(as, client, auth, token, insecure));
  };

  const plain = await ask({});
  assert.equal(plain.scope, undefined);
  assert.equal((await introspect(plain.access_token)).scope, "writer");
  const narrow = await ask({ scope: "reader" });
  assert.equal(narrow.scope, "reader");
  const bound = await ask({ scope: "reader" }, { DPoP });
  assert.equal(bound.token_type, "dpop");
  const known = await introspect(bound.access_token);
  assert.deepEqual([known.active, known.scope, known.client_id, known.token_type, known.iss], [true, "reader", client.client_id, "DPoP", as.issuer]);
  const call = () => oauth.protectedResourceRequest(bound.access_token, "GET", new URL(`${url}/v1/agents`), new Headers(), null, { ...insecure, DPoP });
  assert.equal((await call()).status, 200);
  count.issued += 3;

  const resource = "https://mcp.example/";
  const jwt = await ask({ resource, scope: "reader" }, { DPoP });
  const { payload } = await jose.jwtVerify(jwt.access_token, keys, { issuer: as.issuer, audience: resource, typ: "at+jwt", algorithms: ["ES256"] });
  assert.deepEqual([payload.client_id, payload.scope], [client.client_id, "reader"]);
  assert.ok(payload.cnf.jkt);
  // oauth4webapi checks a JWT as a server that takes it does
  const headers = new Headers({ Authorization: `DPoP ${jwt.access_token}` });
  await assert.rejects(oauth.validateJwtAccessToken(as, new Request(resource, { headers }), resource, insecure));
  const unbound = await ask({ resource, scope: "reader" });
  const seen = await oauth.validateJwtAccessToken(as, new Request(resource, { headers: { Authorization: `Bearer ${unbound.access_token}` } }), resource, insecure);
  assert.equal(seen.client_id, client.client_id);
  count.issued += 2;

  for (const token of [plain, narrow, bound, jwt, unbound]) {
    await revoke(token.access_token);
    assert.deepEqual(await introspect(token.access_token), { active: false });
  }
  await revoke("oauth_unknown");
  for (const scope of ["admin", "openid"]) {
    await assert.rejects(ask({ scope }), ({ error, status }) => error === "invalid_scope" && status === 400);
    count.refused++;
  }
  await assert.rejects(ask({ resource: "http://mcp.example" }), ({ error }) => error === "invalid_target");
  count.refused++;

  // openid-client does the same, from discovery on.
  const config = await openid.discovery(issuer, client.client_id, undefined, auth2, { execute: [openid.allowInsecureRequests], algorithm: "oauth2" });
  const handle = openid.getDPoPHandle(config, await proofKey());
  const second = await openid.clientCredentialsGrant(config, { scope: "reader", resource }, { DPoP: handle });
  assert.equal(second.scope, "reader");
  assert.equal((await openid.tokenIntrospection(config, second.access_token)).active, true);
  await openid.tokenRevocation(config, second.access_token);
  assert.equal((await openid.tokenIntrospection(config, second.access_token)).active, false);
  const third = await openid.clientCredentialsGrant(config, { scope: "reader" }, { DPoP: handle });
  assert.equal((await openid.fetchProtectedResource(config, third.access_token, new URL(`${url}/v1/agents`), "GET", null, new Headers(), { DPoP: handle })).status, 200);
  count.discovered++;
  count.issued += 2;
  count.introspected += 2;
  count.revoked++;
}

// Token exchange (RFC 8693) of two agents' SVIDs, and then of the result: the current actor is the outermost.
const register = async (agentId) => {
  const answer = await fetch(`${url}/v1/agents/register`, { method: "POST", headers: { "Content-Type": "application/json", Authorization: `Bearer ${admin}` }, body: JSON.stringify({ agentId }) });
  assert.equal(answer.status, 201);
  return answer.json();
};
const [planner, runner, last] = [await register("planner"), await register("runner"), await register("last")];
const exchanger = await create({ role: "admin" });
const client = { client_id: exchanger.clientId };
const type = "urn:ietf:params:oauth:token-type:jwt";
const grant = "urn:ietf:params:oauth:grant-type:token-exchange";
const of = (subject, actor, more) => ({ subject_token: subject, subject_token_type: type, actor_token: actor, actor_token_type: type, ...more });
const resource = "https://mcp.example/";
const response = await oauth.genericTokenEndpointRequest(as, client, oauth.ClientSecretBasic(exchanger.clientSecret), grant, of(planner.svid, runner.svid), insecure);
const first = await oauth.processGenericTokenEndpointResponse(as, client, response, { recognizedTokenTypes: { n_a: () => {} } });
assert.equal(first.issued_token_type, type);
const config = await openid.discovery(issuer, client.client_id, undefined, openid.ClientSecretPost(exchanger.clientSecret), { execute: [openid.allowInsecureRequests], algorithm: "oauth2" });
// for others an exchange is good when an admin has named them
await assert.rejects(openid.genericGrantRequest(config, grant, of(first.access_token, last.svid, { resource })), ({ error }) => error === "invalid_target");
const named = await fetch(`${url}/v1/company/policy`, { method: "PUT", headers: { "Content-Type": "application/json", Authorization: `Bearer ${admin}` }, body: JSON.stringify({ exchangeAudiences: [resource] }) });
assert.deepEqual((await named.json()).exchangeAudiences, [resource]);
const second = await openid.genericGrantRequest(config, grant, of(first.access_token, last.svid, { resource }));
assert.equal(second.issued_token_type, "urn:ietf:params:oauth:token-type:access_token");
const { payload } = await jose.jwtVerify(second.access_token, keys, { issuer: as.issuer, audience: resource, typ: "at+jwt" });
assert.deepEqual([payload.sub, payload.act], [planner.spiffeId, { sub: last.spiffeId, act: { sub: runner.spiffeId } }]);
const shown = await openid.tokenIntrospection(config, second.access_token);
assert.deepEqual([shown.active, shown.act], [true, payload.act]);
count.exchanged += 2;
console.log(JSON.stringify(count));
