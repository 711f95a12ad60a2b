// A second implementation of all that attestd signs, written from the specification and with Node's own library alone.
// node agreement.mjs evidence.json: exits with 1 at the first disagreement, or prints how much it has checked.
import { strict as assert } from "node:assert";
import { createHash, createPublicKey, verify } from "node:crypto";
import { readFileSync } from "node:fs";

const count = { records: 0, delegations: 0, proofs: 0, steps: 0, tokens: 0, statuses: 0, refused: 0 };
const ids = new Set(); // of tokens: no two may share one

// RFC 8785: the numbers and strings of JSON.stringify are its numbers and strings, and the order of sort is its order.
function canonicalize(value) {
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  if (Array.isArray(value)) return "[" + value.map((item) => canonicalize(item)).join(",") + "]";
  const members = Object.keys(value).sort().map((name) => JSON.stringify(name) + ":" + canonicalize(value[name]));
  return "{" + members.join(",") + "}";
}

const sha256 = (data) => createHash("sha256").update(data).digest();
const hex = (text) => sha256(text).toString("hex");

// Base64url without padding, and only as it would be written again.
function base64url(text) {
  const bytes = Buffer.from(text, "base64url");
  assert.equal(bytes.toString("base64url"), text);
  return bytes;
}

const signs = (key, signature, message) => verify(null, message, key, base64url(signature));

function flip(bytes) {
  const copy = Buffer.from(bytes);
  const bit = (count.refused * 37) % (copy.length * 8);
  copy[bit >> 3] ^= 1 << (bit & 7);
  return copy;
}

// The signature holds for the message, and not with one bit of either changed, nor for another key.
function checkSignature(key, other, signature, message) {
  assert.ok(signs(key, signature, message), "a signature does not verify");
  assert.ok(!signs(key, signature, flip(message)));
  assert.ok(!signs(key, flip(base64url(signature)).toString("base64url"), message));
  assert.ok(!signs(other, signature, message));
  count.refused += 3;
}

function checkKey(answer, company) {
  const key = createPublicKey(answer.pem);
  const der = key.export({ type: "spki", format: "der" });
  const kid = hex(der).slice(0, 16);
  assert.equal(answer.companyId, company);
  assert.equal(answer.spiffeId, `spiffe://attestd.local/company/${company}`);
  assert.equal(answer.kid, kid);
  assert.equal(answer.fingerprint, "SHA256:" + sha256(der).toString("base64url"));
  const { x } = key.export({ format: "jwk" });
  assert.deepEqual(answer.jwk, { kty: "OKP", crv: "Ed25519", x, kid, alg: "EdDSA", use: "sig" });
  assert.deepEqual(answer.keys, [answer.jwk]);
  return { key, kid };
}

function checkRecord(sent, index, before, company, keys) {
  const record = JSON.parse(sent.Answer);
  assert.equal(sent.Chain, sent.Answer, "the chain tells a record in other words than the answer did");
  assert.deepEqual(Object.keys(record).sort(), ["hash", "index", "payload", "signature", "timestamp", ...(sent.Delegation ? ["delegation"] : [])].sort());
  assert.equal(record.index, index);
  assert.match(record.timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.ok(record.timestamp >= before, "time runs backwards");

  // The hash is computed from what was sent, not from what was answered.
  const payload = { agentId: sent.AgentID, companyId: company, actionType: sent.ActionType, payload: JSON.parse(sent.Payload) };
  const parts = [index, record.timestamp, canonicalize(payload)];
  assert.equal(canonicalize(record.payload), parts[2]);
  if (sent.Delegation) {
    const info = delegationInfo(claimsOf(sent.Delegation.Token));
    assert.deepEqual(record.delegation, info);
    parts.push(canonicalize(info));
    count.delegations++;
  }
  assert.equal(record.hash, hex(parts.join("|")), `the hash of ${sent.Payload.slice(0, 300)}`);
  checkSignature(keys.key, keys.other, record.signature, Buffer.from(record.hash, "hex"));
  count.records++;
  return record;
}

const claimsOf = (token) => JSON.parse(base64url(token.split(".")[1]));

function delegationInfo({ sub, act, jti }) {
  const delegationChain = [sub];
  for (let actor = act; actor; actor = actor.act) delegationChain.push(actor.sub);
  return { subject: sub, delegationChain, act: act ?? null, tokenId: jti };
}

// RFC 6962, section 2.1, over hex: the split is at the largest power of two below n.
const split = (n) => 2 ** Math.floor(Math.log2(n - 1));
const roots = new Map();

function rootOf(hashes, from, to) {
  if (to === from) return hex("");
  if (to - from === 1) return hashes[from];
  const name = `${hashes[from]} ${to - from}`;
  if (!roots.has(name)) {
    const middle = from + split(to - from);
    roots.set(name, hex(rootOf(hashes, from, middle) + rootOf(hashes, middle, to)));
  }
  return roots.get(name);
}

function pathOf(hashes, index, from, to) {
  if (to - from === 1) return [];
  const middle = from + split(to - from);
  return index < middle
    ? [...pathOf(hashes, index, from, middle), { sibling: rootOf(hashes, middle, to), position: "right" }]
    : [...pathOf(hashes, index, middle, to), { sibling: rootOf(hashes, from, middle), position: "left" }];
}

const climb = (hash, proof) =>
  proof.reduce((at, { sibling, position }) => (position === "left" ? hex(sibling + at) : hex(at + sibling)), hash);

function checkProof(text, record, hashes, root) {
  const answer = JSON.parse(text);
  assert.deepEqual(answer.record, record);
  assert.equal(answer.root, root);
  assert.equal(climb(record.hash, answer.proof), root);
  assert.deepEqual(answer.proof, pathOf(hashes, record.index, 0, hashes.length));
  for (const [at, step] of answer.proof.entries()) { // a changed step leads elsewhere
    const sibling = flip(Buffer.from(step.sibling, "hex")).toString("hex");
    const changed = Object.assign([...answer.proof], { [at]: { ...step, sibling } });
    assert.notEqual(climb(record.hash, changed), root);
    count.refused++;
    count.steps++;
  }
  count.proofs++;
}

function checkToken(expected, company, { key, other, kid }) {
  const [header, claims, signature, ...rest] = expected.Token.split(".");
  assert.equal(rest.length, 0);
  const passport = expected.Kind === "passport";
  assert.deepEqual(JSON.parse(base64url(header)), { alg: "EdDSA", kid, typ: passport ? "CAP+JWT" : "JWT" });
  checkSignature(key, other, signature, Buffer.from(`${header}.${claims}`));

  const { iss, sub, aud, iat, nbf, exp, jti, ...more } = JSON.parse(base64url(claims));
  assert.equal(iss, "spiffe://attestd.local/ca");
  assert.deepEqual(aud, [passport ? "service:passport:v1" : "service"]);
  assert.ok(Number.isInteger(iat) && Math.abs(iat - Date.now() / 1000) < 600);
  assert.equal(nbf, iat);
  assert.equal(exp, iat + expected.TTL);
  assert.match(jti, /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/);
  assert.ok(!ids.has(jti), "two tokens share a jti");
  ids.add(jti);
  if (passport) {
    const agent = expected.Principal.at(-1);
    assert.equal(sub, agent);
    assert.deepEqual(more, {
      service: {
        v: 1, agentId: agent.split("/").at(-1), org: company, orgSpiffeId: `spiffe://attestd.local/company/${company}`,
        scopes: expected.Scopes, delegationChain: expected.Principal,
      },
    });
  } else {
    assert.deepEqual(delegationInfo({ sub, jti, ...more }).delegationChain, expected.Principal);
    assert.equal(more.scope ?? "", expected.Scope);
    assert.deepEqual(Object.keys(more).sort(), [...(expected.Principal.length > 1 ? ["act"] : []), ...(expected.Scope ? ["scope"] : [])]);
  }
  count.tokens++;
}

function checkStatus(expected, company, pem, { key, other }) {
  const { caPublicKey, signature, ...signed } = JSON.parse(expected.Answer);
  assert.equal(caPublicKey, pem);
  checkSignature(key, other, signature, sha256(canonicalize(signed)));
  const { checkedAt, revokedAt, ...said } = signed;
  assert.ok(Math.abs(Date.parse(checkedAt) - Date.now()) < 600_000);
  assert.equal(expected.Status === "revoked", revokedAt !== undefined && Date.parse(revokedAt) <= Date.parse(checkedAt));
  assert.deepEqual(said, { jti: expected.JTI, companyId: company, status: expected.Status, ...(expected.Reason && { reason: expected.Reason }) });
  count.statuses++;
}

const all = JSON.parse(readFileSync(process.argv[2], "utf8"));
const keys = all.map(({ Key, Company }) => checkKey(Key, Company));
for (const [i, { Company, Key, Verify, Records, Tokens, Statuses }] of all.entries()) {
  const own = { ...keys[i], other: keys[(i + 1) % keys.length].key };
  let before = "";
  const records = Records.map((sent, index) => {
    const record = checkRecord(sent, index, before, Company, own);
    before = record.timestamp;
    return record;
  });
  const hashes = records.map(({ hash }) => hash);
  const root = rootOf(hashes, 0, hashes.length);
  assert.deepEqual(Verify, { valid: true, merkleRoot: root });
  records.forEach((record, index) => checkProof(Records[index].Proof, record, hashes, root));
  Tokens.forEach((token) => checkToken(token, Company, own));
  Statuses.forEach((status) => checkStatus(status, Company, Key.pem, own));
}
console.log(JSON.stringify(count));
