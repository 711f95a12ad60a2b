// returns the fingerprint, of all keys where it is a list of them: compare one with what the
// company gave you
export function checkKey(key) {
  if ("origin" in key) return ring(key).map(checkKey);
  must(isString(key.pem), "not a key");
  const one = createPublicKey(key.pem), spki = (format) => one.export({ type: "spki", format }), digest = sha256(spki("der"));
  must(one.asymmetricKeyType === "ed25519", "not an Ed25519 key");
  must(key.pem === spki("pem"), "the key is spelt in another way");
  const fingerprint = `SHA256:${digest.toString("base64url")}`;
  must(key.fingerprint === fingerprint && key.kid === digest.toString("hex").slice(0, 16) && key.jwk.x === one.export({ format: "jwk" }).x, "the key is not the one that it says");
  return fingerprint;
}

const checkSignature = (key, signature, message) =>
  must(verify(null, message, key.pem, unbase64url(signature)), "the signature is not the company's");

// of a rotation: with whole fingerprints, or in the form of before, with the kids alone
const statements = (origin, at, old, one) =>
  [["v2", old.fingerprint, one.fingerprint], ["v1", old.kid, one.kid]].map(([version, ...names]) => `attestd/key-rotation/${version}\n${origin}\n${at}\n${names.join("\n")}\n`);

// all keys of the company, each proven by the one before it; or the one that was given
function ring(key) {
  if (!("origin" in key)) return [key];
  const { companyId, spiffeId, origin } = key, keys = key.keys.map((one) => ({ companyId, spiffeId, ...one }));
  must(keys.every(({ fromIndex }) => typeof fromIndex === "bigint"), "not the index of a record, or not read with read()");
  must(keys.length > 0 && keys[0].fromIndex === 0n && !("rotation" in keys[0]), "the first key is missing");
  must(!("endedAt" in keys.at(-1)), "the last key has ended");
  must([companyId, spiffeId, origin].every(isString), "not a string");
  keys.forEach((one, i) => {
    checkKey(one);
    if (i === 0) return;
    const { fromIndex, rotation: { statement, oldSignature, newSignature } } = one, old = keys[i - 1];
    must(fromIndex >= old.fromIndex, "the keys are not in order");
    must(statements(origin, fromIndex, old, one).includes(statement), "the proof is of another rotation");
    checkSignature(old, oldSignature, Buffer.from(statement));
    checkSignature(one, newSignature, Buffer.from(statement));
  });
  return keys;
}

// those whose tokens of a time, in Unix milliseconds, may be good now: no key counts after its end
const tokenKeys = (key, at = 0) =>
  ring(key).filter(({ endedAt, ...one }) => !("compromisedAt" in one)
    && (endedAt === undefined || at <= milliseconds(endedAt) && Date.now() < milliseconds(endedAt) + 86400_000));

// the form comes first: parts that moved from one member to another have the same hash
function digestOf(record, company, log = "actions") {
  exactly(record, ["index", "timestamp", "payload", "hash", "signature"], ["delegation"]);
  const { index, timestamp, payload } = record;
  must(typeof index === "bigint" && index >= 0n && index < 2n ** 53n, "the index is not an integer, or was not read with read()");
  milliseconds(timestamp);
  exactly(payload, ["agentId", "companyId", "actionType", "payload", ...log === "control" ? ["log"] : []], log === "control" ? [] : ["statement"]);
  must((log === "control" ? payload.log : "actions") === log, "the record is of another log");
  must([payload.agentId, payload.actionType, Object.hasOwn(payload, "statement") ? payload.statement : ""].every(isString), "not a string");
  must(payload.companyId === company, "the record is of another company");
  const digest = digestOfParts(String(index), timestamp, [payload], ...delegationOf(record));
  must(digest.toString("hex") === record.hash, "the record was changed");
  return digest;
}

function delegationOf(record) {
  if (!Object.hasOwn(record, "delegation")) return [];
  const { delegation: info } = record;
  exactly(info, ["subject", "delegationChain", "act", "tokenId"]);
  must(Array.isArray(info.delegationChain) && typeof info.act === "object" && !Array.isArray(info.act), "not a delegation");
  must([info.subject, info.tokenId, ...info.delegationChain].every(isString), "not a string");
  return [[info]];
}

// of a record whose hash the company has signed, and nobody can recompute
export class Pruned extends Error {
  constructor() {
    super("its payload was pruned, and without it the hash cannot be recomputed");
  }
}

const isPruned = (record) => record !== null && typeof record === "object" && Object.hasOwn(record, "pruned");

// throws Pruned for an action without its payload, once verified(digest) has found its hash signed
function checkSigned(record, company, log, verified) {
  if (!isPruned(record)) return verified(digestOf(record, company, log));
  exactly(record, ["index", "timestamp", "payload", "pruned", "hash", "signature"], ["delegation"]);
  const { index, timestamp, payload, pruned, hash } = record;
  must(pruned === true && payload === null && log === "actions", "not an action without its payload");
  must(typeof index === "bigint" && index >= 0n && index < 2n ** 53n, "the index is not an integer, or was not read with read()");
  milliseconds(timestamp);
  delegationOf(record);
  must(isString(hash) && /^[0-9a-f]{64}$/.test(hash), "not a hash");
  verified(Buffer.from(hash, "hex"));
  throw new Pruned();
}

export function checkRecord(record, key) {
  const signer = () => ring(key).findLast(({ fromIndex = 0n }) => fromIndex <= record.index);
  checkSigned(record, key.companyId, "actions", (digest) => checkSignature(signer(), record.signature, digest));
}

// returns the root: compare it with the one that you keep
export function checkProof(evidence, key) {
  const root = checkInclusion(evidence, key);
  if (isPruned(evidence.record)) throw new Pruned();
  return root;
}

// as checkProof, and says nothing of the content: it passes without the payload, too
export function checkInclusion(evidence, key) {
  exactly(evidence, ["record", "proof", "root"]);
  const { record, proof, root } = evidence;
  try {
    checkRecord(record, key);
  } catch (refused) {
    if (!(refused instanceof Pruned)) throw refused;
  }
  must(Array.isArray(proof) && proof.length <= 64, "not a proof");
  const node = proof.reduce((at, step) => {
    exactly(step, ["sibling", "position"]);
    must(isString(step.sibling) && /^[0-9a-f]{64}$/.test(step.sibling) && ["left", "right"].includes(step.position), "not a step of a proof");
    return sha256(step.position === "left" ? step.sibling + at : at + step.sibling).toString("hex");
  }, record.hash);
  must(node === root, "the record is not below this chain root");
  return root;
}

export function checkPassport(passport, key, audience = "service:passport:v1") {
  const [header, claims, signature, ...rest] = passport.split(".");
  must(rest.length === 0, "not a token");
  const [h, c] = [header, claims].map((part) => read(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(unbase64url(part))));
  must([c.iat, c.nbf, c.exp].every((n) => typeof n === "bigint"), "the times are no integers");
  must(0n <= c.iat && c.iat <= c.nbf && c.iat < c.exp && c.exp - c.iat <= 86400n, "not a life that a passport has");
  key = tokenKeys(key, Number(c.iat) * 1000).find(({ kid }) => kid === h.kid);
  must(key, "not a passport of the company's keys at its time");
  checkSignature(key, signature, Buffer.from(`${header}.${claims}`));
  must(canonical(h) === canonical({ alg: "EdDSA", kid: key.kid, typ: "CAP+JWT" }), "not a passport of this key");
  const own = c[audience.split(":")[0]], [domain] = key.spiffeId.split("/company/");
  must(c.iss === `${domain}/ca` && canonical(c.aud) === canonical([audience]), "not a passport of this service");
  must(own.v === 1n, "not a passport that we know");
  must(own.org === key.companyId && c.sub === `${key.spiffeId}/agent/${own.agentId}`, "not of this company");
  must(own.delegationChain.at(-1) === c.sub, "the chain does not end with the subject");
  must(c.nbf <= Date.now() / 1000 && Date.now() / 1000 < c.exp, "the passport is not valid now");
  return c;
}

// of GET /v1/ocsp/:jti; jti is the passport's, maxAge in seconds
export function checkStatus(answer, key, jti, maxAge = 300) {
  exactly(answer, ["jti", "companyId", "status", "checkedAt", "caPublicKey", "signature"], ["revokedAt", "reason"]);
  const { caPublicKey, signature, ...signed } = answer;
  must(Object.values(answer).every(isString), "not a string");
  key = tokenKeys(key).find(({ pem }) => pem === caPublicKey);
  must(key && (!("endedAt" in key) || milliseconds(answer.checkedAt) <= milliseconds(key.endedAt) + 60_000), "the status is of another key");
  checkSignature(key, signature, sha256(canonical(signed)));
  must(answer.jti === jti, "the status is of another passport");
  must(answer.companyId === key.companyId, "the status is of another company");
  const age = (Date.now() - milliseconds(answer.checkedAt)) / 1000;
  must(-60 <= age && age <= maxAge, "the status is not of now: ask for a new one");
  must(["valid", "revoked", "unknown"].includes(answer.status) && (answer.status === "revoked") === ("revokedAt" in answer), "not a status");
  return answer.status;
}
