// Checks without a service: what it has signed, with a key that the caller pins. The checks
// themselves are the console's own.
import { base64url, pemOf, rawKeyFromPEM, unbase64url } from "./console/lib/bytes.js";
import { exactly, hash, having, integer, list, rawKey, read, signature, string, timestamp } from "./console/lib/form.js";
import { identify, prepareKey, prepareRing, type Prepared } from "./console/lib/keyring.js";
import { climb, proofForm } from "./console/lib/merkle.js";
import { checkRecord, controlRecordForm, recordForm } from "./console/lib/record.js";
import { isThumbprint } from "./console/lib/statement.js";
import { checkStatus, type Status } from "./console/lib/status.js";
import { covers } from "./console/lib/details.js";
import { check as checkToken, decode, detailsOf, type Decoded } from "./console/lib/token.js";
import { VerificationError } from "./errors.js";
import { check as checkEvidence } from "./console/lib/evidence/check.js";
import { onlyKnown } from "./known.js";
import { readPolicy } from "./console/lib/policy.js";

/**
 * An answer of the service: the text as it came, which is checked most strictly, or what JSON.parse
 * made of it.
 */
export type Given = string | object;

const published = { kid: string, fingerprint: string, pem: string, jwk: having({ x: rawKey }) };
const company = { companyId: string, spiffeId: string };
const oneKey = having({ ...company, ...published });
const rotation = having({ statement: string, oldSignature: signature, newSignature: signature });
const allKeys = having({
  ...company,
  origin: string,
  keys: list(having({ ...published, fromIndex: integer }, { endedAt: timestamp, compromisedAt: timestamp, rotation })),
}, { logs: list(having({ log: string, origin: string, keys: list(having({ kid: string, fromIndex: integer }, { rotation })) })) });
const proofOf = { actions: exactly({ record: recordForm, proof: proofForm, root: hash }), control: exactly({ record: controlRecordForm, proof: proofForm, root: hash }) };

const textOf = (given: Given) => (typeof given === "string" ? given : JSON.stringify(given));

async function step<T>(code: string, check: () => T | Promise<T>): Promise<T> {
  try {
    return await check();
  } catch (error) {
    throw error instanceof VerificationError ? error : new VerificationError(code, error instanceof Error ? error.message : String(error));
  }
}

function must(holds: unknown, code: string, reason: string): asserts holds {
  if (!holds) throw new VerificationError(code, reason);
}

/**
 * The keys of a company, of which the caller has pinned one by its fingerprint, got from somewhere
 * else than the service. Each other key is taken for it is proven to come before or after that one.
 */
export class Keys {
  private constructor(readonly actions: Prepared, readonly control: Prepared) {}

  /**
   * keys is the answer of getPublicKey or, where the company may have had several, getPublicKeys;
   * fingerprint is SHA256: and 43 characters.
   */
  static pin(keys: Given, fingerprint: string): Promise<Keys> {
    return step("KEY", async () => {
      const text = textOf(keys);
      const [actions, control] = "origin" in JSON.parse(text) ? await rings(text) : await single(text);
      const pinned = (actions.ring ?? [actions]).some((one) => one.fingerprint === fingerprint);
      must(pinned, "KEY", `the key that you trust, ${fingerprint}, is none of the company's`);
      return new Keys(actions, control);
    });
  }

  /**
   * The one key, in PEM or the x of its JWK, that the caller trusts as a company's: for companies
   * that have had no other.
   */
  static of(key: string, companyId: string, trustDomain = "attestd.local"): Promise<Keys> {
    return step("KEY", async () => {
      const raw = rawOf(key);
      const pem = pemOf(raw);
      const prepared = await prepareKey({ companyId, spiffeId: `spiffe://${trustDomain}/company/${companyId}`, pem, x: base64url(raw), ...await identify(raw) });
      return new Keys(prepared, prepared);
    });
  }
}

/** The bytes of an Ed25519 key, of its PEM or the x of its JWK. */
const rawOf = (key: string) => (key.includes("-----") ? rawKeyFromPEM(key) : unbase64url(key));

async function single(text: string): Promise<[Prepared, Prepared]> {
  const { jwk, ...key } = read(oneKey, text, "key");
  const prepared = await prepareKey({ ...key, x: jwk.x });
  return [prepared, prepared];
}

// Both logs are signed with the company's keys, each in ranges of its own.
async function rings(text: string): Promise<[Prepared, Prepared]> {
  const { keys, logs = [], ...named } = read(allKeys, text, "keys");
  const known = new Map(keys.map(({ jwk, ...key }) => [key.kid, { ...key, x: jwk.x }]));
  const actions = await prepareRing({ ...named, keys: [...known.values()] });
  const log = logs.find(({ log }) => log === "control");
  if (!log) return [actions, actions];
  const control = log.keys.map(({ kid, ...range }) => {
    const { fromIndex: _, rotation: __, ...key } = known.get(kid)!;
    return { ...key, ...range };
  });
  return [actions, await prepareRing({ ...named, origin: log.origin, keys: control })];
}

/**
 * Checks that a record is, byte for byte in its canonical form, what the company's key has signed.
 * Where its payload was pruned, the hash cannot be recomputed: then the code of the
 * VerificationError is PRUNED, once the signature over the hash was found to be the company's.
 */
export async function verifyRecord(record: Given, keys: Keys, options: { log?: "actions" | "control" } = {}): Promise<void> {
  onlyKnown("verifyRecord", options, ["log"]);
  const { log = "actions" } = options;
  await step("RECORD", async () => {
    const parsed = read(log === "control" ? controlRecordForm : recordForm, textOf(record), "record");
    const { ok, reason, pruned } = await checkRecord(parsed, keys[log]);
    must(ok, pruned ? "PRUNED" : "RECORD", reason);
  });
}

/**
 * Checks an answer of getProof: the record as verifyRecord does, and that it leads to the root,
 * which is returned. That root proves something if it is compared with an earlier one: give that as
 * root. Where all of this holds and the payload of the record was pruned, the code of the
 * VerificationError is PRUNED.
 */
export async function verifyProof(proof: Given, keys: Keys, options: InclusionOptions = {}): Promise<string> {
  onlyKnown("verifyProof", options, ["log", "root"]);
  const { root, pruned, reason } = await inclusion(proof, keys, options);
  must(!pruned, "PRUNED", reason);
  return root;
}

/**
 * As verifyProof, and says nothing of the content of a record whose payload was pruned: only that
 * the company has signed its hash, and that this hash leads to the root.
 */
export async function verifyInclusion(proof: Given, keys: Keys, options: InclusionOptions = {}): Promise<string> {
  onlyKnown("verifyInclusion", options, ["log", "root"]);
  return (await inclusion(proof, keys, options)).root;
}

export interface InclusionOptions {
  /** Whose record it is, "actions" when absent. */
  log?: "actions" | "control";
  /** One that was kept. */
  root?: string;
}

const inclusion = (proof: Given, keys: Keys, { log = "actions", root }: InclusionOptions) =>
  step("PROOF", async () => {
    const parsed = read(proofOf[log], textOf(proof), "proof");
    const { ok, reason, computed, pruned } = await checkRecord(parsed.record, keys[log]);
    must(ok || pruned, "RECORD", reason);
    must((await climb(pruned ? parsed.record.hash : computed, parsed.proof)).root === parsed.root, "PROOF", "the path does not lead to the root");
    must(root === undefined || root === parsed.root, "PROOF", "the root is not the one that you gave");
    return { root: parsed.root, pruned, reason };
  });

export interface TokenChecks {
  /** The service's name on the wire, "service" unless it was set. */
  service?: string;
  /** Seconds since 1970; now when absent. */
  now?: number;
}

// The checks of a token in the order of the reference, each with the code of its failure.
const CODES = {
  Algorithm: "ALGORITHM_MISMATCH", Header: "WRONG_TOKEN_TYPE", Key: "SIGNATURE_INVALID", Signature: "SIGNATURE_INVALID", Expiry: "TOKEN_EXPIRED", "Not before": "TOKEN_NOT_YET_VALID",
  Audience: "AUDIENCE_MISMATCH", Issuer: "INVALID_ISSUER", Subject: "INVALID_SUBJECT", Lifetime: "MALFORMED_CLAIMS", Details: "MALFORMED_CLAIMS", Version: "UNSUPPORTED_VERSION", Chain: "CHAIN_INCOHERENT",
};

/**
 * Checks a passport, an SVID or a delegation token against the company's keys: form, signature,
 * times, issuer, audience, subject. Returns its claims; the code of a VerificationError is that of
 * the reference. Whether a passport was revoked, only a status of now says: verifyStatus.
 */
export async function verifyToken(token: string, keys: Keys, options: TokenChecks = {}): Promise<{ kind: Decoded["kind"]; claims: Record<string, unknown> }> {
  onlyKnown("verifyToken", options, ["service", "now"]);
  const { service = "service", now = Date.now() / 1000 } = options;
  const decoded = await step("MALFORMED_TOKEN", () => decode(token));
  const [domain] = keys.actions.spiffeId.split("/company/");
  const results = await step("MALFORMED_TOKEN", () => checkToken(decoded, keys.actions, { audience: `${service}:passport:v1`, issuer: `${domain}/ca`, now }));
  for (const [name, code] of Object.entries(CODES)) {
    for (const result of results) must(result.name !== name || result.ok, code, `${name}: ${result.detail}`);
  }
  return { kind: decoded.kind, claims: JSON.parse(decoded.claims.source) as Record<string, unknown> };
}

export interface CallChecks {
  /** The tool that is called. */
  tool?: string;
  /** Its arguments: a JSON text, or what JSON.parse made of it, which may have rounded numbers. */
  arguments?: Given;
}

/**
 * As verifyToken, of a passport alone. With tool, one of its scopes must cover tool:<tool>, and its
 * authorization details, if it has any, a call with these arguments; without arguments only
 * details that have none cover it. scopeGranted is the first scope that covers the tool or,
 * without tool, the broadest.
 */
export async function verifyPassport(token: string, keys: Keys, options: TokenChecks & CallChecks = {}): Promise<{ claims: Record<string, unknown>; scopeGranted: string }> {
  onlyKnown("verifyPassport", options, ["service", "now", "tool", "arguments"]);
  const { tool, arguments: given, ...checks } = options;
  const decoded = await step("MALFORMED_TOKEN", () => decode(token));
  const { passport } = decoded;
  must(passport, "WRONG_TOKEN_TYPE", "not a passport");
  const { claims } = await verifyToken(token, keys, checks);
  const scopeGranted = grant(passport.scopes, tool);
  must(scopeGranted, "SCOPE_DENIED", `no scope of the passport covers ${tool}`);
  const details = tool === undefined ? null : await step("MALFORMED_CLAIMS", () => detailsOf(decoded));
  must(!details || covers(details, tool!, given == null ? undefined : textOf(given)), "DETAILS_DENIED", "no entry of the passport's authorization details covers the call with these arguments");
  return { claims, scopeGranted };
}

function grant(scopes: string[], tool?: string): string | undefined {
  if (tool !== undefined) return scopes.find((scope) => ["*", "tool:*", `tool:${tool}`].includes(scope));
  return scopes.find((scope) => scope === "*") ?? scopes.find((scope) => scope.endsWith(":*")) ?? scopes[0];
}

/**
 * Checks an answer of getPassportStatus: that the company's key has signed it, of this passport,
 * within the last maxAge seconds (300).
 */
export async function verifyStatus(status: Given, keys: Keys, options: { jti: string; now?: number; maxAge?: number }): Promise<Status> {
  onlyKnown("verifyStatus", options, ["jti", "now", "maxAge"]);
  const { jti, now = Date.now() / 1000, maxAge = 300 } = options;
  return step("STATUS", () => checkStatus(textOf(status), keys.actions, { jti, now, maxAge }));
}

/**
 * Checks a file of evidence, best as the bytes that came, with the fingerprint of a key of the
 * company or a policy (c2sp.org/tlog-policy, its text). Returns what was checked and what such a
 * file does not prove, in words. With agentKey, the thumbprint of a key of the agent that came from
 * the agent, the code is STATEMENT unless that key has signed the record, or one that follows from
 * it.
 */
export async function verifyEvidence(evidence: Uint8Array | Given, trust: ({ fingerprint: string } | { policy: string }) & { agentKey?: string }): Promise<{ checked: string[]; notProven: string[] }> {
  onlyKnown("verifyEvidence", trust, ["fingerprint", "policy", "agentKey"]);
  return step("MALFORMED", async () => {
    const { agentKey } = trust;
    // a pin that is absent by mistake, such as one read from an empty variable, is none
    must(!("agentKey" in trust) || typeof agentKey === "string" && isThumbprint(agentKey), "STATEMENT", "the thumbprint of an agent's key is 43 characters of base64url");
    const bytes = evidence instanceof Uint8Array ? evidence : new TextEncoder().encode(textOf(evidence));
    const trusted = "policy" in trust ? { policy: await step("POLICY", () => readPolicy(trust.policy)) } : { fingerprint: trust.fingerprint };
    const { verdict, code, reason, checked, file } = await checkEvidence(bytes, { ...trusted, ...(agentKey && { agentKey }) });
    must(verdict === "holds", code || "KEY", reason || "nothing was given that is trusted");
    return { checked, notProven: file.notProven };
  });
}
