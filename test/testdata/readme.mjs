// Calls the functions of the README's check.mjs on what is genuine and on what was changed. Prints how many it accepted and refused.
import { readFileSync } from "node:fs";
import { inspect } from "node:util";
import { checkKey, checkPassport, checkProof, checkRecord, checkStatus, read } from "./check.mjs";

const text = (name) => readFileSync(name, "utf8");
const load = (name) => read(text(name));
const key = load("key.json");
const other = { ...key, pem: load("other.json").pem };
let genuine = 0;
let refused = 0;

function accept(check, ...args) {
  genuine++;
  return check(...args);
}

function refuse(check, ...args) {
  try {
    check(...args);
  } catch {
    refused++;
    return;
  }
  throw new Error(`${check.name} accepts ${args.map((arg) => inspect(arg, { depth: null }))}`);
}

function equal(is, want) {
  if (JSON.stringify(is) !== JSON.stringify(want)) throw new Error(`${JSON.stringify(is)}, want ${JSON.stringify(want)}`);
}

function changed(value, path, to) {
  const copy = structuredClone(value);
  const at = path.slice(0, -1).reduce((object, name) => object[name], copy);
  if (at[path.at(-1)] === to) throw new Error(`${path} is ${to} already`);
  at[path.at(-1)] = to;
  return copy;
}

// Another character of base64url or hex.
const flipped = (s, at) => s.slice(0, at) + (s[at] === "A" ? "B" : "A") + s.slice(at + 1);

equal(checkKey(key), key.fingerprint);
refuse(checkKey, other);

const { records } = load("chain.json");
for (const record of records) accept(checkRecord, record, key);
const r = records.find((record) => "delegation" in record);
refuse(checkRecord, r, other);
refuse(checkRecord, changed(r, ["index"], 99n), key);
refuse(checkRecord, changed(r, ["timestamp"], "2026-01-01T00:00:00.000Z"), key);
refuse(checkRecord, changed(r, ["payload", "agentId"], "other-bot"), key);
refuse(checkRecord, changed(r, ["payload", "payload", "branch"], "other"), key);
refuse(checkRecord, changed(r, ["delegation", "subject"], "spiffe://attestd.local/company/other"), key);
refuse(checkRecord, changed(r, ["delegation"], undefined), key);
refuse(checkRecord, changed(r, ["signature"], flipped(r.signature, 5)), key);

const evidence = load("proof.json");
accept(checkProof, evidence, key);
refuse(checkProof, evidence, other);
refuse(checkProof, changed(evidence, ["root"], "0".repeat(64)), key);
refuse(checkProof, changed(evidence, ["record", "hash"], "0".repeat(64)), key);
evidence.proof.forEach((_, step) => refuse(checkProof, changed(evidence, ["proof", step, "sibling"], "0".repeat(64)), key));

const passport = text("PASSPORT");
const claims = accept(checkPassport, passport, key);
equal([claims.service.agentId, claims.service.scopes], ["git-bot", ["tool:git"]]);
refuse(checkPassport, passport, other);
refuse(checkPassport, passport, key, "other:passport:v1");
for (const part of [0, 1, 2]) {
  refuse(checkPassport, passport.split(".").map((s, i) => (i === part ? flipped(s, 10) : s)).join("."), key);
}
const { now } = Date;
Date.now = () => Number(claims.exp) * 1000;
refuse(checkPassport, passport, key);
Date.now = now;

const { jti } = claims;
for (const name of ["valid", "revoked"]) {
  const answer = load(`${name}.json`);
  equal(accept(checkStatus, answer, key, jti), name);
  refuse(checkStatus, answer, other, jti);
  refuse(checkStatus, answer, { ...key, companyId: "other" }, jti);
  refuse(checkStatus, answer, key, "38be31cd-3890-4ed4-9098-302122d4bea2");
  refuse(checkStatus, changed(answer, ["status"], "unknown"), key, jti);
  refuse(checkStatus, changed(answer, ["signature"], flipped(answer.signature, 5)), key, jti);
  const at = now();
  Date.now = () => at + 400_000;
  refuse(checkStatus, answer, key, jti);
  equal(checkStatus(answer, key, jti, 3600), name);
  Date.now = now;
}

console.log(JSON.stringify({ genuine, refused }));
