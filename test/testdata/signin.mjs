// Agents with keys of their own, by packages that know nothing of the service: jose makes keys, statements and endorsements, dpop makes proofs,
// oauth4webapi and openid-client sign in (private_key_jwt) and call with tokens that are bound to the key.
// node signin.mjs URL COMPANY ADMIN_KEY: exits with 1 at the first thing that is not as it must be, or prints how much it has checked.
import { strict as assert } from "node:assert";
import { createHash, webcrypto } from "node:crypto";

globalThis.crypto ??= webcrypto; // Node 18 has them by import alone
globalThis.CryptoKey ??= webcrypto.CryptoKey;
const jose = await import("jose");
const dpop = await import("dpop");
const oauth = await import("oauth4webapi");
const openid = await import("openid-client");

const [url, company, admin] = process.argv.slice(2);
const issuer = `${url}/o/${company}`;
const endpoint = `${issuer}/token`;
const count = { enrolled: 0, bearer: 0, bound: 0, attested: 0, refused: 0 };
const sha256 = (text) => createHash("sha256").update(text).digest("hex");

async function call(method, path, body, headers = {}, status = 200) {
  const answer = await fetch(url + path, { method, headers: { "Content-Type": "application/json", ...headers }, body: body && JSON.stringify(body) });
  const text = await answer.text();
  assert.equal(answer.status, status, `${method} ${path}: ${text}`);
  return JSON.parse(text);
}
const byAdmin = (method, path, body, status) => call(method, path, body, { Authorization: `Bearer ${admin}` }, status);

const discovery = await byAdmin("GET", `/v1/ca/well-known?companyId=${company}`);
const companyID = `${new URL(discovery.issuer).protocol}//${new URL(discovery.issuer).host}/company/${company}`;

// pair is a key pair that jose makes: jose writes alg EdDSA, and the other packages Ed25519 for the same key.
async function pair(alg) {
  const { publicKey, privateKey } = await jose.generateKeyPair(alg);
  const jwk = await jose.exportJWK(publicKey);
  return { alg, publicKey, privateKey, jwk, kid: await jose.calculateJwkThumbprint(jwk) };
}

// as has no metadata of ours but what a client needs: its issuer and its token endpoint.
const as = { issuer, token_endpoint: endpoint };
const insecure = { [oauth.allowInsecureRequests]: true }; // the test's server has no TLS

async function run(alg) {
  const agent = `bot-${alg}`;
  const id = `${companyID}/agent/${agent}`;
  const keys = `/v1/agents/${agent}/keys`;
  const key = await pair(alg);
  await byAdmin("POST", "/v1/agents/register", { agentId: agent }, 201);

  // It is enrolled by a token and a proof of possession.
  const { token: enrolment } = await byAdmin("POST", `/v1/agents/${agent}/enrolments`, {}, 201);
  const enrol = { Authorization: `Bearer ${enrolment}` };
  await call("POST", keys, { jwk: key.jwk }, enrol, 400);
  const enrolled = await call("POST", keys, { jwk: key.jwk }, { ...enrol, DPoP: await dpop.generateProof(key, url + keys, "POST") }, 201);
  assert.equal(enrolled.thumbprint, key.kid);
  assert.equal(enrolled.alg, alg);
  assert.deepEqual(enrolled.jwk, key.jwk);
  count.enrolled++;

  const session = { sid: `run-${alg}`, seq: 0, prev: undefined };
  // action is the body of an attestation, with a statement that jose signs. Its members stand in the order of RFC 8785.
  async function action(payload, more = {}) {
    const said = { actionType: "payment.sent", agentId: agent, companyId: company, payload };
    const claims = { log: enrolled.log, jti: crypto.randomUUID(), action_hash: sha256(JSON.stringify(said)), sid: session.sid, seq: session.seq, ...more };
    if (session.seq > 0) claims.prev = session.prev;
    const statement = await new jose.SignJWT(claims)
      .setProtectedHeader({ alg, typ: "agent-statement+jwt", kid: key.kid }).setIssuer(id).setAudience(companyID).setIssuedAt().sign(key.privateKey);
    session.seq++;
    session.prev = sha256(statement);
    return { agentId: agent, actionType: said.actionType, payload, statement };
  }
  const statements = [];
  const attests = async (send, ...made) => {
    const body = await action(...made);
    const answer = await send(JSON.stringify(body));
    const text = await answer.text();
    assert.equal(answer.status, 201, text);
    statements.push(body.statement);
    count.attested++;
  };
  const plain = { "Content-Type": "application/json" };
  const target = new URL(`${url}/v1/attest`);

  // oauth4webapi signs in, with a bearer token and with one that is bound.
  const client = { client_id: id };
  const auth = oauth.PrivateKeyJwt({ key: key.privateKey, kid: key.kid });
  const bearer = await oauth.processClientCredentialsResponse(as, client, await oauth.clientCredentialsGrantRequest(as, client, auth, {}, insecure));
  assert.equal(bearer.token_type, "bearer");
  count.bearer++;
  await attests((body) => oauth.protectedResourceRequest(bearer.access_token, "POST", target, new Headers(plain), body, insecure), { amount: 1, to: "a" });

  const handle = oauth.DPoP(client, key);
  const bound = await oauth.processClientCredentialsResponse(as, client, await oauth.clientCredentialsGrantRequest(as, client, auth, {}, { ...insecure, DPoP: handle }));
  assert.equal(bound.token_type, "dpop");
  count.bound++;
  await attests((body) => oauth.protectedResourceRequest(bound.access_token, "POST", target, new Headers(plain), body, { ...insecure, DPoP: handle }), { amount: 2, to: "b" });

  // openid-client does the same.
  const config = new openid.Configuration(as, id, undefined, openid.PrivateKeyJwt({ key: key.privateKey, kid: key.kid }));
  openid.allowInsecureRequests(config);
  const second = await openid.clientCredentialsGrant(config);
  assert.equal(second.token_type, "bearer");
  count.bearer++;
  await attests((body) => openid.fetchProtectedResource(config, second.access_token, target, "POST", body, new Headers(plain)), { amount: 3, to: "c" });
  const DPoP = openid.getDPoPHandle(config, key);
  const third = await openid.clientCredentialsGrant(config, undefined, { DPoP });
  assert.equal(third.token_type, "dpop");
  count.bound++;
  await attests((body) => openid.fetchProtectedResource(config, third.access_token, target, "POST", body, new Headers(plain), { DPoP }), { amount: 4, to: "d" });

  // dpop alone makes the proofs of a bound token. The last statement seals the session.
  const proven = async (token, method, path, by = key) => ({ Authorization: `DPoP ${token}`, DPoP: await dpop.generateProof(by, url + path, method, undefined, token) });
  await attests(async (body) => fetch(target, { method: "POST", body, headers: { ...plain, ...(await proven(bound.access_token, "POST", "/v1/attest")) } }), { amount: 5, to: "e" }, { end: true });

  // What is not proven is refused, and the libraries read why.
  const refused = async (headers, status = 401) => {
    await call("GET", keys, undefined, headers, status);
    count.refused++;
  };
  const once = await proven(bound.access_token, "GET", keys);
  await call("GET", keys, undefined, once);
  await refused(once);
  await refused({ Authorization: `Bearer ${bound.access_token}` });
  await refused({ Authorization: `DPoP ${bound.access_token}` });
  await refused(await proven(bound.access_token, "GET", keys, await pair(alg)));
  await refused(await proven(bearer.access_token, "GET", keys));
  await assert.rejects(
    oauth.protectedResourceRequest(bound.access_token, "GET", new URL(url + keys), new Headers(), null, { ...insecure, DPoP: oauth.DPoP(client, await pair(alg)) }),
    ({ code, status, cause }) => code === "OAUTH_WWW_AUTHENTICATE_CHALLENGE" && status === 401 && cause[0].scheme === "dpop" && cause[0].parameters.error === "invalid_dpop_proof",
  );
  const stranger = oauth.PrivateKeyJwt({ key: (await pair(alg)).privateKey, kid: key.kid });
  await assert.rejects(
    async () => oauth.processClientCredentialsResponse(as, client, await oauth.clientCredentialsGrantRequest(as, client, stranger, {}, insecure)),
    ({ code, error, status }) => code === "OAUTH_RESPONSE_BODY_ERROR" && error === "invalid_client" && status === 401,
  );
  await assert.rejects(openid.clientCredentialsGrant(config, undefined, { DPoP: openid.getDPoPHandle(config, await pair(alg)) }), ({ error }) => error === "invalid_dpop_proof");
  count.refused += 3;

  // The session is sealed, and jose checks each statement from the record and the enrolled key.
  const { sessions } = await byAdmin("GET", `/v1/sessions?agentId=${agent}`);
  assert.equal(sessions.length, 1);
  assert.deepEqual([sessions[0].state, sessions[0].sid, sessions[0].kid, sessions[0].records], ["sealed", session.sid, key.kid, statements.length]);
  const { keys: listed } = await byAdmin("GET", keys);
  const set = jose.createLocalJWKSet({ keys: listed.map(({ jwk, thumbprint: kid }) => ({ ...jwk, kid })) });
  const { records } = await byAdmin("GET", "/v1/records?limit=100");
  const own = records.filter((record) => record.payload.agentId === agent);
  assert.equal(own.length, statements.length);
  for (const { payload } of own) {
    const { statement, actionType, agentId, companyId, payload: what } = payload;
    const said = { actionType, agentId, companyId, payload: { amount: what.amount, to: what.to } }; // the order of RFC 8785
    assert.ok(statements.includes(statement));
    const { payload: claims } = await jose.jwtVerify(statement, set, { issuer: id, audience: companyID, typ: "agent-statement+jwt", algorithms: [alg] });
    assert.equal(claims.action_hash, sha256(JSON.stringify(said)));
  }

  // It enrols its next key by itself: the present one endorses it, and dpop proves both.
  const next = await pair(alg === "EdDSA" ? "ES256" : "EdDSA");
  const endorsement = await new jose.SignJWT({ jkt: next.kid })
    .setProtectedHeader({ alg, typ: "agent-key+jwt", kid: key.kid }).setIssuer(id).setAudience(companyID).setIssuedAt().sign(key.privateKey);
  const proof = await dpop.generateProof(next, url + keys, "POST");
  await call("POST", keys, { jwk: next.jwk, endorsement, proof }, await proven(bound.access_token, "POST", keys), 201);
  count.enrolled++;
}

for (const alg of ["EdDSA", "ES256"]) await run(alg);
console.log(JSON.stringify(count));
