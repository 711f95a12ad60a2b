// check.mjs checks what an attestd has signed, without it. It needs Node 20 and nothing else.
//
//   node check.mjs FILE [--key FINGERPRINT | --policy FILE] [--agent-key THUMBPRINT]
//     [--approver-key FINGERPRINT]…
//     a file of GET /v1/evidence/{index}, or of a session: GET /v1/sessions/{agentId}/{sid}
//   node check.mjs proof.json key.json
//     a proof, and the answer of GET /v1/ca/public-key(s)
//
// It prints the verdict first. Exit status: 0 "holds", 4 "fails", 5 "holds, key not confirmed" (no
// key and no policy was given, and attestd trust has stored no key of the company), 2 no verdict: a
// mistake of typing, or a file that it does not read; 1 the stored keys cannot be relied on.
import { createHash, createPublicKey, verify } from "node:crypto";
import { closeSync, constants, fstatSync, lstatSync, openSync, readlinkSync, readSync, realpathSync } from "node:fs";
import { dirname, isAbsolute, resolve } from "node:path";
import { fileURLToPath } from "node:url";

// ---- Strict JSON, canonical form and digests ----

const must = (ok, message) => { if (!ok) throw new Error(message); };
const sha256 = (text) => createHash("sha256").update(text).digest();
const isString = (value) => typeof value === "string";

const exact = (spelling) => { // the digits without outer zeros, and their exponent
  const [, sign, whole, fraction = "", power = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:e([-+]?\d+))?$/i.exec(spelling);
  const digits = (whole + fraction).replace(/^0+/, ""), kept = digits.replace(/0+$/, "");
  return kept && `${sign}${kept}e${BigInt(power) - BigInt(fraction.length) + BigInt(digits.length - kept.length)}`;
};

// bytes, before they are parsed: what they weigh, as the reference says, and how deep they nest
export function bounded(source) {
  const weights = new Map([["{", 2], ["[", 2], [":", 4], [",", 4], ['"', 2]].map(([c, weight]) => [c.charCodeAt(0), weight]));
  let weight = 0, depth = 0;
  for (let at = 0; at < source.length; at++) {
    weight += weights.get(source[at]) ?? 0;
    // [ and {, ] and }
    depth += (source[at] | 0x20) === 0x7b ? 1 : (source[at] | 0x20) === 0x7d ? -1 : 0;
    if (source[at] === 0x22) {
      for (at++; at < source.length && source[at] !== 0x22 && weight <= 9_000_000; at++) {
        if (source[at] === 0x5c) weight += 4, at++;
      }
    }
    must(weight <= 9_000_000, "it weighs more than 9000000");
    must(depth >= 0 && depth <= 160, "nested too deep");
  }
}

const decoded = (bytes) => new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);

function textOf(source) { // of a file, which is no longer and no heavier than one may be
  must(source.length <= 64 << 20, "longer than 64 MiB");
  bounded(source);
  return decoded(source);
}

const kept = (token) => {
  const value = JSON.parse(token);
  must(String(value) === token || exact(String(value)) === exact(token), `${token} is not kept by a double`);
  return /[.e]|^-0$/i.test(token) ? value : BigInt(token);
};

// strict JSON: no name twice, no number that a double does not keep; integers become BigInt
export function read(text, number = kept) {
  let at = 0;
  const take = (pattern) => { // the text here that matches a pattern
    const start = pattern.lastIndex = at;
    if (pattern.test(text)) at = pattern.lastIndex;
    return text.slice(start, at);
  };
  const space = () => { while (" \t\n\r".includes(text[at] ?? "-")) at++; };
  const skip = (mark) => {
    must(text[at++] === mark, `${mark} is missing`);
    space();
  };
  const string = () => {
    const start = at++;
    let plain = true;
    for (take(/[^"\\\0-\x1f]*/y); text[at] !== '"'; take(/[^"\\\0-\x1f]*/y)) {
      must(text[at] === "\\", "not a string");
      plain = false;
      at += 2;
    }
    at++;
    // a slice shares the memory of the text
    const value = plain ? text.slice(start + 1, at - 1) : JSON.parse(text.slice(start, at));
    must(!/\p{Surrogate}/u.test(value), "a lone surrogate");
    return value;
  };
  const scalar = () => {
    if (text[at] === '"') return string();
    const token = take(/true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?/y);
    must(token, `not JSON at ${at}`);
    return /[-0-9]/.test(token[0]) ? number(token) : JSON.parse(token);
  };
  const member = (members) => {
    must(text[at] === '"', "a name is missing");
    const name = string();
    must(!members.has(name), `${name} is duplicated`);
    space();
    skip(":");
    members.set(name, value());
  };
  const list = (close, one) => { // calls one for each element or member
    at++;
    space();
    for (let first = true; text[at] !== close; first = false) {
      if (!first) skip(",");
      one();
      space();
    }
    at++;
  };
  const value = () => {
    if (text[at] === "[") {
      const items = [];
      list("]", () => items.push(value()));
      return items.slice(); // without the room that push has made
    }
    if (text[at] !== "{") return scalar();
    const members = new Map();
    list("}", () => member(members));
    return Object.fromEntries(members);
  };
  space();
  const whole = value();
  space();
  must(at === text.length, `more than a value at ${at}`);
  return whole;
}

// of the canonical form, none of them long. RFC 8785: JavaScript's own numbers, strings and sort
// order are its rules
function* pieces(v) {
  if (Array.isArray(v) || v && typeof v === "object") {
    const isList = Array.isArray(v), names = isList ? v : Object.keys(v).sort();
    yield isList ? "[" : "{";
    for (let i = 0; i < names.length; i++) {
      if (i > 0) yield ",";
      if (!isList) {
        yield* pieces(names[i]);
        yield ":";
      }
      yield* pieces(isList ? v[i] : v[names[i]]);
    }
    yield isList ? "]" : "}";
  } else if (isString(v) && v.length > 1 << 16) {
    yield '"';
    for (let at = 0, end; at < v.length; at = end) {
      end = Math.min(v.length, at + (1 << 16));
      if (end < v.length && /[\ud800-\udbff]/.test(v[end - 1])) end--; // no character is cut
      yield JSON.stringify(v.slice(at, end)).slice(1, -1);
    }
    yield '"';
  } else {
    yield JSON.stringify(typeof v === "bigint" ? Number(v) : v);
  }
}

const canonical = (v) => [...pieces(v)].join("");

// each a text, or a list with a value; their forms are joined by |
function digestOfParts(...parts) {
  const digest = createHash("sha256");
  let some = "";
  parts.forEach((part, i) => {
    for (const piece of isString(part) ? [part] : pieces(part[0])) {
      some += piece;
      if (some.length < 1 << 16) continue;
      digest.update(some);
      some = "";
    }
    if (i < parts.length - 1) some += "|";
  });
  return digest.update(some).digest();
}

const exactly = (value, members, optional = []) =>
  must(value && typeof value === "object" && members.every((name) => Object.hasOwn(value, name))
    && Object.keys(value).every((name) => members.includes(name) || optional.includes(name)), `not an object of exactly ${members}`);

const milliseconds = (timestamp) => { // of its one form, such as 2006-01-02T15:04:05.000Z
  must(isString(timestamp) && /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(timestamp), "not a timestamp");
  must(new Date(timestamp).toISOString() === timestamp, "not a time");
  return Date.parse(timestamp);
};

const unbase64url = (text) => {
  const decoded = Buffer.from(text, "base64url");
  must(decoded.toString("base64url") === text, "not base64url");
  return decoded;
};

// ---- Company keys, records, proofs, passports and statuses ----

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

// of a rotation: with whole fingerprints, or in the older form, with the kids alone
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
  exactly(payload, ["agentId", "companyId", "actionType", "payload", ...log === "control" ? ["log"] : []], log === "control" ? [] : ["statement", "decision"]);
  must((log === "control" ? payload.log : "actions") === log, "the record is of another log");
  must([payload.agentId, payload.actionType, Object.hasOwn(payload, "statement") ? payload.statement : ""].every(isString), "not a string");
  if (Object.hasOwn(payload, "decision")) {
    hasForm(payload.decision, DECISION, "payload.decision");
    must(nesting(payload.decision) <= 64, "payload.decision is nested too deep");
  }
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

// of a record whose hash the company has signed, and which cannot be recomputed
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
  // covers() says whether they cover a call
  if (Object.hasOwn(c, "authorization_details")) checkDetails(c.authorization_details);
  return c;
}

// Authorization details (RFC 9396), as the reference describes them.

const SCHEME = /^[A-Za-z][A-Za-z0-9+.-]*:\/\//;
const isNumber = (value) => ["number", "bigint"].includes(typeof value);
const isScalar = (value) => value === null || isString(value) || typeof value === "boolean" || isNumber(value);
const isList = (value, of) => Array.isArray(value) && value.length > 0 && value.every(of);
const isFilled = (value) => value !== null && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length > 0;

const isClean = (path) => { // read in one way alone
  const rest = path.replace(SCHEME, ""), segments = rest.split("/");
  return !/[\\\0-\x1f\x7f-\x9f]|%(2e|2f|5c|25|7f|[01][0-9a-f])/i.test(rest)
    && segments.every((segment, i) => segment === "" ? i === 0 || i === segments.length - 1 : !/^[. ]+$/.test(segment));
};

const OPERATORS = new Map(Object.entries({
  equals: isScalar, in: (values) => isList(values, isScalar), max: isNumber, min: isNumber, absent: (value) => value === true,
  prefix: (value) => isString(value) && value !== "" && isClean(value) && (!SCHEME.test(value) || value.replace(SCHEME, "").includes("/")),
}));

// details as read() gives them: a right with a limit that is not understood is none without
export function checkDetails(details) {
  must(isList(details, () => true) && Buffer.byteLength(canonical(details)) <= 8 << 10, "not authorization details");
  for (const entry of details) {
    exactly(entry, ["type", "tools"], ["arguments"]);
    must(entry.type === "tool_call", "not authorization details");
    must(isList(entry.tools, (tool) => isString(tool) && /^(\*|[!-)+-~]{1,128})$/.test(tool)), "not names of tools");
    if (!Object.hasOwn(entry, "arguments")) continue;
    must(isFilled(entry.arguments), "not arguments");
    for (const [pointer, tests] of Object.entries(entry.arguments)) {
      must(/^(\/([^~/]|~[01])*)*$/.test(pointer) && isFilled(tests), "not a test of an argument");
      must(Object.entries(tests).every(([name, value]) => OPERATORS.get(name)?.(value)), "not an operator that we know");
      must(Object.keys(tests).length === 1 || !Object.hasOwn(tests, "absent"), "an operator is beside absent");
    }
  }
}

// ±0.digits × 10^exponent; digits is "" for zero, exponent NaN for what satisfies nothing
class Numeral {
  constructor(token) {
    const [mantissa, power = "0"] = token.toLowerCase().split("e"), [whole, fraction = ""] = mantissa.replace("-", "").split(".");
    const digits = (whole + fraction).replace(/^0+/, "");
    this.sign = digits === "" ? 0 : mantissa.startsWith("-") ? -1 : 1;
    this.digits = digits.replace(/0+$/, "");
    this.exponent = digits === "" ? 0 : Math.abs(Number(power)) > 1_000_000 ? NaN : Number(power) + digits.length - fraction.length;
  }

  compare({ sign, digits, exponent }) { // NaN where they cannot be compared
    if (Number.isNaN(this.exponent) || Number.isNaN(exponent)) return NaN;
    if (this.sign !== sign || sign === 0) return this.sign - sign;
    return sign * (this.exponent - exponent || (this.digits < digits ? -1 : Number(this.digits > digits)));
  }
}

const numeral = (value) => isNumber(value) ? new Numeral(String(value)) : value;
const compared = (value, want) => value instanceof Numeral && want instanceof Numeral ? value.compare(want) : NaN;

function atPointer(value, pointer) {
  for (const token of pointer.split("/").slice(1)) {
    const name = token.replaceAll("~1", "/").replaceAll("~0", "~");
    const has = value !== null && typeof value === "object" && !(value instanceof Numeral) && Object.hasOwn(value, name)
      && (!Array.isArray(value) || /^(0|[1-9][0-9]*)$/.test(name));
    if (!has) return undefined;
    value = value[name];
  }
  return value;
}

function holds(operator, want, value) {
  if (value === undefined || operator === "absent") return value === undefined && operator === "absent";
  const is = (one) => value instanceof Numeral ? compared(value, numeral(one)) === 0 : value === one;
  switch (operator) {
    case "equals": return is(want);
    case "in": return want.some(is);
    case "prefix": return isString(value) && value.startsWith(want) && isClean(value);
    case "max": return compared(value, numeral(want)) <= 0;
    default: return compared(value, numeral(want)) >= 0;
  }
}

// whether details, once checked, cover a call; args are its JSON text, undefined where they are not
// known
export function covers(details, tool, args) {
  const named = details.filter(({ tools }) => tool !== "" && (tools.includes(tool) || tools.includes("*")));
  if (named.some((entry) => !Object.hasOwn(entry, "arguments"))) return true;
  if (args === undefined) return false;
  let value;
  try {
    bounded(new TextEncoder().encode(args));
    value = read(args, (token) => new Numeral(token));
  } catch {
    return false;
  }
  return named.some((entry) => Object.entries(entry.arguments).every(([pointer, tests]) =>
    Object.entries(tests).every(([name, want]) => holds(name, want, atPointer(value, pointer)))));
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

// ---- The form of an evidence file ----

// What follows checks files of GET /v1/evidence/{index}, whose format and checks the reference
// describes. The checks are made in this order, and the first that fails gives the code.

const like = (pattern) => (s) => isString(s) && pattern.test(s);
const hexadecimal = (digits) => like(new RegExp(`^[0-9a-f]{${digits}}$`));
const base64url = (size) => (s) => isString(s) && unbase64url(s).length === size;
const oneOf = (...values) => (s) => values.includes(s);
const number = (n) => typeof n === "bigint" && n >= 0n && n < 2n ** 53n;
const timestamp = (s) => Number.isFinite(milliseconds(s));
const anything = () => true;

// A form is a function, or [form, most elements], or members with their forms, where ? marks what
// may be absent.
const given = (s) => isString(s) && s !== "", some = (list) => Array.isArray(list) && list.length > 0 && list.every(isString);
const DECISION = {
  verdict: oneOf("allow", "deny", "ask"), policies: isString, revision: number, by: [isString, Infinity], "errors?": some,
  "code?": given, "passport?": given, "approval?": given,
  context: { door: isString, time: isString, "delegation?": some, "details?": (list) => Array.isArray(list) && list.length > 0, "folder?": given, "groups?": some, "person?": given, "scopes?": some, "signed?": (signed) => signed === true },
};
const WHOLE = { index: number, timestamp, payload: anything, hash: hexadecimal(64), signature: base64url(64), "delegation?": anything };
const PRUNED = { ...WHOLE, payload: (payload) => payload === null, pruned: (pruned) => pruned === true };
const RECORD = (value) => {
  hasForm(value, isPruned(value) ? PRUNED : WHOLE, "record");
  return true;
};
const ENTRIES = [{ record: RECORD, tlogProof: isString }, 10_000];
const APPROVALS = { requests: ENTRIES, records: ENTRIES };
const ROTATION = { statement: isString, oldSignature: base64url(64), newSignature: base64url(64) };
const JWK = { kty: isString, crv: isString, x: base64url(32), kid: isString, alg: isString, use: isString };
const STATUS = {
  jti: isString, companyId: isString, status: isString, checkedAt: timestamp, caPublicKey: isString, signature: base64url(64), "revokedAt?": timestamp, "reason?": isString,
};
const LOGS = [{ log: oneOf("actions", "control"), logId: hexadecimal(32), origin: isString, keys: [{ kid: hexadecimal(16), fromIndex: number, "rotation?": ROTATION }, 10_000] }, 2];
const KEYS = [{ kid: hexadecimal(16), fingerprint: isString, jwk: JWK }, 10_000];
const SESSION = like(/^[A-Za-z0-9._~-]{1,128}$/);
const isPolicyID = like(/^[A-Za-z0-9._-]{1,64}$/);
const COMPANY = like(/^(?!\.{1,2}$)[A-Za-z0-9._-]{1,128}$/);
const EVIDENCE = {
  format: oneOf("attestd-evidence/v1"), companyId: COMPANY, log: oneOf("actions", "control"), record: RECORD,
  hexProof: { proof: [{ sibling: hexadecimal(64), position: oneOf("left", "right") }, 60], root: hexadecimal(64), size: number },
  tlogProof: isString, keys: KEYS, witnesses: [isString, 16], logs: LOGS,
  "delegation?": anything, "agentKey?": { records: ENTRIES }, "passport?": { jti: like(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/), records: ENTRIES }, "status?": STATUS, "authority?": { records: ENTRIES }, "policies?": { records: ENTRIES }, "passports?": { records: ENTRIES },
  "approvals?": APPROVALS,
  notProven: [isString, 10_000],
};

// how deep a value is
const nesting = (value) => (value && typeof value === "object" ? 1 + Object.values(value).reduce((most, one) => Math.max(most, nesting(one)), 0) : 0);

function hasForm(value, form, name) {
  if (typeof form === "function") return must(form(value), `${name} has not its form`);
  if (Array.isArray(form)) {
    must(Array.isArray(value) && value.length <= form[1], `${name} is not a list of at most ${form[1]}`);
    return value.forEach((element, i) => hasForm(element, form[0], `${name}[${i}]`));
  }
  const names = Object.keys(form), optional = names.filter((n) => n.endsWith("?")).map((n) => n.slice(0, -1));
  must(!Array.isArray(value), `${name} is a list`);
  exactly(value, names.filter((n) => !n.endsWith("?")), optional);
  for (const n of names) {
    const member = n.replace("?", "");
    if (Object.hasOwn(value, member)) hasForm(value[member], form[n], `${name}.${member}`);
  }
}

// ---- Tool calls that ran although they were refused ----

// what records say of calls of tools
const CALL_KINDS = new Map(Object.entries({
  "tool.requested": "request", "tool.denied": "refusal", "tool.completed": "outcome", "tool.failed": "outcome", "tool.ended": "outcome",
  "otel.tool": "outcome",
}));

// Whether telemetry says that a tool has succeeded, and the source of hooks of its agent, if any.
function ran({ name, attributes, status }) {
  const own = (object, member) => (object && typeof object === "object" && Object.hasOwn(object, member) ? object[member] : undefined);
  const hooks = !isString(name) ? undefined : name.startsWith("claude_code.") ? "claude-code" : name.startsWith("codex.") ? "codex" : undefined;
  return [[true, "true"].includes(own(attributes, "success")) || (!hooks && own(status, "code") === "ok"), hooks];
}

// The calls that were refused and ran all the same, among records in their order. Its memory does
// not grow with their number. The reference says what such a call is.
export class Calls {
  calls = new Map(); // in the order of their first records
  found = []; // [refusal, outcome] of the first ones that disobeyed, as indexes
  count = 0; // of all that did

  add({ index, payload: { agentId, actionType, payload: call, decision } }) {
    const kind = CALL_KINDS.get(actionType), isRefused = kind === "request" && (decision?.verdict ?? "allow") !== "allow";
    if (!kind || !call || typeof call !== "object" || Array.isArray(call)) return;
    const part = (name, without) => (Object.hasOwn(call, name) ? call[name] : without);
    const [says, hooks] = actionType === "otel.tool" ? ran({ name: part("name"), attributes: part("attributes"), status: part("status") }) : [true];
    const source = part("source"), sessionId = part("sessionId", ""), callId = part("callId");
    if (!says || ![source, sessionId, callId].every(isString) || callId === "" || Buffer.byteLength(callId) >= 256 || callId.includes("[masked]")) return;
    const key = JSON.stringify([agentId, hooks ?? source, sessionId, callId]);
    if (!this.calls.has(key) && this.calls.size === 10_000) this.calls.delete(this.calls.keys().next().value);
    const state = this.calls.get(key) ?? { requests: 0, refusals: 0, refused: null, done: null, found: false };
    this.calls.set(key, state);
    // a refusal less for each request that its decision refused: that says it, too
    if (isRefused || kind === "refusal") Object.assign(state, { refusals: state.refusals + (isRefused ? -1 : 1), refused: index });
    else if (kind === "request") state.requests++;
    else state.done ??= index;
    if (state.found || state.done === null || state.refused === null || state.requests > Math.max(0, state.refusals)) return;
    state.found = true;
    this.count++;
    if (this.found.length < 10) this.found.push([state.refused, state.done]);
  }

  state(rest) { // of a session that otherwise has the state rest
    if (this.count === 0) return rest;
    const calls = this.found.map(([refused, done]) => `refused at record ${refused}, done at record ${done}`).join("; ");
    const more = this.count > this.found.length ? `; and ${this.count - this.found.length} more` : "";
    return `disobeyed: ${calls}${more}; ${rest}`;
  }
}

// ---- Signed notes: signatures and cosignatures of checkpoints ----

// Whether a raw key has signed; as OpenSSL and Go do, it takes S < L alone and compares R byte for
// byte.
function verifies(raw, signature, message) {
  try {
    const der = Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), raw]);
    return verify(null, message, createPublicKey({ key: der, format: "der", type: "spki" }), signature);
  } catch {
    return false; // not a point of the curve
  }
}

const isName = (name) => // that may stand in a signature line
  name !== "" && Buffer.byteLength(name) <= 255 && !/[\0-\x20+\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/.test(name);

const unbase64 = (text) => {
  const decoded = Buffer.from(text, "base64");
  must(decoded.toString("base64") === text, "not base64");
  return decoded;
};

const keyID = (name, kind, raw) => sha256(Buffer.concat([Buffer.from(`${name}\n`), Buffer.of(kind), raw])).subarray(0, 4);

function readVKey(vkey, kind) { // of a log (1) or a witness (4)
  const [name, tag, ...rest] = vkey.split("+"), key = unbase64(rest.join("+")), raw = key.subarray(1);
  must(isName(name) && raw.length === 32 && key[0] === kind && keyID(name, kind, raw).toString("hex") === tag, "not a vkey of this kind");
  return { vkey, name, raw, id: keyID(name, kind, raw) };
}

// The one of some witnesses whose cosignature a line is; undefined where it says that it is of none
// of them, and refused where it does not verify.
function cosigner([name, blob], body, witnesses) {
  const claimed = witnesses.filter((w) => w.name === name && w.id.equals(blob.subarray(0, 4)));
  if (claimed.length === 0) return undefined;
  must(blob.length === 76, "not a cosignature");
  const at = blob.readBigUInt64BE(4);
  const found = claimed.find(({ raw }) => verifies(raw, blob.subarray(12), Buffer.from(`cosignature/v1\ntime ${at}\n${body}`)));
  must(at > 0n && at < 2n ** 63n && found, `the cosignature of ${name} does not verify`);
  return found;
}

const signatureLines = (lines) => {
  must(lines.endsWith("\n"), "not a signed note");
  return lines.slice(0, -1).split("\n").map((line) => {
    const [dash, name, base64, ...rest] = line.split(" ");
    must(dash === "\u2014" && isString(base64) && rest.length === 0 && isName(name) && unbase64(base64).length > 4, "not a signature line");
    return [name, unbase64(base64)];
  });
};

// ---- Places of statements in a session ----

const MOST = { gaps: 1000, named: 10_000, recent: 4096, recorded: 100 };

// The statements of one session in the order of their places: whether all are there. Its memory
// does not grow with their number. The reference says what each is held against.
export class Places {
  last = -1n;
  sealed = false;
  refused = 0; // places that are missing and that a later statement names as refused
  // [seq, index] of those that are there all the same, the first 100; index -1 of one long ago
  recorded = [];
  isMore = false; // there are more of them
  gaps = []; // of missing places: [first, last, prev of the statement after them]
  forgotten = 0; // gaps beyond those
  named = new Map(); // hashes of refused places
  recent = new Map(); // {index, hash} of the last statements, by seq

  add({ seq, prev, refused = [], end }, index, hash) {
    const { last } = this, before = this.recent.get(last);
    must(seq !== last, `the agent's key signed two statements with the seq ${seq}: in the records ${before?.index} and ${index}`);
    must(seq > last && !this.sealed, `seq ${seq} of record ${index} stands after ${last}, or after the end`);
    must(last < 0n || seq > last + 1n || prev === before.hash, `prev of record ${index} is not the hash of the statement in record ${before?.index}`);
    if (seq > last + 1n && this.gaps.length === MOST.gaps) this.forgotten++;
    else if (seq > last + 1n) this.gaps.push([last + 1n, seq - 1n, prev]);
    for (const one of refused) this.take(one);
    Object.assign(this, { last: seq, sealed: end === true });
    this.recent.set(seq, { index, hash });
    if (this.recent.size > MOST.recent) this.recent.delete(this.recent.keys().next().value);
  }

  take({ seq, hash }) { // an entry of refused
    const there = this.recent.get(seq), known = this.named.get(seq);
    must(!there || there.hash === hash, `it says that number ${seq} was refused, and the agent's key signed another statement of that number, in record ${there?.index}`);
    if (there) return this.wasRecorded(seq, there.index);
    must((known ?? hash) === hash, `it says that number ${seq} was refused, and an earlier statement says so of another statement of that number`);
    if (known) return;
    let at = 0;
    for (let end = this.gaps.length; at < end;) { // the first gap that ends there or later
      const middle = (at + end) >> 1;
      if (this.gaps[middle][1] >= seq) end = middle;
      else at = middle + 1;
    }
    const [first, last, after] = this.gaps[at] ?? [];
    if (first !== undefined && first <= seq) return this.fill(at, { first, last, after, seq, hash });
    if (this.forgotten === 0) this.wasRecorded(seq, -1n);
  }

  fill(at, { first, last, after, seq, hash }) { // a place of a gap
    must(seq < last || (after ?? hash) === hash, "it says that a statement was refused that is not the one which the statement after it names in prev");
    const rest = [[first, seq - 1n, undefined], [seq + 1n, last, after]].filter(([a, b]) => a <= b);
    if (this.refused === MOST.named || this.gaps.length - 1 + rest.length > MOST.gaps) return;
    this.gaps.splice(at, 1, ...rest);
    this.named.set(seq, hash);
    this.refused++;
  }

  wasRecorded(seq, index) {
    if (this.recorded.some(([known]) => known === seq)) return;
    if (this.recorded.length === MOST.recorded) this.isMore = true;
    else this.recorded.push([seq, index]);
  }

  state() { // complete, open at n, or missing a–b
    const count = this.gaps.length + this.forgotten, refused = this.refused ? `, ${this.refused} refused` : "";
    if (count === 0) return (this.sealed ? `complete: 0 to ${this.last}, sealed` : `open at ${this.last}`) + refused;
    const gaps = this.gaps.slice(0, 100).map(([a, b]) => (a === b ? `${a}` : `${a}–${b}`)).join(", ");
    return `missing ${gaps}${count > 100 ? ` and ${count - 100} ranges more` : ""}${this.sealed ? "" : `, open at ${this.last}`}${refused}`;
  }
}

// ---- Statements and endorsements ----

// What an agent signs with a key of its own: statements, and endorsements of its next key. They are
// compact JWS, and the reference says which.
const FIELD = 2n ** 255n - 19n, P256 = 2n ** 256n - 2n ** 224n + 2n ** 192n + 2n ** 96n - 1n;
const bigEndian = (bytes) => BigInt(`0x${bytes.toString("hex")}`), littleEndian = (bytes) => bigEndian(Buffer.from(bytes).reverse());
// y of the points of small order, for which everybody can sign
const SMALL = [
  "00".repeat(32), `01${"00".repeat(31)}`, `ec${"ff".repeat(30)}7f`, "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
  "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
].map((y) => littleEndian(Buffer.from(y, "hex")));

const isThumbprint = (value) => isString(value) && unbase64url(value).length === 32;
const isVisible = (value, longest) => isString(value) && value.length <= longest && /^[!-~]+$/.test(value);

function agentKey(jwk) { // {thumbprint, algorithm, check: whether it has signed}
  const curve = { OKP: "Ed25519", EC: "P-256" }[jwk.kty], names = curve === "P-256" ? ["x", "y"] : ["x"];
  exactly(jwk, ["kty", "crv", ...names]);
  const points = names.map((name) => unbase64url(jwk[name]));
  must(curve && jwk.crv === curve && points.every(({ length }) => length === 32), "not a key of an agent");
  const thumbprint = sha256(canonical(jwk)).toString("base64url");
  if (curve === "Ed25519") {
    const y = littleEndian(points[0]) % 2n ** 255n;
    must(y < FIELD && !SMALL.includes(y), "a key for which everybody can sign, or in another spelling");
    return { thumbprint, algorithm: "EdDSA", check: (signature, message) => verifies(points[0], signature, message) };
  }
  must(points.every((point) => bigEndian(point) < P256), "not a point of P-256");
  const key = createPublicKey({ key: jwk, format: "jwk" });
  return { thumbprint, algorithm: "ES256", check: (signature, message) => verify("sha256", message, { key, dsaEncoding: "ieee-p1363" }, signature) };
}

// its form, and not its signature
function readJWS(compact, type, longest, required, optional = []) {
  must(Buffer.byteLength(compact) <= longest, `longer than ${longest} bytes`);
  const parts = compact.split("."), [header, claims] = parts.slice(0, 2).map((part) => read(decoded(unbase64url(part)))), signature = unbase64url(parts[2] ?? "");
  exactly(header, ["alg", "typ", "kid"]);
  exactly(claims, required, optional);
  const { alg: algorithm, typ, kid } = header, { iss, aud, iat } = claims;
  must(["EdDSA", "ES256"].includes(algorithm) && typ === type && isThumbprint(kid), `not the header of ${type}`);
  must(parts.length === 3 && signature.length === 64, "a signature has 64 bytes");
  must([iss, aud].every((id) => isVisible(id, longest) && id.startsWith("spiffe://")), "not a SPIFFE ID");
  must(typeof iat === "bigint" && iat >= 0n && iat <= 253402300799n, "iat is not a time");
  const check = (key) => must(
    key.thumbprint === kid && key.algorithm === algorithm && key.check(signature, Buffer.from(`${parts[0]}.${parts[1]}`)), "it is not signed with this key",
  );
  return { kid, claims, check };
}

const REFUSED = [{ seq: number, hash: hexadecimal(64), code: like(/^[A-Z0-9_]{1,64}$/) }, 100];
const CONTINUES = { sid: SESSION, kid: isThumbprint, hash: hexadecimal(64) };

// one that names its log is of version 2, any other of version 1
function readStatement(compact) {
  const optional = ["log", "delegation", "sid", "seq", "prev", "refused", "continues", "end"];
  const said = readJWS(compact, "agent-statement+jwt", 32768, ["iss", "aud", "iat", "jti", "action_hash"], optional), { claims } = said;
  const has = (name) => Object.hasOwn(claims, name), seq = has("seq") ? claims.seq : 0n;
  must(isVisible(claims.jti, 128) && hexadecimal(64)(claims.action_hash), "jti or action_hash has not its form");
  must(!has("log") || isVisible(claims.log, 255), "log is not the origin of a log");
  must(!has("delegation") || (has("log") ? hexadecimal(64)(claims.delegation) : isVisible(claims.delegation, 128)), "delegation has not its form");
  must(has("sid") === has("seq") && (has("sid") || !has("end")), "a part of a session is missing");
  must(!has("sid") || SESSION(claims.sid), "not a session");
  must(number(seq) && has("prev") === (seq > 0n) && (!has("prev") || hexadecimal(64)(claims.prev)), "not a place in a session");
  must(!has("end") || claims.end === true, "end is not true");
  must(has("log") || !has("refused") && !has("continues"), "refused or continues is there without log");
  if (has("refused")) checkRefused(claims);
  if (!has("continues")) return said;
  hasForm(claims.continues, CONTINUES, "continues");
  must(has("sid") && seq === 0n, "continues is there, and this is not the first place of a session");
  must(claims.continues.sid !== claims.sid || claims.continues.kid !== said.kid, "continues names this very session");
  return said;
}

function checkRefused({ seq = 0n, prev, refused }) { // places before this one, in order
  must(seq > 0n && Array.isArray(refused) && refused.length > 0, "refused is there in the first place of a session, or empty");
  hasForm(refused, REFUSED, "refused");
  must(refused.every((one, i) => one.seq < (refused[i + 1]?.seq ?? seq)), "the places of refused do not stand in order before this one");
  must(refused.at(-1).seq < seq - 1n || refused.at(-1).hash === prev, "prev is not the hash of the refused statement before");
}

function readEndorsement(compact) {
  const said = readJWS(compact, "agent-key+jwt", 4096, ["iss", "aud", "iat", "jkt"]);
  must(isThumbprint(said.claims.jkt) && said.claims.jkt !== said.kid, "jkt is not another key");
  return said;
}

// ---- The checks of an evidence file ----

const signer = (log, { index }) => log.keys.findLast(({ fromIndex }) => fromIndex <= index);

// control records about passports, with what their subjects begin with
const PASSPORTS = new Map([["passport.issued", "passport"], ["passport.revoked", "passport"], ["agent.disabled", "agent"]]);

// the names under which scopes and details may cover the tool that a record calls, and what it
// calls it with
function calledAs(action, payload) {
  const own = (of, name) => (of && typeof of === "object" && !Array.isArray(of) && Object.hasOwn(of, name) ? of[name] : undefined);
  const string = (of, name) => (isString(own(of, name)) ? own(of, name) : "");
  let tool = string(payload, "tool"), server = string(payload, "server"), given = own(payload, "input") ?? own(payload, "arguments");
  if (own(payload, "input") === null) given = null;
  const isCall = tool !== "", cut = tool.indexOf("__", 5);
  if (isCall && server === "" && tool.startsWith("mcp__") && cut >= 0) [server, tool] = [tool.slice(5, cut), tool.slice(cut + 2)];
  if (!isCall) {
    const resource = own(payload, "resource");
    const isDecision = ["authorization.denied", "authorization.allowed"].includes(action) && own(payload, "action") === "call";
    if (!isDecision || own(resource, "type") !== "tool") return { names: [], args: undefined };
    [tool, given] = [string(resource, "id"), own(payload, "arguments")];
  } else if (server !== "") tool = `${server}/${tool}`;
  const slash = tool.indexOf("/"), before = tool.slice(0, slash), after = tool.slice(slash + 1);
  const more = slash < 0 ? [] : isCall ? [after, `mcp__${before}__${after}`] : [after];
  return { names: [tool, ...more], args: given === undefined ? undefined : canonical(given) };
}

export class Evidence { // a file while it is checked
  checked = [];
  notes = new Map(); // of each log its one checkpoint
  cosigners = [];
  begun = false; // the file has policies
  held = new Map(); // passports that decisions may name, by their IDs
  changes = []; // of these
  set = {}; // the last one that they made
  decisions = 0;
  decidedBy = ""; // of one decision
  quorums = new Map(); // of the policies of the last set, by ID
  approvals = new Approvals();
  reasons = new Map(); // why decisions were not made again, with how many

  // known has fingerprints of companies' keys: of them one counts without fingerprint and policy
  constructor(source, { fingerprint, policy, agentKey, approverKeys, known = new Map() } = {}) {
    Object.assign(this, { source, fingerprint, policy, agentKey, approverKeys, known, isKnown: false });
  }

  * steps() {
    yield* [["MALFORMED", this.form], ["KEYS", this.keys], ["RECORD", this.record], ["HEX_PROOF", this.hexProof], ["WITNESSES", this.readWitnesses]];
    yield* [["LOG_PROOF", this.logProof], ["DELEGATION", this.delegation], ["STATEMENT", this.statement], ["AUTHORITY", this.authority]];
    yield* [["PASSPORT", this.passport], ["STATUS", this.status], ["DECISION", this.decision], ["APPROVAL", this.approval], ["WITNESSES", this.allCosigned], ["NOT_PROVEN", this.notProven]];
    yield* [["KEY", this.key], ["POLICY", this.byPolicy]];
  }

  verdict() { // {verdict, code, reason}
    for (const [code, check] of this.steps()) {
      try {
        check.call(this);
      } catch (refused) {
        return { verdict: "fails", code: refused instanceof Pruned ? "PRUNED" : code, reason: refused.message };
      }
    }
    if (this.fingerprint || this.policy) return { verdict: "holds", code: "", reason: "" };
    return { verdict: "self-consistent", code: "", reason: "key not confirmed: anyone can make such a file" };
  }

  form() {
    const text = textOf(this.source);
    this.source = null; // one of them is enough to hold
    const file = this.file = read(text);
    hasForm(file, EVIDENCE, "file");
    must(file.keys.length > 0, "keys is empty");
    const { payload } = file.record;
    must(!file.agentKey || payload && typeof payload === "object" && Object.hasOwn(payload, "statement"), "agentKey is there, and the record has no statement");
    this.opening();
  }

  opening() { // what the checks use of the form
    const { file } = this;
    this.entries = [...file.agentKey?.records ?? [], ...file.passport?.records ?? [], ...file.authority?.records ?? [], ...file.policies?.records ?? [], ...file.passports?.records ?? [], ...file.approvals?.records ?? []];
    this.logs = Object.fromEntries(file.logs.map((log) => [log.log, log]));
    this.raw = file.keys.map(({ jwk: { x } }) => unbase64url(x));
  }

  needed() { // the logs without which the file could not be checked
    const { file, raw, logs: { control } } = this, later = control && control.keys.length > 0 && control.keys.length !== raw.length;
    return [...(file.log === "actions" || later ? ["actions"] : []), ...(file.log === "control" || this.entries.length > 0 ? ["control"] : [])];
  }

  keys() {
    const { file, raw } = this, count = raw.length, needed = this.needed();
    file.keys.forEach((key, i) => {
      const digest = sha256(Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), raw[i]])), kid = digest.toString("hex").slice(0, 16);
      const is = { kid, fingerprint: `SHA256:${digest.toString("base64url")}`, jwk: { kty: "OKP", crv: "Ed25519", x: key.jwk.x, kid, alg: "EdDSA", use: "sig" } };
      must(canonical(key) === canonical(is), "a key is not the one that it says");
    });
    must(new Set(file.keys.map(({ jwk: { x } }) => x)).size === count, "a key is listed twice");
    must(canonical(file.logs.map(({ log }) => log)) === canonical(needed), `the logs are not ${needed}`);
    for (const { log, logId, origin, keys } of file.logs) {
      must(origin.endsWith(`/v1/log/${logId}`), "an origin is of another log");
      must(keys.length > 0 && keys.length <= count && (log === "control" || keys.length === count), "a log has not its keys");
      keys.forEach((one, i) => {
        one.raw = raw[count - keys.length + i];
        must(one.kid === file.keys[count - keys.length + i].kid, "a log has other keys");
        if (i === 0) return must(one.fromIndex === 0n && !one.rotation, "the first key of a log is missing");
        const old = keys[i - 1], { statement, oldSignature, newSignature } = one.rotation;
        must(one.fromIndex >= old.fromIndex, "the keys are not in order");
        const both = file.keys.slice(count - keys.length).slice(i - 1, i + 1);
        must(statements(origin, one.fromIndex, ...both).includes(statement), "the proof is of another rotation");
        for (const [key, signature] of [[old, oldSignature], [one, newSignature]]) {
          must(verifies(key.raw, unbase64url(signature), Buffer.from(statement)), "a rotation is not signed by both keys");
        }
      });
    }
    this.checked.push(`keys: ${count}, each named by the one before it, up to ${file.keys.at(-1).fingerprint}`);
  }

  signed(log, record) {
    checkSigned(record, this.file.companyId, log.log, (digest) =>
      must(verifies(signer(log, record).raw, unbase64url(record.signature), digest), "it was not signed with the company's key at that time"));
  }

  record() {
    const { record, log: name } = this.file, log = this.logs[name];
    this.signed(log, record);
    const { index, timestamp: at, payload: { agentId, actionType } } = record;
    this.by = signer(log, record).kid;
    this.checked.push(`record ${index} of ${name}, ${at}, ${agentId}, ${actionType}: signed by key ${this.by}`);
  }

  hexProof() {
    const { hexProof: { proof, root, size }, record: { index, hash } } = this.file, steps = proof.values();
    must(index < size, "there is no such record in the tree");
    let node = hash;
    for (let at = index, n = size - 1n; n > 0n; at >>= 1n, n >>= 1n) {
      if (!(at & 1n) && at >= n) continue;
      const { value: step } = steps.next();
      must(step, "a step is missing");
      const { sibling, position } = step;
      must((position === "left") === Boolean(at & 1n), "a step is on the other side");
      node = sha256(position === "left" ? sibling + node : node + sibling).toString("hex");
    }
    must(steps.next().done && node === root, "the steps do not lead to the chain root");
    this.checked.push(`its hash leads to the chain root ${root} of ${size} records`);
  }

  readWitnesses() {
    this.witnesses = this.file.witnesses.map((vkey) => readVKey(vkey, 4));
    must(new Set(this.witnesses.map(({ raw }) => raw.toString("hex"))).size === this.witnesses.length, "a witness is listed twice");
  }

  opened({ log, origin, keys }, signed) { // a log's one checkpoint, once its signatures are checked
    if (!this.notes.has(log)) {
      const { raw } = keys.at(-1), parts = signed.split("\n\n"), [head, size, root, ...rest] = parts[0].split("\n"), body = `${parts[0]}\n`;
      must(parts.length === 2 && rest.length === 0 && head === origin && isName(origin) && /^(0|[1-9][0-9]*)$/.test(size), "the checkpoint is of another log");
      must(BigInt(size) < 2n ** 53n && unbase64(root).length === 32, "not a checkpoint");
      const [[name, blob], ...others] = signatureLines(parts[1]);
      must(name === origin && blob.subarray(0, 4).equals(keyID(origin, 1, raw)) && blob.length === 68, "the last key has not signed the checkpoint");
      must(verifies(raw, blob.subarray(4), Buffer.from(body)), "the last key has not signed the checkpoint");
      const by = others.map((line) => cosigner(line, body, this.witnesses)?.vkey);
      must(!by.includes(undefined) && new Set(by).size === by.length, "a line below the checkpoint is of nobody, or of somebody twice");
      this.cosigners.push(...by.filter((vkey) => !this.cosigners.includes(vkey)));
      this.notes.set(log, { signed, size: BigInt(size), root: unbase64(root), others, body });
      this.checked.push(`checkpoint of ${log} at ${size} records, signed by the last key and cosigned by ${by.join(", ") || "nobody"}`);
    }
    must(this.notes.get(log).signed === signed, "the checkpoint is another one");
    return this.notes.get(log);
  }

  placed(log, record, proof) { // in the log that standard tools read; returns its size
    const cut = proof.indexOf("\n\n"), [version, at, ...lines] = proof.slice(0, cut).split("\n");
    must(cut > 0 && version === "c2sp.org/tlog-proof@v1" && at === `index ${record.index}`, "the proof is of another record");
    const { size, root } = this.opened(log, proof.slice(cut + 2));
    this.included(log, record, lines, size, root);
    return size;
  }

  included(log, record, siblings, size, root) {
    const hashes = siblings.map(unbase64);
    must(record.index < size && hashes.length <= 60 && hashes.every((h) => h.length === 32), "not a proof of the record");
    const join = (...parts) => sha256(Buffer.concat(parts));
    let node = join(Buffer.of(0), Buffer.from(record.hash, "hex"), unbase64url(record.signature), sha256(signer(log, record).raw));
    let i = record.index, n = size - 1n;
    for (const sibling of hashes) { // RFC 9162, section 2.1.3.2
      must(n > 0n, "the proof is too long");
      const left = Boolean(i & 1n) || i === n;
      node = left ? join(Buffer.of(1), sibling, node) : join(Buffer.of(1), node, sibling);
      for (; left && i > 0n && !(i & 1n); n >>= 1n) i >>= 1n;
      i >>= 1n;
      n >>= 1n;
    }
    must(n === 0n && node.equals(root), "the proof does not lead to the log root of the checkpoint");
  }

  logProof() {
    const { log, record, tlogProof, hexProof: { size } } = this.file;
    must(this.placed(this.logs[log], record, tlogProof) === size, "the two proofs are of trees of two sizes");
  }

  delegation() {
    const of = (object) => (Object.hasOwn(object, "delegation") ? canonical(object.delegation) : "");
    must(of(this.file) === of(this.file.record), "delegation differs from record.delegation");
    if (this.file.log === "actions") this.acts(this.file.record);
  }

  // ---- Control records and what follows from them ----

  said(entries, about) { // control records, each of which must be about what it may be about
    let last = -1n;
    return entries.map(({ record, tlogProof }) => {
      this.signed(this.logs.control, record);
      this.placed(this.logs.control, record, tlogProof);
      const { index, timestamp: at, payload: { actionType: action, payload } } = record;
      const own = (name) => (Object.hasOwn(payload, name) ? payload[name] : undefined), text = (name) => (isString(own(name)) ? own(name) : "");
      must(payload && typeof payload === "object" && !Array.isArray(payload), "it does not say what was changed");
      must(isString(own("subject")) && (isString(own("by")) || own("by") === null), "it does not name what was changed and by whom");
      must(index > last && about(own("subject"), action, text("agentId")), `control record ${index} does not belong there`);
      last = index;
      this.checked.push(`control record ${index}, ${at}: ${action}, ${own("subject")}, by ${own("by") || "the service itself"}`);
      return { action, payload, record, revokedAt: text("revokedAt"), reason: canonical(own("reason") ?? null) };
    });
  }

  authority() {
    const { record: { payload: { agentId }, delegation }, companyId, authority } = this.file, agents = new Set([agentId]);
    for (const id of delegation?.delegationChain ?? []) {
      const path = id.slice(id.indexOf("/", 9) + 1), prefix = `company/${companyId}/agent/`;
      if (id.startsWith("spiffe://") && id.indexOf("/", 9) > 0 && path.startsWith(prefix)) agents.add(path.slice(prefix.length));
    }
    this.allowed = this.said(authority?.records ?? [], (subject, action, agent) => {
      const [kind] = subject.split(":", 1), name = subject.slice(kind.length + 1);
      return kind === "agent" ? agents.has(name) : kind === "passport" ? agents.has(agent) : kind === "signing-key" && name === this.by;
    });
  }

  passport() {
    const { passport } = this.file;
    let owner = "";
    this.events = this.said(passport?.records ?? [], (subject, action, agent) => {
      if (subject !== `passport:${passport.jti}`) return action === "agent.disabled" && owner !== "" && subject === `agent:${owner}`;
      if (action === "passport.issued") owner = agent;
      return true;
    });
  }

  status() {
    const { status: answer, passport, companyId } = this.file, raw = this.raw.at(-1);
    must(Boolean(passport) === Boolean(answer), "only one of passport and status is present");
    if (!answer) return;
    const { caPublicKey, signature, ...signed } = answer, { status, revokedAt, reason } = signed, revoked = status === "revoked";
    must(answer.jti === passport.jti && answer.companyId === companyId, "the status is of another passport");
    must(["valid", "revoked", "unknown"].includes(status) && revoked === ("revokedAt" in answer) && (revoked || !("reason" in answer)), "not a status");
    const base64 = Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), raw]).toString("base64");
    must(caPublicKey === `-----BEGIN PUBLIC KEY-----\n${base64}\n-----END PUBLIC KEY-----\n`, "the status is of another key");
    must(verifies(raw, unbase64url(signature), sha256(canonical(signed))), "the last key has not signed the status");
    for (const event of this.events) {
      must(event.action !== "passport.issued" || status !== "unknown", "the passport was issued");
      must(!["passport.revoked", "agent.disabled"].includes(event.action) || revoked, "the passport was revoked");
      must(event.action !== "passport.revoked" || event.revokedAt === revokedAt && event.reason === canonical(reason ?? null), "the passport was revoked otherwise");
    }
    this.checked.push(`passport ${passport.jti}: ${status} at ${answer.checkedAt}`);
  }

  allCosigned() {
    must(canonical(this.cosigners) === canonical(this.file.witnesses), "the witnesses are not those who have cosigned");
  }

  unproven() {
    const has = (name) => Object.hasOwn(this.file, name);
    return [...NOT_PROVEN, ...NOT_PROVEN_OF.filter(([, members, others = []]) => members.some(has) && !others.some(has)).map(([said]) => said)];
  }

  notProven() {
    must(canonical(this.file.notProven) === canonical(this.unproven()), "notProven is not the list for the members of this file");
  }

  key() {
    if (!this.fingerprint && !this.policy) {
      this.fingerprint = this.known.get(this.file.companyId);
      this.isKnown = this.fingerprint !== undefined;
    }
    must(!this.fingerprint || this.file.keys.some(({ fingerprint }) => fingerprint === this.fingerprint), "the file does not contain the key that you trust");
  }

  byPolicy() {
    if (!this.policy) return;
    const { logs, witnesses, groups, quorum } = this.policy, raw = this.raw.at(-1);
    must(this.file.logs.some(({ origin }) => logs.some((log) => log.name === origin && log.raw.equals(raw))), "the policy does not name the last key");
    for (const { others, body } of this.notes.values()) {
      const names = new Set(["none"]);
      for (const [name, witness] of witnesses) if (others.map((line) => cosigner(line, body, [witness])).some(Boolean)) names.add(name);
      for (const [name, k, members] of groups) if (members.filter((member) => names.has(member)).length >= k) names.add(name);
      must(names.has(quorum), "a checkpoint is not cosigned by a quorum of the policy");
    }
  }

  // ---- Decisions, and the policies that made them ----

  policies() { // the changes of policies in the file
    const { policies } = this.file;
    this.begun = policies !== undefined;
    const about = (subject, action) => subject === "policies" && ["policy.put", "policy.deleted"].includes(action);
    for (const { action, payload, record: { index, timestamp: at } } of this.said(policies?.records ?? [], about)) {
      const own = (name, without) => (Object.hasOwn(payload, name) ? payload[name] : without);
      const name = own("policyId"), revision = own("revision"), set = own("set"), text = own("cedar", ""), sum = own("sha256", "");
      must(isPolicyID(name) && hexadecimal(64)(set), `control record ${index} does not name a policy and a set`);
      must(number(revision) && revision > (this.changes.at(-1)?.revision ?? 0n), `the revision of control record ${index} is not above the one before`);
      const digest = action === "policy.deleted" ? "" : sha256(isString(text) ? text : "").toString("hex");
      must(isString(text) && isString(sum) && (digest === "" || digest === sum), `control record ${index} has not the SHA-256 of its text`);
      this.changes.push({ revision, at: milliseconds(at), name, digest, set, demanded: quorums(text) });
    }
    this.passports();
  }

  passports() { // in the file, by which records may have been decided
    const about = (subject, action) => PASSPORTS.get(action) === subject.split(":", 1)[0] && subject.includes(":");
    for (const { action, payload, record } of this.said(this.file.passports?.records ?? [], about)) {
      const { index } = record, at = milliseconds(record.timestamp), name = payload.subject.slice(payload.subject.indexOf(":") + 1);
      if (action !== "passport.issued") {
        for (const [jti, one] of this.held) if (name === (action === "passport.revoked" ? jti : one.agent)) one.revoked ??= at;
        continue;
      }
      const own = (member) => (Object.hasOwn(payload, member) ? payload[member] : undefined);
      const agent = own("agentId"), scopes = own("scopes"), ends = own("expiresAt"), details = own("authorizationDetails");
      must(!this.held.has(name), `the passport of control record ${index} is issued twice`);
      must(given(agent) && some(scopes) && scopes.length <= 10_000, `control record ${index} does not name the agent and the scopes of the passport`);
      must(number(ends) && ends <= 253402300799n, `control record ${index} does not name the end of the passport`);
      if (details !== undefined) checkDetails(details);
      this.held.set(name, { agent, scopes, details, ends: Number(ends) * 1000, issued: at, revoked: undefined });
    }
  }

  // whether a decision fits the passport that it names, where the file has that
  byPassport({ index, timestamp, payload: { agentId, actionType, payload, decision: made } }) {
    const held = this.held.get(made.passport), at = milliseconds(timestamp);
    if (!held) return;
    const { names, args } = calledAs(actionType, payload), says = `the decision of record ${index} names a passport that`;
    const scoped = held.scopes.some((scope) => ["*", "tool:*", ...names.map((name) => `tool:${name}`)].includes(scope));
    must(held.agent === agentId, `${says} is of another agent`);
    must(held.issued - at <= 5000, `${says} was issued later`);
    if (made.verdict === "deny") {
      must(made.code !== "SCOPE_DENIED" || names.length === 0 || !scoped, `${says} has a scope for it`);
      return;
    }
    must(at - (held.revoked ?? at) <= 5000, `${says} was revoked before`);
    must(at - held.ends <= 5000, `${says} had expired`);
    must(names.length === 0 || scoped, `${says} has no scope for it`);
    const covered = held.details === undefined || names.some((name) => covers(held.details, name, args));
    must(names.length === 0 || covered, `${says} has no authorization details that cover it`);
  }

  decision() {
    const { record, policies } = this.file;
    must(!policies || Object.hasOwn(record.payload, "decision"), "policies are there, and the record has no decision");
    must(!this.file.passports || Object.hasOwn(record.payload, "decision") && Object.hasOwn(record.payload.decision, "passport"), "passports are there, and the record has no decision that names one");
    this.policies();
    this.decided(record);
    this.sayDecisions();
  }

  // whether the control records make the set of policies that a decision names; the rules
  // themselves are not evaluated here
  decided({ index, timestamp, payload }) {
    if (!Object.hasOwn(payload, "decision")) return;
    this.decisions++;
    this.byPassport({ index, timestamp, payload });
    const { revision, policies, verdict, by, errors, code = "" } = payload.decision, at = milliseconds(timestamp), { changes } = this;
    let ends = 0; // how many changes had been made
    for (let end = changes.length; ends < end;) {
      const middle = (ends + end) >> 1;
      if (changes[middle].revision > revision) end = middle;
      else ends = middle + 1;
    }
    const newest = changes[ends - 1];
    must(ends === changes.length || at - changes[ends].at <= 5000, `the decision of record ${index} was made by policies that had ended`);
    if (revision > 0n && !this.begun) return this.notAgain(`the file does not have the policies of revision ${revision}`);
    must(revision === 0n || newest?.revision === revision, `no control record here made revision ${revision} of the policies, by which record ${index} was decided`);
    must(!newest || newest.at - at <= 5000, `the decision of record ${index} was made by policies that began later`);
    if (this.set.revision !== revision) {
      const sums = new Map();
      this.quorums.clear();
      for (const { name, digest, demanded } of changes.slice(0, ends)) {
        sums.set(name, digest);
        this.quorums.set(name, digest === "" ? [] : demanded);
      }
      const held = Object.fromEntries([...sums].filter(([, digest]) => digest !== ""));
      this.set = { revision, count: Object.keys(held).length, hash: sha256(canonical(held)).toString("hex") };
    }
    const { count, hash } = this.set;
    must(hash === policies && (!newest || newest.set === policies), `the control records here do not make the set of policies by which record ${index} was decided`);
    const made = [verdict, by.length > 0 ? ` by ${shown(by.join(", "))}` : "", errors ? `; with errors: ${shown(errors.join(", "))}` : "",
      ["", "POLICY_DENIED"].includes(code) ? "" : ` (${code})`].join("");
    this.decidedBy = `decided by the ${count} ${count === 1 ? "policy" : "policies"} in force, revision ${revision}: ${made}`;
    const follows = ["", "POLICY_DENIED", "DECISION_ERROR", "DETAILS_DENIED"].includes(code);
    this.notAgain(follows ? "the rules were not evaluated here" : `denied with ${canonical(code)}, which does not follow from policies`);
  }

  notAgain(reason) {
    const why = this.reasons.has(reason) || this.reasons.size < 10 ? reason : "for other reasons";
    this.reasons.set(why, (this.reasons.get(why) ?? 0) + 1);
  }

  sayDecisions() {
    const { decisions: count } = this;
    if (count === 1 && this.decidedBy) this.checked.push(this.decidedBy);
    for (const [why, some] of [...this.reasons].sort()) this.checked.push(count === 1 ? `not decided again: ${why}` : `${some} of ${count} decisions not decided again: ${why}`);
  }

  // ---- Approvals, and who gave them ----

  approval() {
    const { file: { record, approvals }, approverKeys } = this, has = approvalOf(record) !== undefined;
    must(has || !approvals, "approvals are there, and the record was not allowed with one");
    must(has || !approverKeys, "you pinned a key of an approver, and nothing here was allowed with an approval");
    this.readApprovals();
    this.approved(record);
    this.sayApprovals();
  }

  readApprovals() {
    const { file: { approvals }, approvals: found, logs: { actions } } = this;
    if (!approvals) return;
    Object.assign(found, { held: true, origin: actions.origin });
    let last = -1n;
    for (const { record, tlogProof } of approvals.requests) {
      must(!isPruned(record), "the payload of a record that asked was pruned");
      this.signed(actions, record);
      this.placed(actions, record, tlogProof);
      must(record.index > last, `record ${record.index} does not belong there`);
      last = record.index;
      found.ask(record);
    }
    const about = (subject, action) => APPROVAL_ACTIONS.has(action) && subject.startsWith(APPROVAL_ACTIONS.get(action));
    for (const { action, payload, record } of this.said(approvals.records, about)) found.add(action, payload, record);
  }

  // whether the approval by which a record was allowed is in the file, and of this very call
  approved(record) {
    const name = approvalOf(record), { approvals: found, approverKeys } = this, { index, timestamp } = record, at = milliseconds(timestamp);
    if (name === undefined) return;
    found.recorded++;
    if (!found.held) {
      must(!approverKeys, `you pinned a key of an approver, and the approval ${name} is not in the file`);
      found.missing ||= name;
      return;
    }
    const one = found.byID.get(name), used = one?.used.get(index);
    must(one, `not complete: the approval ${name} is not in the file`);
    must(used && used.hash === record.hash, `nothing here says that record ${index} used the approval ${name}`);
    const { call: asked, record: request } = one.request, call = callOf(record);
    must(["agent", "isCall", "tool", "arguments"].every((part) => asked[part] === call[part]), `record ${index} does not ask for what was approved`);
    must(["", call.session, call.hooks].includes(asked.session), "it was asked for in another session");
    must(request.index < index, "it was asked for later");
    for (const { at: granted, object: { person, expiresAt }, fingerprint } of used.grants) {
      must(granted - at <= 5000, `${person} approved it later`);
      must(at - milliseconds(expiresAt) <= 5000, `the approval had ended, at ${expiresAt}`);
      must(!approverKeys || approverKeys.includes(fingerprint), `${person} approved it with a key that you did not pin, ${fingerprint}`);
    }
    const quorum = this.quorum(record);
    must(used.grants.length >= quorum, `${used.grants.length} approved it, and the policies demand ${quorum}`);
    for (const grant of used.grants) {
      found.name(grant, approverKeys !== undefined);
      if (!this.file.record) continue;
      const { object: { index: of, uses, expiresAt, reason } } = grant, why = reason === null ? "" : `; reason: ${shown(canonical(reason))}`;
      this.checked.push(`approved on ${grant.origin} at ${grant.timestamp}, control record ${grant.index}: approval ${name} of record ${of}, for ${uses} use${uses === 1n ? "" : "s"} until ${expiresAt}${why}`);
    }
  }

  // how many people the policies demand, where the file has them
  quorum({ payload: { decision: { revision, by } } }) {
    if (revision > 0n && !this.begun) return 1;
    return Math.max(1, ...by.map((name) => {
      const at = name.indexOf("#"), place = at < 0 ? "0" : name.slice(at + 1), demanded = this.quorums.get(at < 0 ? name : name.slice(0, at)) ?? [];
      return (/^(0|[1-9][0-9]{0,9})$/.test(place) ? demanded[Number(place)] : undefined) ?? MAX_QUORUM + 1;
    }));
  }

  sayApprovals() {
    if (this.approvals.recorded > 0) this.checked.push(`approved: ${this.approvals.line()}`);
  }

  // ---- The agent's keys and statements ----

  // the keys of an agent from the one that signed on, each endorsed by the one behind it
  keyChain(entries, agent, kid) {
    const known = new Map(), actions = ["agent-key.enrolled", "agent-key.revoked"];
    Object.assign(this, { agent, audience: undefined, chain: [] });
    for (const { action, payload, record } of this.said(entries, (subject, what) => subject.startsWith("agent-key:") && actions.includes(what))) {
      const own = (name) => (Object.hasOwn(payload, name) ? payload[name] : undefined), thumbprint = own("thumbprint");
      must(isString(thumbprint) && thumbprint !== "" && payload.subject === `agent-key:${thumbprint}`, "not the control record of a key");
      must(agent !== "" && own("agentId") === agent, `control record ${record.index} is of a key of another agent`);
      if (!known.has(thumbprint)) known.set(thumbprint, { revoked: [] });
      const one = known.get(thumbprint);
      if (action === "agent-key.revoked") {
        const [reason, since] = ["reason", "since"].map((name) => own(name) ?? null);
        must([reason, since].every((value) => value === null || isString(value)) && (since === null || timestamp(since)), "not the control record of a revocation");
        one.revoked.push({ ...record, reason, since });
        continue;
      }
      must(!one.key, "a key is enrolled twice");
      const [expiresAt, enrolment, endorsement] = ["expiresAt", "enrolment", "endorsement"].map(own);
      must([expiresAt, enrolment, endorsement].every((value) => value === null || isString(value) && value !== ""), "not the control record of a key");
      must(expiresAt === null || timestamp(expiresAt), "expiresAt is not a timestamp");
      const version = { undefined: 1, 1: 1, 2: 2 }[own("statementVersion")];
      must(version && ["undefined", "bigint"].includes(typeof own("statementVersion")), "statementVersion is not 1 or 2");
      Object.assign(one, { thumbprint, version, expiresAt, enrolment, endorsement: endorsement && readEndorsement(endorsement), by: payload.by, record, key: agentKey(own("jwk")) });
      must(one.key.thumbprint === thumbprint, "jwk is another key than the control record says");
    }
    for (let one = known.get(kid), before; ; one = before) {
      must(one?.key, `not complete: the control record of the key ${kid} is not in the file`);
      this.chain.push(one);
      if (!one.endorsement) break;
      kid = one.endorsement.kid;
      before = known.get(kid);
      must(before?.key, `not complete: the control record of the key ${kid}, which signed for another one, is not in the file`);
      must(before.record.index < one.record.index, "a key comes before the one that signed for it");
      must(before.revoked.every(({ index }) => index > one.record.index), "the key that signed for another one was revoked before");
      this.named(one.endorsement);
      one.endorsement.check(before.key);
      must(one.endorsement.claims.jkt === one.thumbprint, "an endorsement is of another key");
      this.endorsedInLife(one, before);
    }
    [this.revoked] = this.chain[0].revoked.map(({ timestamp: at }) => at).sort();
    // when the key came into other hands, as it is known
    [this.since] = this.chain[0].revoked.filter(({ since }) => since !== null).sort((a, b) => (a.since < b.since ? -1 : a.since > b.since ? 1 : 0));
    must(this.chain.length === known.size, "there is a control record of a key from which the signing one does not follow");
  }

  // while the key before lived, and just before the next one was enrolled
  endorsedInLife({ endorsement: { claims: { iat } }, record }, before) {
    const made = Number(iat) * 1000, at = milliseconds(record.timestamp), expires = before.expiresAt === null ? Infinity : milliseconds(before.expiresAt);
    must(at < expires + 300_000, "the key that signed for another one had expired");
    must(made >= milliseconds(before.record.timestamp) - 60_000 && made < expires, "an endorsement was not made while its key lived");
    must(made <= at + 60_000 && made >= at - 300_000, "an endorsement was not made when the next key was enrolled");
  }

  named({ claims: { iss, aud } }) { // by the SPIFFE IDs of company and agent, in one trust domain
    const domain = /^spiffe:\/\/([^/]+)\//.exec(aud);
    must(domain && aud === `${domain[0]}company/${this.file.companyId}`, "aud is not the SPIFFE ID of the company");
    must(iss === `${aud}/agent/${this.agent}`, "iss is not the SPIFFE ID of the agent");
    must((this.audience ??= aud) === aud, "aud is of another trust domain than what a key of the agent signed before");
  }

  // returns the statement
  signedByAgent({ payload: { statement, decision: _, ...action }, timestamp: time, delegation }) {
    const said = readStatement(statement), { claims, kid } = said, [signer] = this.chain, at = milliseconds(time), age = at - Number(claims.iat) * 1000;
    must(signer.version === 1 || Object.hasOwn(claims, "log"), "the statement does not name its log, and its key was enrolled since statements do");
    said.check(signer.key);
    this.named(said);
    must((claims.log ?? this.logs.actions.origin) === this.logs.actions.origin, "the statement was made for another log");
    must(claims.action_hash === digestOfParts([action]).toString("hex"), "the statement is of another action");
    const authority = !delegation ? "" : Object.hasOwn(claims, "log") ? digestOfParts([delegation]).toString("hex") : delegation.tokenId;
    must((claims.delegation ?? "") === authority, "the statement is of another delegation");
    must(age >= -60_000 && age <= 30 * 86400_000 + 300_000, "the statement was not made at the time of the record");
    must(signer.record.timestamp <= time, `the key ${kid} was enrolled after the record`);
    must(signer.expiresAt === null || at < milliseconds(signer.expiresAt) + 300_000, `the key ${kid} expired before the record`);
    must(!this.revoked || milliseconds(this.revoked) + 5_000 >= at, `the key ${kid} was revoked before the record`);
    return said;
  }

  whoseWord(what) { // as far as it is known; a pin that does not fit is refused
    const [{ thumbprint, endorsement, enrolment, by: credential, record }] = this.chain, pin = this.agentKey;
    const by = endorsement ? `the key before it, ${endorsement.kid}` : enrolment ? `the enrolment token ${enrolment}`
      : `an admin's credential, ${credential || "the service itself"}`;
    const who = `${thumbprint}, enrolled at ${record.timestamp} by ${by}`;
    if (!pin) return this.checked.push(`a key that the company enrolled for this agent signed ${what}: ${who}`);
    must(this.chain.some((one) => one.thumbprint === pin), `the key that you pinned, ${pin}, did not sign this, nor for the key that did: ${who}`);
    this.checked.push(`the agent's own key ${thumbprint} signed ${what}${pin === thumbprint ? "" : `: it follows from the key that you pinned, ${pin}`}`);
  }

  statement() {
    const { record, agentKey: given } = this.file, { payload } = record;
    if (!Object.hasOwn(payload, "statement")) return must(!this.agentKey, "you pinned a key of the agent, and nothing here is signed with one");
    const { kid, claims } = readStatement(payload.statement);
    must(given, `not complete: the control record of the key ${kid} is not in the file`);
    this.keyChain(given.records, payload.agentId, kid);
    this.signedByAgent(record);
    this.whoseWord("this");
    this.signedFor(claims);
    if (!Object.hasOwn(claims, "log") && Object.hasOwn(claims, "delegation")) this.checked.push("its statement covers the ID of the delegation alone, not what the delegation said");
    this.place(claims);
    if (this.isStolen(record)) this.checked.push(`the key was in other hands since ${this.stolen()}`);
  }

  signedFor({ iss, aud, log }) { // and what an older statement leaves open
    this.checked.push(log !== undefined ? `its statement is by ${iss}, for ${aud} and its log ${log}`
      : `its statement is by ${iss}, for ${aud}, and does not say which service it was made for: another one may have the same names`);
  }

  place({ sid, seq, refused, continues }) { // in a session
    if (sid === undefined) return;
    this.checked.push(`it is number ${seq} of the session ${sid} of that key`);
    if (refused) this.checked.push(`it says that the service refused ${refused.length} earlier statements of that session, the first of them number ${refused[0].seq} (${refused[0].code})`);
    if (continues) this.checked.push(`the session ${goesOn(continues)}`);
  }

  isStolen({ timestamp: at }) {
    return this.since !== undefined && at >= this.since.since;
  }

  stolen() {
    const { since, reason } = this.since;
    return `${since}, says its revocation${reason ? ` (${reason})` : ""}`;
  }

  // names who used what was given to another one
  acts({ index, payload: { agentId }, delegation }) {
    const actor = delegation && delegation.act !== null ? delegation.delegationChain.at(-1) : undefined;
    if (actor === undefined || this.notActor !== undefined) return;
    const end = `/company/${this.file.companyId}/agent/${agentId}`, domain = actor.startsWith("spiffe://") && actor.slice(9).endsWith(end) ? actor.slice(9, -end.length) : "";
    if (domain !== "" && !domain.includes("/")) return;
    this.notActor = actor;
    this.checked.push(`record ${index} is of the agent ${agentId}, and its delegation was given to ${actor}`);
  }
}

const goesOn = ({ sid, kid, hash }) => `goes on from the session ${sid} of the key ${kid}, whose last statement has the hash ${hash}`;

// What people approved, by the records in a file. The reference says what each is held against.
const APPROVAL_ACTIONS = new Map([
  ...["approval.granted", "approval.denied", "approval.used", "approval.withdrawn"].map((action) => [action, "approval:"]),
  ...["passkey.enrolled", "passkey.revoked"].map((action) => [action, "passkey:"]), ...["person.created", "person.changed", "person.deleted"].map((action) => [action, "person:"]),
]);
const MAX_QUORUM = 100;
const isApprovalID = like(/^apr_[A-Za-z0-9_-]{21}[AQgw]$/);
const OBJECT = {
  approvalId: isApprovalID, log: given, index: number, hash: hexadecimal(64), agentId: given, tool: given, person: isPolicyID, verdict: oneOf("approve", "deny"),
  uses: (n) => number(n) && n >= 1n && n <= 1000n, expiresAt: timestamp, reason: (s) => s === null || isString(s),
};

// the approval by which a record was allowed; undefined for none
const approvalOf = ({ payload: { decision } }) => (decision?.verdict === "allow" ? decision.approval : undefined);

// what a record asks for
function callOf({ payload: { agentId: agent, actionType, payload, statement } }) {
  const isObject = payload !== null && typeof payload === "object" && !Array.isArray(payload);
  const own = (name) => (isObject && Object.hasOwn(payload, name) ? payload[name] : undefined), text = (name) => (isString(own(name)) ? own(name) : "");
  const hooks = text("sessionId"), session = (statement === undefined ? "" : readStatement(statement).claims.sid) || hooks;
  let tool = text("tool"), server = text("server");
  if (!tool) return { agent, session, hooks, isCall: false, tool: actionType, arguments: canonical(payload) };
  const cut = tool.startsWith("mcp__") && !server ? tool.indexOf("__", 5) : -1;
  if (cut >= 0) [server, tool] = [tool.slice(5, cut), tool.slice(cut + 2)];
  const input = own("input") === undefined ? own("arguments") : own("input");
  return { agent, session, hooks, isCall: true, tool: server ? `${server}/${tool}` : tool, arguments: input === undefined ? "{}" : canonical(input) };
}

// how many people must approve what each policy of a text in Cedar permits
function quorums(cedar) {
  const all = cedar.match(/\/\/[^\n]*|\/\*[^*]*\*+(?:[^/*][^*]*\*+)*\/|"(?:\\[^\n]|[^"\\\n])*"|[0-9A-Za-z_]+|[@();]/g) ?? [];
  const tokens = all.filter((token) => !token.startsWith("//") && !token.startsWith("/*")), demanded = [];
  let one = 1;
  tokens.forEach((token, i) => {
    if (token === ";") {
      demanded.push(one);
      one = 1;
    } else if (token === "@" && tokens[i + 1] === "quorum") {
      const found = /^"([1-9][0-9]?|100)"$/.exec(tokens[i + 3] ?? "");
      one = found && tokens[i + 2] === "(" && tokens[i + 4] === ")" ? Number(found[1]) : MAX_QUORUM + 1;
    }
  });
  return demanded;
}

class Approvals {
  held = false; // the file has them
  origin = "";
  recorded = 0; // how many records were allowed with one
  missing = ""; // ID of the first that the file does not have
  requests = new Map();
  passkeys = new Map();
  people = new Map();
  byID = new Map();
  named = []; // by whose passkeys, in words

  ask(record) { // a record that asked
    const { index, payload: { actionType, payload, decision } } = record;
    let name = decision?.verdict === "ask" ? decision.approval : undefined, ends;
    if (actionType === "approval.requested") {
      ({ approvalId: name, expiresAt: ends } = payload);
      must(isString(ends) && timestamp(ends), "it does not say until when");
    }
    must(isApprovalID(name), `record ${index} asked for no approval`);
    this.requests.set(index, { record, call: callOf(record), name, ends });
  }

  add(action, payload, record) { // a control record
    const { index, timestamp: time } = record, kind = APPROVAL_ACTIONS.get(action), name = payload.subject.slice(kind.length);
    const own = (member) => (Object.hasOwn(payload, member) ? payload[member] : undefined);
    if (action === "passkey.enrolled") {
      const cose = unbase64url(own("publicKey"));
      must(cose.length <= 1024 && !this.passkeys.has(name), `control record ${index} enrols no passkey, or one twice`);
      const key = passkey(cose);
      must(own("credentialId") === name && isPolicyID(own("personId")) && own("algorithm") === key.algorithm, `control record ${index} does not name the passkey, its person and its algorithm`);
      this.passkeys.set(name, { ...key, at: milliseconds(time), person: own("personId"), revoked: false });
    } else if (action === "passkey.revoked") {
      if (this.passkeys.has(name)) this.passkeys.get(name).revoked = true;
    } else if (kind === "person:") {
      const isDeleted = action === "person.deleted", roles = isDeleted ? [] : own("roles");
      must(Array.isArray(roles) && roles.length <= 10_000 && roles.every(isString), `control record ${index} does not say which roles the person has`);
      this.people.set(name, { isGone: isDeleted || (own("disabledAt") ?? null) !== null, isApprover: roles.includes("approver") });
    } else if (action === "approval.withdrawn") {
      if (this.byID.has(name)) this.byID.get(name).end = "it was withdrawn";
    } else if (action === "approval.used") this.use(name, own, index);
    else this.decide(name, action, own, record);
  }

  decide(name, action, own, { index, timestamp: time }) {
    const at = milliseconds(time), object = own("object"), credential = own("credentialId");
    hasForm(object, OBJECT, `the object of control record ${index}`);
    const { approvalId, log, index: of, hash, agentId, tool, person, verdict, uses, expiresAt } = object;
    const [data, client, signature] = ["authenticatorData", "clientDataJSON", "signature"].map((member) => unbase64url(own(member)));
    must(isString(credential) && data.length <= 1024 && client.length <= 4096 && signature.length <= 512, "an assertion has not its form");
    const key = this.passkeys.get(credential), asked = this.requests.get(of), known = this.people.get(person);
    must(key, `not complete: nothing before control record ${index} enrolled the passkey that signed it`);
    must(!key.revoked, `the passkey of control record ${index} was revoked before`);
    must(key.person === person && own("by") === `person:${person}`, `control record ${index} is of another person than its passkey`);
    must(key.at - at <= 5000, `the passkey of control record ${index} was enrolled later`);
    must(approvalId === name && (verdict === "approve") === (action === "approval.granted"), `the object of control record ${index} is of another approval, or of another verdict`);
    must(!known || known.isApprover && !known.isGone, `${person} was no approver at control record ${index}`);
    const origin = checkAssertion(data, client, signature, key, sha256(`attestd approval v1\n${canonical(object)}`));
    must(asked, `not complete: the record of which control record ${index} is is not in the file`);
    must(log === this.origin && hash === asked.record.hash && approvalId === asked.name, `the object of control record ${index} is of another record`);
    must(agentId === asked.call.agent && tool === asked.call.tool, `the object of control record ${index} names another agent or tool`);
    must(milliseconds(asked.record.timestamp) - at <= 5000, `control record ${index} was made before the record that it is about`);
    must([expiresAt, asked.ends].every((end) => end === undefined || at - milliseconds(end) <= 5000), `control record ${index} was made after the end of the approval`);
    const one = this.byID.get(name) ?? { request: asked, grants: [], end: "", uses: 1000n, left: 1000n, used: new Map() };
    this.byID.set(name, one);
    must(one.request === asked, `control record ${index} approves another record than another person`);
    must(one.end === "", `the approval ${name} had ended: ${one.end}`);
    must(one.grants.every((grant) => grant.object.person !== person), `${person} decided twice`);
    if (verdict === "deny") {
      one.end = `${person} denied it`;
      return;
    }
    one.grants.push({ index, timestamp: time, at, object, fingerprint: key.fingerprint, origin });
    if (uses < one.uses) one.uses = uses;
    if (one.used.size === 0) one.left = one.uses;
  }

  use(name, own, index) {
    const used = own("index"), hash = own("hash"), left = own("remaining"), one = this.byID.get(name);
    must(own("approvalId") === name && own("log") === this.origin && number(used) && hexadecimal(64)(hash), `control record ${index} does not name the approval, and the record that used it`);
    must(one && one.grants.length > 0, `not complete: nothing before control record ${index} granted the approval`);
    must(one.end === "", `the approval ${name} had ended: ${one.end}`);
    must(number(left) && left < one.left, `the approval ${name} was used more often than was approved`);
    must(!one.grants.some(({ object: { person } }) => this.people.get(person)?.isGone), `one who approved ${name} was disabled or deleted before its use`);
    must(!one.used.has(used), `record ${used} used the approval ${name} twice`);
    one.left = left;
    one.used.set(used, { hash, grants: [...one.grants] });
  }

  name({ object: { person }, fingerprint }, isPinned) {
    const said = isPinned ? `by ${person}'s passkey ${fingerprint}, which you named`
      : `by a passkey that the company enrolled for ${person}, ${fingerprint}; that it is ${person}'s own is not confirmed`;
    if (!this.named.includes(said) && this.named.length < 10) this.named.push(said);
  }

  line() {
    if (!this.held) return `not in this file: nothing here shows who gave the approval ${this.missing}`;
    return (this.recorded > 1 ? `${counted(BigInt(this.recorded))}, ` : "") + this.named.join("; ");
  }
}

function passkey(cose) { // {fingerprint, algorithm, check: whether it has signed} of a COSE key
  const hexed = cose.toString("hex"), jwk = (members) => createPublicKey({ key: members, format: "jwk" });
  const point = /^a5010203262001215820([0-9a-f]{64})225820([0-9a-f]{64})$/.exec(hexed), okp = /^a4010103272006215820([0-9a-f]{64})$/.exec(hexed);
  const modulus = /^a40103033901002059([0-9a-f]{4})((?:[0-9a-f]{2})+)2143010001$/.exec(hexed), bytes = (text) => Buffer.from(text, "hex");
  let key, algorithm, check;
  if (point) {
    const [x, y] = point.slice(1).map(bytes);
    must(bigEndian(x) < P256 && bigEndian(y) < P256, "not a point of P-256");
    key = jwk({ kty: "EC", crv: "P-256", x: x.toString("base64url"), y: y.toString("base64url") });
    algorithm = -7n;
    check = (signature, message) => isDER(signature) && verify("sha256", message, { key, dsaEncoding: "der" }, signature);
  } else if (okp) {
    const raw = bytes(okp[1]), y = littleEndian(raw) % 2n ** 255n;
    must(y < FIELD && !SMALL.includes(y), "a key for which everybody can sign, or in another spelling");
    key = jwk({ kty: "OKP", crv: "Ed25519", x: raw.toString("base64url") });
    algorithm = -8n;
    check = (signature, message) => verifies(raw, signature, message);
  } else {
    const size = Number.parseInt(modulus?.[1] ?? "0", 16), n = bytes(modulus?.[2] ?? "");
    must(size >= 256 && size <= 512 && n.length === size && n[0] >= 0x80 && (n.at(-1) & 1) === 1, "no key of a passkey");
    key = jwk({ kty: "RSA", n: n.toString("base64url"), e: "AQAB" });
    algorithm = -257n;
    check = (signature, message) => signature.length === size && verify("sha256", message, key, signature);
  }
  return { fingerprint: `SHA256:${sha256(key.export({ format: "der", type: "spki" })).toString("base64url")}`, algorithm, check };
}

function isDER(signature) { // of two numbers of P-256, in the one spelling that they have
  if (signature.length > 72 || signature[0] !== 0x30 || signature[1] !== signature.length - 2) return false;
  let at = 2;
  for (let i = 0; i < 2; i++) {
    const length = signature[at + 1], from = at + 2;
    if (signature[at] !== 2 || !(length > 0 && length <= 33) || from + length > signature.length || signature[from] >= 0x80) return false;
    if (signature[from] === 0 && !(length > 1 && signature[from + 1] >= 0x80)) return false;
    at = from + length;
  }
  return at === signature.length;
}

// Whether a passkey has signed a challenge on a page that is the relying party; returns the page.
function checkAssertion(data, client, signature, key, challenge) {
  bounded(client);
  const said = read(decoded(client)), own = (name) => (Object.hasOwn(said, name) ? said[name] : undefined), origin = own("origin");
  must(said !== null && typeof said === "object" && !Array.isArray(said) && nesting(said) <= 9, "clientDataJSON is no JSON object");
  must(own("type") === "webauthn.get", "type is not webauthn.get");
  must(own("challenge") === challenge.toString("base64url"), "the challenge is another one");
  const page = isString(origin) && /^(?:https:\/\/([a-z0-9.-]{1,253})|http:\/\/(localhost))(?::[0-9]{1,5})?$/.exec(origin);
  must(page, "origin is no page of a relying party");
  must((!Object.hasOwn(said, "crossOrigin") || said.crossOrigin === false) && !Object.hasOwn(said, "topOrigin"), "another page had the passkey asked for in a frame");
  must(data.length >= 37 && data.length <= 1024 && data.subarray(0, 32).equals(sha256(page[1] ?? page[2])), "rpIdHash is that of another relying party");
  const flags = data[32];
  must((flags & 5) === 5, "the person was not there, or not verified");
  must((flags & 0x10) === 0 || (flags & 8) !== 0, "the flag BS is there without BE");
  must((flags & 0x40) === 0 && (data.length > 37) === ((flags & 0x80) !== 0), "authenticatorData is that of an enrolment, or of another length than it says");
  must(key.check(signature, Buffer.concat([data, sha256(client)])), "the signature is not that of the passkey");
  return origin;
}

// ---- What a file does not prove, and policies ----

const NOT_PROVEN = [
  "That nothing was left out: this file shows one record, not what came before it, after it or beside it.",
  "That what the payload says is true: only that the service was given it, and when by the service's clock.",
  "That the service's clock was right: every time in this file that is not a witness's is the operator's word.",
  "That nobody else had the company's key, nor that a key was not declared compromised after this file was made.",
  "That there is no other history: only witnesses whom you chose, or a checkpoint that you kept, show that. Two appliances of one owner are not independent.",
  "That the root in hexProof is the chain's: compare it with one that you kept.",
];
const NOT_ORDERED = "How records of the two logs follow each other but by their times.";
const NOT_ONCE = "That no other record has the same statement: the agent signed it once, and a second record of it would look the same.";
const NOT_OWN_KEY = "That the agent alone holds the key of its statement: whoever enrolled that key may hold it. Only a key that you know from the agent, and name to the checker, shows whose word this is.";
const NOT_UNDERSTOOD = "That a person who approved something understood it, nor that the page showed it as it was: only that their passkey signed exactly what is here. Only a key that you know from the person, and name to the checker, shows whose passkey it is.";
const NOT_USED_AGAIN = "That an approval was not used again for the same call: a use that is missing here may stand in the logs.";
const NOT_PROVEN_OF = [ // and of files with one of these members, and none of those behind them
  ["That no other record of the control log bears on this one: what is missing here may stand there.", ["authority", "passport", "agentKey", "policies", "passports", "approvals"]],
  [NOT_ORDERED, ["agentKey"]], [NOT_ONCE, ["agentKey"]], [NOT_OWN_KEY, ["agentKey"]],
  ["How records of the two logs follow each other but by their times, nor that the agent itself acted: the service knows the credential, not who held it.", ["authority"], ["agentKey"]],
  [NOT_UNDERSTOOD, ["approvals"]], [NOT_USED_AGAIN, ["approvals"]],
  ["That the status of the passport is still the same: it is of the moment when it was checked.", ["status"]],
];

// c2sp.org/tlog-policy: logs, witnesses by name, groups, and the name of the quorum
export function readPolicy(text) {
  // free: may a name there still become a member
  const logs = [], witnesses = [], groups = [], free = new Map([["none", false]]);
  let quorum;
  must(Buffer.byteLength(text) <= 1 << 20 && /(^|\n)$/.test(text) && !/[\0-\x08\x0b-\x1f\x7f]/.test(text), "not the text of a policy");
  for (const line of text.split("\n")) {
    const [keyword, ...items] = line.split(/[ \t]+/).filter(Boolean), [name] = items;
    if (keyword === undefined || keyword.startsWith("#")) continue;
    if (keyword === "log" && items.length >= 1 && items.length <= 2) {
      logs.push(readVKey(name, 1));
      continue;
    }
    if (keyword === "quorum" && items.length === 1 && !quorum && free.has(name)) {
      quorum = name;
      continue;
    }
    must(!free.has(name), `not a line of a policy: ${line}`);
    if (keyword === "witness" && items.length >= 2 && items.length <= 3) {
      witnesses.push([name, readVKey(items[1], 4)]);
    } else {
      const [, asked, ...members] = items, k = asked === "all" ? members.length : asked === "any" ? 1 : Number(asked);
      must(keyword === "group" && members.length > 0 && /^(all|any|[1-9][0-9]*)$/.test(asked) && k <= members.length, `not a line of a policy: ${line}`);
      for (const member of members) {
        must(free.get(member), `${member} is not there, or is of another group already`);
        free.set(member, false);
      }
      groups.push([name, k, members]);
    }
    free.set(name, true);
  }
  must(quorum, "no line says what the quorum is");
  for (const list of [logs, witnesses.map(([, w]) => w)]) must(new Set(list.map(({ raw }) => raw.toString("hex"))).size === list.length, "a key is listed twice");
  return { logs, witnesses, groups, quorum };
}

// ---- The checks of a session file ----

const SESSION_NOT_PROVEN = [
  "That the agent did nothing else: this file shows one session of one key, not what came before it, after it or beside it.",
  "That nothing followed in a session that is open: only its end, which the agent signs, shows that.",
  "That what payloads say is true: only that they were signed, and that the service was given them, and when by the service's clock.",
  ...NOT_PROVEN.slice(2, 5),
  "That no other record of the control log bears on this session: what is missing here may stand there.",
  NOT_ORDERED, NOT_ONCE, NOT_OWN_KEY,
];
const HEADER = {
  format: oneOf("attestd-session/v1"), companyId: COMPANY, agentId: isString, kid: isThumbprint, sid: SESSION,
  records: (n) => number(n) && n >= 1n && n <= 1_000_000n, checkpoint: isString, logs: LOGS, keys: KEYS, witnesses: [isString, 16],
  agentKey: { records: ENTRIES }, "policies?": { records: ENTRIES }, "passports?": { records: ENTRIES }, "approvals?": APPROVALS, notProven: [isString, 10_000],
};
const LINE = { record: RECORD, proof: [isString, 60] };
const LONGEST = 8 << 20; // of a line, in bytes

function isSession(line) { // by the first line of a file
  try {
    bounded(line);
    return read(decoded(line)).format === "attestd-session/v1";
  } catch {
    return false;
  }
}

export class Session extends Evidence { // the file of a session while it is checked, line by line
  places = new Places();
  calls = new Calls();
  tally = new Tally();
  // with a statement of version 1, and of those with a delegation; since the key was in other hands
  records = { older: 0, exchanged: 0, stolen: 0 };

  * steps() {
    yield* [["MALFORMED", this.header], ["KEYS", this.keys], ["WITNESSES", this.readWitnesses], ["LOG_PROOF", this.checkpoint], ["STATEMENT", this.whose]];
    yield* [["DECISION", this.policies], ["APPROVAL", this.readApprovals], ["WITNESSES", this.allCosigned], ["NOT_PROVEN", this.notProven], ["KEY", this.key], ["POLICY", this.byPolicy]];
    for (let n = 0n; n < this.file.records; n++) {
      yield* [["MALFORMED", this.next], ["RECORD", this.record], ["LOG_PROOF", this.logProof], ["STATEMENT", this.statement]];
      yield* [["DECISION", this.lineDecision], ["APPROVAL", this.lineApproval]];
    }
    yield ["MALFORMED", this.end];
  }

  line(form, name) {
    const line = this.source.line(LONGEST);
    must(line.at(-1) === 10 && line.length <= LONGEST, `${name} is missing, or longer than ${LONGEST} bytes, or has no line feed`);
    bounded(line);
    const value = read(decoded(line));
    hasForm(value, form, name);
    return value;
  }

  header() {
    this.file = this.line(HEADER, "header");
    must(this.file.keys.length > 0, "keys is empty");
    this.opening();
  }

  needed() {
    return ["actions", "control"];
  }

  checkpoint() {
    const { size, root } = this.opened(this.logs.actions, this.file.checkpoint);
    Object.assign(this, { size, root });
  }

  whose() {
    this.keyChain(this.file.agentKey.records, this.file.agentId, this.file.kid);
    this.whoseWord("every record of this session");
  }

  unproven() {
    return [...SESSION_NOT_PROVEN, ...this.file.approvals ? [NOT_UNDERSTOOD, NOT_USED_AGAIN] : []];
  }

  next() {
    this.one = this.line(LINE, "line");
    must(this.one.proof.every((sibling) => unbase64(sibling).length === 32), "not a proof");
  }

  record() {
    this.signed(this.logs.actions, this.one.record);
  }

  logProof() {
    this.included(this.logs.actions, this.one.record, this.one.proof, this.size, this.root);
  }

  statement() {
    const { file, one: { record, record: { index, payload } } } = this;
    must(Object.hasOwn(payload, "statement"), `record ${index} has no statement`);
    must(payload.agentId === file.agentId, `record ${index} is of another agent`);
    const { claims } = this.signedByAgent(record), { sid, log, delegation, continues } = claims;
    must(sid === file.sid, `record ${index} is of another session`);
    this.places.add(claims, index, sha256(payload.statement).toString("hex"));
    this.continues ??= continues;
    this.last = claims;
    this.records.older += log === undefined;
    this.records.exchanged += log === undefined && delegation !== undefined;
    this.records.stolen += this.isStolen(record);
    this.acts(record);
    this.calls.add(record);
    this.tally.add(this, record);
  }

  lineDecision() {
    this.decided(this.one.record);
  }

  lineApproval() {
    this.approved(this.one.record);
  }

  end() {
    must(this.source.line(LONGEST).length === 0, "there are more lines than the header says");
    const { file: { sid, agentId, records }, places, continues, records: { older, exchanged, stolen } } = this, say = (line) => this.checked.push(line);
    say(`session ${sid} of the agent ${agentId}: ${records} records, ${this.calls.state(places.state())}`);
    this.sayDecisions();
    this.sayApprovals();
    this.signedFor(this.last);
    if (older > 0 && BigInt(older) < records) say(`${older} of its statements do not say which service they were made for: those are of the older form`);
    if (exchanged > 0) say(`${exchanged} of its statements cover the ID of a delegation alone, not what the delegation said`);
    if (continues) say(`it ${goesOn(continues)}`);
    say("a session that goes on from this one may exist elsewhere");
    for (const [seq, index] of places.recorded) {
      say(index < 0n ? `the service recorded number ${seq}, although it had told the agent that it refused a statement of that number; whether it is the same one is not compared here`
        : `the service recorded number ${seq}, record ${index}, although it had told the agent that it refused it`);
    }
    if (places.isMore) say("there are more numbers that the service recorded although it had told the agent that it refused them");
    if (stolen > 0) say(`the key was in other hands since ${this.stolen()}; ${stolen} of these records are of that time`);
  }
}

// ---- Summary and verdict in words ----

// The summary of a file that does not fail: who did what, on whose behalf and under which right.
// All checkers print the same lines. Names of the file are JSON strings in them, and end where they
// end.
const MOST_SHOWN = 2000; // characters of a payload, or of a delegation chain
const MOST_TYPES = 10; // action types of a session

const grouped = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ",");

export function shown(text) { // all of it, or its beginning and how long all of it is
  let length = 0, end = 0;
  for (const character of text) {
    if (length++ < MOST_SHOWN) end += character.length;
  }
  return length <= MOST_SHOWN ? text : `the first ${grouped(MOST_SHOWN)} of ${grouped(length)} characters: ${text.slice(0, end)}`;
}

const counted = (count) => `${count} record${count === 1n ? "" : "s"}`;

function companyKey({ policy, fingerprint, isKnown }, key) {
  if (policy) return `the company's key ${key}, confirmed by the policy that you named`;
  if (!fingerprint) return `the key ${key}; that it is the company's is not confirmed`;
  const whose = isKnown ? "is stored as trusted on this machine" : "you named";
  return `the company's key ${key}, ${key === fingerprint ? "which" : "confirmed by the key that"} ${whose}`;
}

function agentsWord({ chain, agentKey: pin, since }, isStolen) {
  if (!chain) return "none: that the agent did this is the company's word alone";
  const [{ thumbprint: kid }] = chain;
  const said = pin ? `by the agent's own key ${kid}, ${pin === kid ? "which you named" : "which follows from the one that you named"}`
    : `by the key ${kid}, which the company enrolled for this agent; that it is the agent's own is not confirmed`;
  return said + (isStolen ? `; the key was in other hands since ${since.since}` : "");
}

function behalf({ notActor }, { delegation }) {
  if (!delegation) return "nobody else: it has no delegation";
  const { subject, delegationChain: all } = delegation, chain = all[0] === subject ? all : [subject, ...all];
  return shown(chain.map(canonical).join(" -> ")) + (notActor === undefined ? "" : "; it was given to another one than this agent");
}

// whether the action was allowed is for the reader to judge: no file says that
function* rights({ file: { record: { payload: { agentId }, timestamp: at }, authority, passport, status }, allowed, events }) {
  const agent = canonical(agentId), last = allowed.findLast(({ payload, record }) => payload.subject === `agent:${agentId}` && record.timestamp <= at);
  if (!authority) yield ["right", `not in this file: it has no control records about the agent ${agent}`];
  else if (!last) yield ["right", `nothing here says that the agent ${agent} was registered at that time`];
  else yield ["right", `the latest control record here about the agent ${agent} at that time is ${canonical(last.action)}, control record ${last.record.index}, ${last.record.timestamp}`];
  if (!passport) return;
  const issued = events.findLast(({ action }) => action === "passport.issued");
  const scopes = !issued ? "which nothing here says was ever issued"
    : `issued with the scopes ${shown(canonical(Object.hasOwn(issued.payload, "scopes") ? issued.payload.scopes : null))}`;
  yield ["passport", `${canonical(passport.jti)}, ${scopes}, was ${status.status} at ${status.checkedAt}; nothing here says that this was done with it`];
}

function* approvedLine({ approvals }) {
  if (approvals.recorded > 0) yield ["approved", approvals.line()];
}

class Tally { // what the summary of a session says of its records
  first = "";
  last = "";
  types = new Map();
  others = 0;
  delegated = 0;
  delegate = "";

  add(checked, record) {
    const { timestamp: at, index, payload: { actionType } } = record, count = this.types.get(actionType);
    this.first ||= at;
    this.last = at;
    if (count || this.types.size < MOST_TYPES) this.types.set(actionType, (count ?? 0) + 1);
    else this.others++;
    if (!record.delegation) return;
    this.delegated++;
    this.delegate ||= `record ${index}: ${behalf(checked, record)}`;
  }

  actions() {
    const some = [...this.types].map(([name, count]) => `${canonical(name)} (${count})`);
    return shown([...some, ...this.others > 0 ? [`other types (${this.others})`] : []].join(", "));
  }
}

export function* summary(checked) { // [name, text] of each line
  const { file } = checked, company = canonical(file.companyId);
  if (checked instanceof Session) {
    const { tally, places, calls, records: { stolen } } = checked, agent = canonical(file.agentId), count = counted(file.records);
    yield ["who", `agent ${agent} of the company ${company}, in its session ${canonical(file.sid)}`];
    yield ["signed by", companyKey(checked, file.keys.at(-1).fingerprint)];
    yield ["agent's signature", agentsWord(checked, stolen > 0)];
    yield ["what", `${count}, ${calls.state(places.state())}; from ${tally.first} to ${tally.last} by the service's clock`];
    yield ["actions", tally.actions()];
    yield ["payload", "not shown: each record has its own, in its line of the file"];
    yield ["on behalf of", tally.delegated > 0 ? `${tally.delegated} of ${count} have a delegation, the first of them ${tally.delegate}` : "nobody else: no record has a delegation"];
    yield ["right", `not in this file: it has no control records about the agent ${agent} but those of its key`];
    yield* approvedLine(checked);
    return;
  }
  const { record, log, keys } = file, { agentId, actionType, payload } = record.payload, isAction = log === "actions";
  const ring = checked.logs[log].keys, at = keys.length - ring.length + ring.indexOf(signer(checked.logs[log], record));
  yield ["who", isAction ? `agent ${canonical(agentId)} of the company ${company}` : `the service itself, in the control log of the company ${company}`];
  yield ["signed by", companyKey(checked, keys[at].fingerprint)];
  if (isAction) yield ["agent's signature", agentsWord(checked, Boolean(checked.chain) && checked.isStolen(record))];
  yield ["what", `${canonical(actionType)}, record ${record.index} of the log ${log}, ${record.timestamp} by the service's clock`];
  yield ["payload", shown(canonical(payload))];
  if (!isAction) return;
  yield ["on behalf of", behalf(checked, record)];
  yield* rights(checked);
  yield* approvedLine(checked);
}

// the verdict, as all checkers print it
export const inWords = ({ verdict, code, reason }) => (code ? `fails: ${code}: ${reason}` : verdict === "holds" ? "holds" : `holds, ${reason}`);

// ---- Kinds of files ----

// What a file is, and who checks it. A file of another kind than this checker reads may be as
// genuine as any: it gets no verdict. Package filekind is the reference of this part.
export const KINDS = {
  evidence: ["evidence of a record", "attestd check, check.py, check.mjs, verifier.html and the page Proof of the console check it"],
  session: ["the file of a session", "attestd check, check.py, check.mjs and verifier.html check it"],
  report: ["a report", "attestd check, attestd report and the page Report of the console check it"],
  archive: ["an archive", "attestd check checks it, by itself"],
  lines: ["a file of exported lines", "attestd check --lines checks it"],
  proof: ["a proof", "check.py and check.mjs check it, with a file of the company's keys after it"],
  record: ["a record", "functions of check.py and check.mjs check it, with the company's keys; GET /v1/evidence/{index} is a file about it that attestd check reads"],
  status: ["the status of a passport", "functions of check.py and check.mjs check it, with the company's keys"],
  passport: ["an answer with a passport", "functions of check.py and check.mjs check it, with the company's keys; the page Passports of the console checks the token in it"],
  token: ["a token", "functions of check.py and check.mjs check a passport, with the company's keys, and the page Passports of the console"],
  keys: ["a file of a company's keys", "check.py and check.mjs take it after a proof"],
  checkpoint: ["a checkpoint", "the page Checkpoints of the console checks it; with GET /v1/log/{logId}/consistency, attestd check --newer compares it with an older file"],
  consistency: ["the proof that a log goes on", "attestd check --newer takes it, with an older file"],
  "tlog-proof": ["a tlog-proof", "tools of c2sp.org check it; GET /v1/evidence/{index} has it in a file that attestd check reads"],
  saved: ["evidence that an earlier console saved", "the page Proof of the console checks it"],
};
export const BEGIN = 8 << 20; // bytes of a file that count
const BY_FORM = [
  ["tlog-proof", /^c2sp\.org\/tlog-proof@v1\n/], ["consistency", /^old (0|[1-9][0-9]*)\n/], ["checkpoint", /^[^{\n]+\n(0|[1-9][0-9]*)\n[A-Za-z0-9+/]{43}=\n/],
];
const TOKEN = /^[ \t\r\n]*[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+[ \t\r\n]*$/;
const BY_FORMAT = new Map([["attestd-evidence/v1", "evidence"], ["attestd-session/v1", "session"], ["attestd-report/v1", "report"]]);
// the type of a file's first line
const BY_TYPE = new Map([["archive", "archive"], ["record", "lines"], ["checkpoint", "lines"], ["opening", "lines"], ["keys", "lines"]]);
const BY_MEMBERS = [
  ["proof", "record", "proof", "root"], ["record", "index", "timestamp", "payload", "hash", "signature"], ["status", "jti", "status", "checkedAt", "signature"],
  ["passport", "passport", "caPublicKey"], ["keys", "keys", "origin"], ["keys", "keys", "fingerprint"],
];

export function kindOf(begin) { // of a file, by its first BEGIN bytes; "" where it is of no kind
  const isWhole = begin.length < BEGIN, text = begin.toString("latin1"); // byte for byte
  for (const [kind, form] of BY_FORM) if (form.test(text)) return kind;
  if (isWhole && TOKEN.test(text)) return "token";
  const end = begin.indexOf(10), line = end < 0 ? begin : begin.subarray(0, end);
  if (end < 0 && !isWhole) return "";
  const at = line.indexOf(123), kind = at >= 0 && at <= 1024 ? kindOfObject(line.subarray(at)) : "";
  if (kind && (at === 0 || kind === "lines")) return kind;
  return isWhole && end >= 0 ? kindOfObject(begin) : "";
}

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

function kindOfObject(text) {
  let value;
  try {
    bounded(text);
    value = read(decoded(text));
  } catch {
    return "";
  }
  if (!isObject(value)) return "";
  const has = (name) => Object.hasOwn(value, name);
  const inside = has("unmapped") ? value.unmapped : null, carried = isObject(inside) && Object.hasOwn(inside, "attestd") ? inside.attestd : null;
  if (has("class_uid") && isObject(carried) && kindOfFormat(carried) === "lines") return "lines";
  if (has("format")) return kindOfFormat(value);
  if (has("type") && value.type === "attestd-evidence") return "saved";
  return BY_MEMBERS.find(([, ...names]) => names.every(has))?.[0] ?? "";
}

function kindOfFormat(value) {
  const of = (name) => (Object.hasOwn(value, name) ? value[name] : "");
  if (of("format") === "attestd-lines/v1") return BY_TYPE.get(of("type")) ?? "";
  return BY_FORMAT.get(of("format")) ?? "";
}

class NotRead extends Error {} // a file is of a kind that this checker does not read

function mustBe(name, begin, ...kinds) {
  const kind = kindOf(begin.subarray(0, BEGIN));
  if (kind && !kinds.includes(kind)) throw new NotRead(`${name} is ${KINDS[kind].join(": ")}`);
}

// ---- Trusted keys ----

// The keys of companies that this machine trusts, which attestd trust stores, are lines
// "COMPANY SHA256:…". Who can change or replace their file could choose the keys.
const MOST_KNOWN = 64 << 10; // bytes of the file

function knownFile() { // its path; undefined without a configuration folder
  const { AppData, HOME, XDG_CONFIG_HOME } = process.env, inHome = (below) => HOME && `${HOME}/${below}`;
  const folder = process.platform === "win32" ? AppData
    : process.platform === "darwin" ? inHome("Library/Application Support")
      : !XDG_CONFIG_HOME ? inHome(".config") : isAbsolute(XDG_CONFIG_HOME) ? XDG_CONFIG_HOME : undefined;
  return folder ? resolve(folder, "attestd", "trusted-keys") : undefined;
}

// no other user, root aside, can change what is at a path, or a folder above it
function mustBeOwn(path, above = false, links = 0) {
  if (!process.geteuid) return; // elsewhere no mode says so
  const found = lstatSync(path), mode = found.mode & 0o7777;
  must([0, process.geteuid()].includes(found.uid), `${path} belongs to another user`);
  if (found.isSymbolicLink()) {
    must(links < 40, `${path}: too many links`);
    mustBeOwn(resolve(dirname(path), readlinkSync(path)), above, links + 1);
  } else {
    const isShared = (mode & 0o022) !== 0 && !(above && (mode & 0o1000) !== 0);
    must(!isShared, `others can write ${path} (mode ${mode.toString(8)}), and so change which keys are trusted; chmod go-w`);
  }
  if (dirname(path) !== path) mustBeOwn(dirname(path), true, links);
}

class NotUsable extends Error {} // the file of trusted keys is there, and cannot be relied on

function knownKeys() { // the fingerprint of each company
  const path = knownFile();
  let file;
  try {
    if (!path) return new Map();
    // to open a pipe would wait
    file = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
    must(fstatSync(file).isFile(), `${path} is not a regular file`);
    mustBeOwn(path);
    const source = sourceOf(file).begin(MOST_KNOWN + 1);
    must(source.length <= MOST_KNOWN, `${path} has more than ${MOST_KNOWN} bytes`);
    return parseKnown(path, source);
  } catch (refused) {
    if (refused.code === "ENOENT") return new Map();
    throw new NotUsable(refused.message);
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

function parseKnown(path, source) {
  const keys = new Map();
  source.toString("latin1").split("\n").forEach((line, i) => {
    const words = line.split(/[ \t\v\f\r]+/).filter(Boolean), [company, key] = words;
    if (words.length === 0 || company.startsWith("#")) return;
    must(words.length === 2 && COMPANY(company) && isFingerprint(key),
      `${path}: line ${i + 1} is not a company and the fingerprint of a key: ${canonical(words.join(" "))}`);
    must(!keys.has(company), `${path}: line ${i + 1}: ${company} has two keys; remove the one that is not the company's`);
    keys.set(company, key);
  });
  return keys;
}

const isFingerprint = like(/^SHA256:[A-Za-z0-9_-]{43}$/);

// ---- Command line ----

// escapes what would move, reverse or add to what a terminal shows; half a surrogate pair becomes
// U+FFFD
export const printable = (text) =>
  text.replace(/[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`)
    .replace(/\p{Surrogate}/gu, "\ufffd");

// a file as it is read; fill puts more of it into a Buffer, and says how much
class Source {
  held = Buffer.alloc(0);

  constructor(fill) {
    this.fill = fill;
  }

  // the next line with its line feed, or what is there of one that is too long or has none
  line(longest) {
    let end = 0;
    for (let from = 0; (end = this.held.indexOf(10, from) + 1) === 0 && this.held.length <= longest;) {
      const more = Buffer.allocUnsafe(1 << 16), length = this.fill(more);
      from = this.held.length;
      this.held = Buffer.concat([this.held, more.subarray(0, length)]);
      if (length === 0) break;
    }
    const line = this.held.subarray(0, end || this.held.length);
    this.held = this.held.subarray(line.length);
    return line;
  }

  begin(size) { // its first bytes, which stay to be read
    const most = Buffer.allocUnsafe(size);
    let length = this.held.copy(most);
    for (let more; (more = this.fill(most.subarray(length))) > 0;) length += more;
    return this.held = most.subarray(0, length);
  }

  rest() { // all of it, and of what is longer than may be checked so much that its reader sees it
    const most = Buffer.allocUnsafe((64 << 20) + 1);
    let length = this.held.copy(most);
    for (let more; (more = this.fill(most.subarray(length))) > 0;) length += more;
    return most.subarray(0, length);
  }
}

const sourceOf = (file) => new Source((room) => readSync(file, room, 0, room.length));

function bytesOf(name) {
  const file = openSync(name);
  try {
    return sourceOf(file).rest();
  } finally {
    closeSync(file);
  }
}

export const opened = (fill, trust) => openedSource(new Source(fill), trust);

function openedSource(source, trust) { // a file of one record, or of a session
  const start = source.line(LONGEST);
  source.held = Buffer.concat([start, source.held]);
  return isSession(start) ? new Session(source, trust) : new Evidence(source.rest(), trust);
}

const OPTIONS = new Map([["--key", ["fingerprint", "a fingerprint"]], ["--policy", ["policy", "a file"]], ["--agent-key", ["agentKey", "a thumbprint"]], ["--approver-key", ["approverKeys", "a fingerprint"]]]);
const USAGE = "usage: check.mjs FILE [--key FINGERPRINT | --policy FILE] [--agent-key THUMBPRINT] [--approver-key FINGERPRINT]…\n       check.mjs PROOF KEYS";

function typed(all) { // the files and the options, as --name VALUE or --name=VALUE
  const files = [], trust = {}, rest = all.values();
  for (const argument of rest) {
    if (!argument.startsWith("-") || argument === "-") {
      files.push(argument);
      continue;
    }
    const at = argument.indexOf("="), name = at < 0 ? argument : argument.slice(0, at);
    must(OPTIONS.has(name), `${name} is no option`);
    const [member, what] = OPTIONS.get(name);
    must(!Object.hasOwn(trust, member) || member === "approverKeys", `${name} is given twice`);
    const value = at < 0 ? rest.next().value ?? "" : argument.slice(at + 1);
    must(value && !value.startsWith("--"), `${name} needs ${what}, as ${name} VALUE`);
    trust[member] = member === "approverKeys" ? [...trust[member] ?? [], value] : value;
  }
  must(trust.fingerprint === undefined || trust.policy === undefined, "--key and --policy exclude each other");
  must(files.length === 1 || files.length === 2 && Object.keys(trust).length === 0, `${files.length} files are named`);
  return { files, trust };
}

// each is data until its unprintable characters are escaped
const say = (...lines) => console.log(lines.map(printable).join("\n"));

export function main(all) { // returns the exit status
  if (all.length === 1 && ["--help", "-h"].includes(all[0])) {
    console.log(USAGE);
    return 0;
  }
  let files, trust, evidence;
  try {
    ({ files, trust } = typed(all));
  } catch (mistake) {
    console.error(`${printable(mistake.message)}\n${USAGE}`);
    return 2;
  }
  try {
    const [name] = files;
    if (files.length === 2) return checkAlone(files);
    if (trust.fingerprint === undefined && trust.policy === undefined) trust.known = knownKeys();
    const file = openSync(name);
    must(trust.fingerprint === undefined || isFingerprint(trust.fingerprint), "a fingerprint is SHA256: and 43 characters of base64url");
    must((trust.approverKeys ?? []).every(isFingerprint), "a fingerprint is SHA256: and 43 characters of base64url");
    must(trust.agentKey === undefined || isThumbprint(trust.agentKey), "a thumbprint of an agent's key is 43 characters of base64url");
    if (trust.policy !== undefined) trust.policy = readPolicy(decoded(bytesOf(trust.policy)));
    const source = sourceOf(file);
    mustBe(name, source.begin(BEGIN), "evidence", "session");
    evidence = openedSource(source, trust);
  } catch (refused) {
    console.error(printable(refused.message));
    return refused instanceof NotUsable ? 1 : 2;
  }
  const found = evidence.verdict(), says = found.code ? [] : [...summary(evidence)].map(([name, text]) => `${name}: ${text}`);
  const unproven = found.code ? [] : evidence.file.notProven.map((line) => `not proven: ${line}`);
  say(inWords(found), ...says, ...evidence.checked.map((line) => `checked: ${line}`), ...unproven);
  return { holds: 0, fails: 4 }[found.verdict] ?? 5;
}

function checkAlone(names) { // a proof, with a file of the company's keys
  const sources = names.map(bytesOf);
  sources.forEach((source, i) => mustBe(names[i], source, ["proof", "keys"][i]));
  let proof, root, whose;
  try {
    const [read1, key] = sources.map((source) => read(textOf(source)));
    proof = read1;
    root = checkInclusion(proof, key);
    whose = [checkKey(key)].flat().join(", ");
  } catch (refused) {
    say(`fails: ${refused.message}`);
    return 4;
  }
  const { record } = proof, pruned = isPruned(record), place = `record ${record.index}, below the chain root ${root}`;
  if (pruned) {
    say("pruned: what the record said cannot be checked. Its hash is signed, and in the log", `what: ${place}`);
  } else {
    const { agentId, companyId, actionType, payload } = record.payload;
    say("holds, key not confirmed: compare a fingerprint below with one that you have from elsewhere",
      `who: agent ${canonical(agentId)} of the company ${canonical(companyId)}`,
      `what: ${canonical(actionType)}, ${place}, ${record.timestamp} by the service's clock`,
      `payload: ${shown(canonical(payload))}`, `on behalf of: ${behalf({}, record)}`, "right: not in this file");
  }
  say(`signed by: a key of the file of keys, which has ${whose}`);
  return pruned ? 5 : 0;
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) process.exitCode = main(process.argv.slice(2));
