// An agent with a key of its own: it signs in, and signs what it does.
import { newKey, type Prepared } from "./attestation.js";
import { base64url } from "./console/lib/bytes.js";
import { canonicalize } from "./console/lib/jcs.js";
import { canonicalDelegation, delegationOf, partOf } from "./delegation.js";
import { AttestdError, PayloadError } from "./errors.js";
import { onlyKnown } from "./known.js";

/**
 * The private key of an agent, which may be elsewhere: in a TPM, a keychain or a KMS. jwk is the
 * public key: Ed25519 (RFC 8037) or P-256. sign resolves to 64 bytes: the Ed25519 signature of
 * input or, for P-256, R and S of the ECDSA signature of its SHA-256.
 */
export interface Signer {
  jwk: JsonWebKey;
  sign(input: Uint8Array): Promise<Uint8Array> | Uint8Array;
}

/** A place of a session whose statement the service has refused; hash is its SHA-256. */
export interface RefusedPlace {
  seq: number;
  hash: string;
  code: string;
}

/** The last statement of a run that another session goes on from; hash is its SHA-256. */
export interface Continuation {
  sid: string;
  kid: string;
  hash: string;
}

/**
 * The place of a statement in a session; previous is the SHA-256 of the one before. refused has at
 * most 100 places before this one, in order; continues is there at the place 0 alone.
 */
export interface Place {
  sid: string;
  seq: number;
  previous?: string | undefined;
  refused?: readonly RefusedPlace[];
  continues?: Continuation | undefined;
  end?: boolean;
}

/** A key of the agent as the service lists it. */
export interface EnrolledKey {
  thumbprint: string;
  createdAt: string;
  revokedAt?: string | null;
}

/** The agent has a key that it does not know: its holder can sign in its name. */
export class UnknownKeyError extends AttestdError {
  override name = "UnknownKeyError";

  constructor(readonly agent: string, readonly key: EnrolledKey) {
    super(`ALARM: the agent ${agent} has the key ${key.thumbprint}, enrolled at ${key.createdAt}, which this client does not know: its holder can sign in its name. ` +
      "If it is not yours, revoke it and find out who enrolled it: the control log says by which credential");
  }
}

/**
 * The service names another log than the agent knows: another service answers, or one that has
 * another history. The agent signs nothing from then on, and sends it no statement.
 */
export class OtherLogError extends AttestdError {
  override name = "OtherLogError";

  constructor(readonly agent: string, readonly known: string, readonly named: string) {
    super(`ALARM: the service says that the actions of the agent ${agent} go into the log ${named}, and this client knows the log ${known}: it signs nothing. ` +
      "Find out which service answers under this address; if its log has changed for a reason that you know, change log in the key file");
  }
}

export interface AgentConfig {
  key: Signer;
  /** Of the agent: spiffe://example.org/company/acme/agent/bot */
  spiffeId: string;
  /**
   * The origin of the company's log of actions, which statements name. A key file of
   * `attestd agent-key enrol` has it. When absent, it is what the service says at the sign-in, and
   * the same for as long as this object lives.
   */
  log?: string;
  /** Binds access tokens to the key (RFC 9449): each request carries a proof. */
  dpop?: boolean;
  /** Thumbprints of further keys of the agent: those of other machines, and former ones. */
  known?: readonly string[];
  /** Is told at a sign-in of each key that is not known; console.error when absent. */
  alarm?: (error: Error) => void;
}

const bytes = (text: string) => new TextEncoder().encode(text);
const encoded = (value: object) => base64url(bytes(JSON.stringify(value)));
const seconds = () => Math.floor(Date.now() / 1000);

async function sha256(text: string): Promise<Uint8Array> {
  if (!crypto.subtle) throw new AttestdError("signing needs Web Cryptography, which a page has with TLS alone");
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes(text)));
}

const hex = (digest: Uint8Array) => Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** The SHA-256 of a statement, which the one after it names. */
export const hashOf = async (compact: string): Promise<string> => hex(await sha256(compact));

/** The members of a public key in the form over which its thumbprint is computed (RFC 7638). */
export function publicJWK({ kty, crv, x, y }: JsonWebKey): JsonWebKey {
  if (kty === "OKP" && crv === "Ed25519" && x) return { crv, kty, x };
  if (kty === "EC" && crv === "P-256" && x && y) return { crv, kty, x, y };
  throw new AttestdError("the key of an agent must be Ed25519 or P-256");
}

/** The name of a key: RFC 7638 with SHA-256. */
export const thumbprintOf = async (jwk: JsonWebKey): Promise<string> => base64url(await sha256(JSON.stringify(publicJWK(jwk))));

const algorithmOf = ({ kty }: JsonWebKey) => (kty === "OKP" ? "EdDSA" : "ES256");
const webCrypto = ({ kty }: JsonWebKey) => (kty === "OKP" ? { name: "Ed25519" } : { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" });

/** A signer with a private key as a JWK, as `attestd agent-key new` and jose write it. */
export async function signerOf(privateJWK: JsonWebKey): Promise<Signer> {
  const jwk = publicJWK(privateJWK);
  if (!privateJWK.d) throw new AttestdError("the JWK has no member d: it is no private key");
  await sha256(""); // says what is missing
  const key = await crypto.subtle.importKey("jwk", { ...jwk, d: privateJWK.d }, webCrypto(jwk), false, ["sign"]);
  return { jwk, sign: async (input) => new Uint8Array(await crypto.subtle.sign(webCrypto(jwk), key, input as BufferSource)) };
}

/** Makes a key pair: its private JWK, which MUST be stored where its owner alone can read it. */
export async function generateKey(algorithm: "EdDSA" | "ES256" = "EdDSA"): Promise<JsonWebKey> {
  await sha256("");
  const { privateKey } = await crypto.subtle.generateKey(webCrypto({ kty: algorithm === "EdDSA" ? "OKP" : "EC" }), true, ["sign", "verify"]) as CryptoKeyPair;
  const { d, ...made } = await crypto.subtle.exportKey("jwk", privateKey);
  return { ...publicJWK(made), d: d! };
}

// A compact JWS (RFC 7515 §7.1).
async function jws({ jwk, sign }: Signer, header: object, claims: object): Promise<string> {
  const input = `${encoded({ alg: algorithmOf(jwk), ...header })}.${encoded(claims)}`;
  const signature = await sign(bytes(input));
  if (signature.length !== 64) throw new AttestdError("a signature must have 64 bytes: that of Ed25519, or R and S of ECDSA");
  return `${input}.${base64url(signature)}`;
}

/**
 * A proof for one request that its sender holds a key (RFC 9449). token is sent with it; nonce is
 * what the service demands.
 */
export async function proofOf(signer: Signer, method: string, url: string, token = "", nonce = ""): Promise<string> {
  const { origin, pathname } = new URL(url);
  return jws(signer, { typ: "dpop+jwt", jwk: publicJWK(signer.jwk) }, {
    jti: newKey(), htm: method, htu: origin + pathname, iat: seconds(), ...(token && { ath: base64url(await sha256(token)) }), ...(nonce && { nonce }),
  });
}

/** How deep a payload may nest, with the object around it. */
const MAX_DEPTH = 129;

/** An agent with its key: the credential of a Client that acts as the agent alone, and signs. */
export class Agent {
  readonly spiffeId: string;
  readonly agentId: string;
  readonly companyId: string;
  readonly dpop: boolean;
  readonly key: Signer;
  readonly #parent: string;
  readonly #known: Set<string>;
  readonly #alarm: (error: Error) => void;
  #log: string | undefined;
  #otherLog: OtherLogError | undefined; // why nothing is signed
  #thumbprint: Promise<string> | undefined;
  #nonce = ""; // that the next proof has to repeat

  constructor(config: AgentConfig) {
    onlyKnown("an Agent", config, ["key", "spiffeId", "log", "dpop", "known", "alarm"]);
    const { key, spiffeId, log, dpop = false, known = [], alarm = (error: Error) => console.error(`attestd: ${error.message}`) } = config;
    const parts = /^(spiffe:\/\/[^/]+\/company\/([^/]+))\/agent\/([^/]+)$/.exec(spiffeId);
    if (!parts) throw new AttestdError("the SPIFFE ID of an agent must look like spiffe://example.org/company/acme/agent/bot");
    publicJWK(key.jwk);
    if (log !== undefined && !isOrigin(log)) throw new AttestdError("log must be the origin of a log, 1 to 255 visible ASCII characters, as the first line of its checkpoints has it");
    this.#log = log;
    [this.#parent, this.companyId, this.agentId] = [parts[1]!, parts[2]!, parts[3]!];
    [this.spiffeId, this.dpop, this.key] = [spiffeId, dpop, key];
    [this.#known, this.#alarm] = [new Set(known), alarm];
  }

  /**
   * The agent of a file that `attestd agent-key enrol` has written, given as its text. A process
   * that reads that file can sign as the agent.
   */
  static async parse(text: string, options: Pick<AgentConfig, "dpop" | "alarm"> = {}): Promise<Agent> {
    const { agent, known, log, ...jwk } = JSON.parse(text) as JsonWebKey & { agent?: string; known?: string[]; log?: string };
    if (!agent) throw new AttestdError("the key is not enrolled: attestd agent-key enrol, or give a spiffeId");
    return new Agent({ ...options, key: await signerOf(jwk), spiffeId: agent, known: known ?? [], ...(log !== undefined && { log }) });
  }

  /** The name of the agent's key. */
  thumbprint(): Promise<string> {
    return (this.#thumbprint ??= thumbprintOf(this.key.jwk));
  }

  /** The log that statements name; undefined where the agent does not know it yet. */
  get log(): string | undefined {
    return this.#log;
  }

  /**
   * Takes the log that the service names, or compares it with the one that is known.
   * @internal
   */
  learn(log: unknown): void {
    if (typeof log !== "string") return; // an older service
    if (!isOrigin(log) || this.#log !== undefined && this.#log !== log) {
      this.#otherLog = new OtherLogError(this.spiffeId, this.#log ?? "none yet", log);
      this.#alarm(this.#otherLog);
      return;
    }
    this.#log = log;
  }

  /**
   * Throws after the service has named another log.
   * @internal
   */
  refuse(): void {
    if (this.#otherLog) throw this.#otherLog;
  }

  /**
   * What the agent signs of an attestation that is ready, added to it. A statement says for which
   * log it is made, once the agent knows that. id is its jti, that of the idempotency key when
   * absent.
   */
  async sign(prepared: Prepared, place?: Place, id?: string): Promise<Prepared & { statement: string }> {
    const { agentId, delegation } = JSON.parse(prepared.text) as { agentId: string; delegation?: string };
    if (agentId !== this.agentId) throw new PayloadError("/agentId", `must be ${this.agentId}: an agent signs what it does itself`);
    this.refuse();
    const log = this.#log;
    const statement = await jws(this.key, { typ: "agent-statement+jwt", kid: await this.thumbprint() }, {
      iss: this.spiffeId, aud: this.#parent, ...(log !== undefined && { log }), iat: seconds(), jti: id ?? (prepared.made ? newKey() : await idOf(prepared.key)),
      action_hash: await this.#actionHash(prepared.text),
      ...(delegation && { delegation: await delegationClaim(delegation, log) }),
      ...(place && placeClaims(place, log)),
    });
    return { text: `${prepared.text.slice(0, -1)},"statement":${JSON.stringify(statement)}}`, key: "", made: false, statement };
  }

  /**
   * Whether a statement says what the agent would sign of an attestation now, but for the time and
   * the place.
   * @internal
   */
  async says(statement: string, prepared: Prepared, end: boolean): Promise<boolean> {
    const { delegation } = JSON.parse(prepared.text) as { delegation?: string };
    const claims = claimsOf(statement);
    return claims.action_hash === await this.#actionHash(prepared.text) && (claims.end === true) === end &&
      claims.delegation === (delegation ? await delegationClaim(delegation, claims.log) : undefined);
  }

  async #actionHash(text: string): Promise<string> {
    const { agentId, actionType, payload } = JSON.parse(text) as Record<string, unknown>;
    return hex(await sha256(canonicalize(JSON.stringify({ actionType, agentId, companyId: this.companyId, payload }), MAX_DEPTH)));
  }

  /** What the agent signs to get an access token (RFC 7523 §3). */
  async assertion(audience: string): Promise<string> {
    return jws(this.key, { typ: "JWT", kid: await this.thumbprint() }, {
      iss: this.spiffeId, sub: this.spiffeId, aud: audience, jti: newKey(), iat: seconds(), exp: seconds() + 120,
    });
  }

  /** A proof for one request, with the nonce that the service demands, if it does. */
  async prove(method: string, url: string, token = ""): Promise<string> {
    return proofOf(this.key, method, url, token, this.#nonce);
  }

  /**
   * Remembers the nonce of an answer (RFC 9449 §8.2).
   * @internal
   */
  hear(answer: Response): void {
    this.#nonce = answer.headers.get("DPoP-Nonce") ?? this.#nonce;
  }

  /** What the agent signs so that its next key follows from the present one. */
  async endorse(next: string): Promise<string> {
    return jws(this.key, { typ: "agent-key+jwt", kid: await this.thumbprint() }, { iss: this.spiffeId, aud: this.#parent, iat: seconds(), jkt: next });
  }

  /** Makes a key known. */
  know(thumbprint: string): void {
    this.#known.add(thumbprint);
  }

  /** The thumbprints of the further keys that the agent knows. */
  get known(): string[] {
    return [...this.#known];
  }

  /** Reports each key of a list that the agent does not know, and another log than its own. */
  async compare(list: readonly EnrolledKey[], log?: unknown): Promise<void> {
    this.learn(log);
    const own = await this.thumbprint();
    for (const key of list) {
      if (key.thumbprint !== own && !this.#known.has(key.thumbprint)) this.#alarm(new UnknownKeyError(this.spiffeId, key));
    }
    if (!list.some(({ thumbprint }) => thumbprint === own)) this.alarm(new AttestdError(`ALARM: the service's list of the keys of the agent ${this.spiffeId} lacks its own key ${own}`));
  }

  /** Reports what is wrong with the agent's keys. */
  alarm(error: Error): void {
    this.#alarm(error);
  }
}

/** The jti for a caller's idempotency key: the key itself where it can be one. */
export async function idOf(key: string): Promise<string> {
  return /^[!-~]{1,128}$/.test(key) ? key : base64url(await sha256(key));
}

/** The claims of a token that was made here, or is not checked here. */
const claimsOf = (token: string) => partOf(token, 1);

/** What no other statement has: the key that signed it and its jti. */
export const nameOf = (statement: string): string => `${String(partOf(statement, 0).kid)} ${String(claimsOf(statement).jti)}`;

/**
 * The jti of what is signed again under an idempotency key: no two statements of a key have one
 * jti, also where the service has refused the first.
 */
export async function freshID(key: string, isRefused: (id: string) => boolean): Promise<string> {
  let id = await idOf(key);
  for (let n = 1; isRefused(id); n++) id = base64url(await sha256(`${key}\n${n}`));
  return id;
}

/** What a statement that was made here says of its place; undefined outside of a session. */
export function placeIn(statement: string): Place & { kid: string; id: string } | undefined {
  const { jti, sid, seq, prev, refused, continues, end } = claimsOf(statement);
  if (typeof sid !== "string") return undefined;
  return {
    id: String(jti), kid: String(partOf(statement, 0).kid), sid, seq: Number(seq), previous: prev as string | undefined, refused: (refused ?? []) as RefusedPlace[],
    continues: continues as Continuation | undefined, end: end === true,
  };
}

const isOrigin = (log: string) => /^[!-~]{1,255}$/.test(log);

// A statement that does not name its log is of the older form: it has no refused and no continues,
// and names a delegation by its jti alone.
const placeClaims = ({ sid, seq, previous, refused = [], continues, end }: Place, log: unknown) => ({
  sid, seq,
  ...(seq > 0 && { prev: previous }),
  ...(log !== undefined && { ...(seq > 0 && refused.length > 0 && { refused: refused.map(({ seq, hash, code }) => ({ seq, hash, code })) }), ...(seq === 0 && continues && { continues }) }),
  ...(end && { end: true }),
});

async function delegationClaim(token: string, log: unknown): Promise<string> {
  const info = delegationOf(token);
  return log === undefined ? info.tokenId : hashOf(canonicalDelegation(info));
}
