import { bytesOf, jsonOf, textOf } from "./answer.js";
import { Agent, proofOf, publicJWK, thumbprintOf, type EnrolledKey, type Signer } from "./agent.js";
import { batchOf, headerOf, itemOf, MAX_BATCH, prepare, rekeyed, type Attestation, type Prepared } from "./attestation.js";
import { recordsOf, type Sender } from "./compare.js";
import { Bearer, type Credential, type Token } from "./credential.js";
import { AttestdError, codeOf, ConnectionError, NotApprovedError, PayloadError, placeOf, RecordMismatchError, REUSED, serviceError, ServiceError, wantsNonce } from "./errors.js";
import { onlyKnown } from "./known.js";
import { lines, messages } from "./lines.js";
import { operations, type Approval, type Arguments, type AttestationRecord, type CallOptions, type Name, type Operations, type Route, type StreamMessage } from "./operations.js";
import { rateOf, type Rate } from "./rate.js";
import { defaultRetry, sleep, waitBefore, type Retry } from "./retry.js";
import { Session, type SessionOptions } from "./session.js";
import { encode } from "./text.js";
import { IssuedTokens, type IssuedToken, type TokenRequest } from "./tokens.js";

export interface Config {
  /**
   * Where the service is, such as https://attest.example.com; a path in front of /v1 is allowed.
   */
  url: string;
  /** A key, or an OAuth client; none for what needs none. */
  credential?: Credential | undefined;
  /** In place of the global fetch. */
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
  /**
   * Milliseconds for one attempt, answer included; 30,000 when absent. Long reads have only the
   * caller's signal once they have begun.
   */
  timeout?: number;
  retry?: Partial<Retry>;
}

type Values = Record<string, unknown>;

// Methods stand here for the compiler; they are made of the table of operations below.
export interface Client extends Operations {}

/**
 * Calls one service with one credential: a method for each operation of the API reference, by its
 * name there, and with all its arguments in one object.
 *
 * Reads and appends are sent again after a lost connection, 408, 409, 429 and 5xx. Other requests
 * would be carried out twice, so they are sent again only where they cannot have been carried out:
 * no connection was made, 429, or the code NOT_DONE.
 */
export class Client {
  readonly url: string;
  readonly #fetch: (url: string, init: RequestInit) => Promise<Response>;
  readonly #timeout: number;
  readonly #retry: Retry;
  readonly #bearer: Bearer;
  #nonce = ""; // that the next proof has to repeat
  readonly #tokens = new IssuedTokens((request) => this.#call("createAgentToken", { ...request }, {}) as Promise<IssuedToken>);

  /** The service's last answer about its limit on attestations. */
  rate: Rate | undefined;

  constructor(config: Config) {
    onlyKnown("a Client", config, ["url", "credential", "fetch", "timeout", "retry"]);
    const { url, credential, fetch = globalThis.fetch, timeout = 30_000, retry = {} } = config;
    onlyKnown("retry", retry, ["times", "min", "max"]);
    if (typeof credential === "object" && credential !== null && !(credential instanceof Agent)) onlyKnown("credential", credential, ["clientId", "clientSecret"]);
    const { protocol, username, password, search, hash } = new URL(url);
    if (!/^https?:$/.test(protocol) || username || password || search || hash) {
      throw new AttestdError("the URL must look like https://attest.example.com, without a password or a query");
    }
    this.url = url.replace(/\/+$/, "");
    // browsers refuse to be called as a method
    this.#fetch = (address, init) => fetch(address, init);
    this.#timeout = timeout;
    this.#retry = { ...defaultRetry, ...retry };
    this.#bearer = new Bearer(credential, (from) => this.#token(from), async (agent) => {
      const { keys, log } = await this.listAgentKeys({ agentId: agent.agentId }) as { keys: EnrolledKey[]; log?: unknown };
      await agent.compare(keys, log);
    });
  }

  static {
    for (const name of Object.keys(operations) as Name[]) {
      if (Object.hasOwn(this.prototype, name)) continue;
      Object.defineProperty(this.prototype, name, {
        configurable: true,
        writable: true,
        value(this: Client, values: Values = {}, options: CallOptions = {}) {
          return this.#call(name, values, options);
        },
      });
    }
  }

  async #token(credential: Exclude<Credential, string>): Promise<Token> {
    if (!(credential instanceof Agent)) {
      return this.getOAuthToken({ grant_type: "client_credentials", client_id: credential.clientId, client_secret: credential.clientSecret }) as Promise<Token>;
    }
    const route: Route = { ...operations.getOAuthToken };
    delete route.safe; // an assertion is good once
    const url = `${this.url}/v1/oauth/token`;
    const attempt = async (): Promise<Token> => {
      const form = new URLSearchParams({
        grant_type: "client_credentials", client_assertion_type: "urn:ietf:params:oauth:client-assertion-type:jwt-bearer", client_assertion: await credential.assertion(url),
      });
      const headers = { "Content-Type": "application/x-www-form-urlencoded", ...(credential.dpop && { DPoP: await credential.prove("POST", url) }) };
      return this.#again(route, "/v1/oauth/token", { headers, body: form.toString() }, (answer) => jsonOf(answer) as Promise<Token>, {});
    };
    return attempt().catch((error: unknown) => {
      if (!wantsNonce(error)) throw error;
      return attempt();
    });
  }

  get #sender(): Sender {
    return { companyId: this.agent?.companyId ?? "", mayActForPerson: typeof this.#bearer.credential === "string" };
  }

  /** The agent with a key of its own whose credential this client has. */
  get agent(): Agent | undefined {
    return this.#bearer.credential instanceof Agent ? this.#bearer.credential : undefined;
  }

  /**
   * A token that tells its audience who the agent is, valid for a while: the one that was got for
   * the same request before, or a new one a minute before that ends. Of many calls at once, one
   * asks the service. Call it for each use. Where the service gives no new one, it is the one
   * before while that is valid.
   */
  async token(request: TokenRequest): Promise<IssuedToken> {
    onlyKnown("token", request, ["agentId", "audience", "alg", "ttl"]);
    const agentId = request.agentId ?? this.agent?.agentId;
    if (!agentId) throw new AttestdError("a token needs an agentId, or a client whose credential is an Agent");
    return this.#tokens.get({ ...request, agentId });
  }

  /**
   * Begins a session of the agent. No two of an agent may have one ID; without one it makes one.
   * With continues, the last of another session, it goes on from that: after its end, or under the
   * next key.
   */
  session(id?: string, options: SessionOptions = {}): Session {
    onlyKnown("a session", options, ["continues"]);
    if (!this.agent) throw new AttestdError("a session needs an agent's key: give the client an Agent as its credential");
    return new Session(this, this.agent, id, options);
  }

  /**
   * Signs in where the agent does not know yet for which log it signs. Where that cannot be done,
   * it is not known.
   * @internal
   */
  async learnLog(): Promise<void> {
    if (this.agent && this.agent.log === undefined) await this.#bearer.get().catch(() => {});
  }

  /**
   * Makes a key an agent's, and proves possession of it. The credential is an admin's, an enrolment
   * token of the agent, or the agent itself: then its present key endorses this one.
   */
  async enrolKey({ agentId, key, ...rest }: { agentId: string; key: Signer; label?: string; expiresAt?: string }): Promise<Enrolled> {
    const { agent } = this;
    const endorsement = agent && await agent.endorse(await thumbprintOf(key.jwk));
    const attempt = async () => {
      const proof = await proofOf(key, "POST", `${this.url}/v1/agents/${encodeURIComponent(agentId)}/keys`, "", this.#nonce);
      const values = { ...rest, agentId, jwk: publicJWK(key.jwk), ...(endorsement && { endorsement }), ...(agent?.dpop ? { proof } : { DPoP: proof }) };
      return await this.#call("enrolAgentKey", values, {}) as Enrolled;
    };
    const made = await attempt().catch((error: unknown) => {
      // a proof counts once, also where the attempt before had no answer
      const spent = error instanceof ServiceError && error.repeated && error.code === "INVALID_DPOP_PROOF";
      if (!wantsNonce(error) && !spent) throw error;
      return attempt();
    });
    agent?.know(made.thumbprint);
    agent?.learn(made.log);
    return made;
  }

  /**
   * Appends a record. It resolves when the service has answered 201, that is when the record is on
   * its disk, once, however often it had to be sent. After a ConnectionError, or a ServiceError
   * with a status of 500 or more, it is unknown whether it is there: the same attestation with the
   * same key finds out. A RecordMismatchError says that the record in the answer is not of this
   * attestation.
   */
  async attest(attestation: Attestation, options: CallOptions = {}): Promise<AttestationRecord> {
    return this.sendPrepared(prepare(attestation), options);
  }

  /** As attest, of what was made ready before, for a spool. */
  async sendPrepared(prepared: Prepared, options: CallOptions = {}): Promise<AttestationRecord> {
    return underFreshKeys([prepared], ([one]) => this.#send("attest", one!.key ? { "Idempotency-Key": headerOf(one!.key) } : {}, options,
      async (answer) => (await recordsOf(operations.attest.call, await textOf(answer), [one!.text], this.#sender))[0]!, one!.text));
  }

  /**
   * Appends up to 1,000 records, all or none, and resolves to them in order. The pointer of a
   * ServiceError names the one that is refused: /records/3/payload.
   */
  async attestAll(attestations: readonly Attestation[], options: CallOptions = {}): Promise<AttestationRecord[]> {
    if (attestations.length < 1 || attestations.length > MAX_BATCH) throw new PayloadError("", `a batch has 1 to ${MAX_BATCH} attestations, not ${attestations.length}`);
    return underFreshKeys(attestations.map(prepare), (items) => this.sendBatch(items.map(itemOf), options));
  }

  /** As attestAll, of items that are JSON already, with their keys: what a spool has kept. */
  async sendBatch(items: readonly string[], options: CallOptions & Patience = {}): Promise<AttestationRecord[]> {
    return this.#send("attestBatch", {}, options, async (answer) => recordsOf(operations.attestBatch.call, await textOf(answer), items, this.#sender), batchOf(items));
  }

  /**
   * Asks people to approve a call, and resolves when one has: then record the call with decide,
   * which uses the approval. Where the call must not be made it rejects with a NotApprovedError.
   * The same call again, also of another process, finds its approval.
   */
  async ask(call: Arguments<"requestApproval">, options: CallOptions = {}): Promise<Approval> {
    const asked = await this.requestApproval(call, options);
    const approval = asked.state === "pending" ? await this.#decided(asked, options) : asked;
    if (approval.state !== "approved") throw new NotApprovedError(approval);
    return approval;
  }

  /** Resolves to an approval when it is no longer pending, whatever its state is then. */
  async awaitApproval({ approvalId }: { approvalId: string }, options: CallOptions = {}): Promise<Approval> {
    return this.#decided(await this.getApproval({ approvalId }, options), options);
  }

  // Asks about an approval until it is decided, also while the service is away, for as long as the
  // approval is not over.
  async #decided(approval: Approval, options: CallOptions): Promise<Approval> {
    const wait = Math.max(0, Math.min(MAX_APPROVAL_WAIT, Math.floor(this.#timeout / 1000) - 5));
    for (let failures = 0; approval.state === "pending";) {
      const began = Date.now();
      try {
        approval = await this.getApproval({ approvalId: approval.approvalId, wait }, options);
        failures = 0;
      } catch (error) {
        const pause = waitBefore(APPROVAL_RETRY, failures++, error, true);
        if (pause === undefined || options.signal?.aborted || Date.now() > Date.parse(approval.expiresAt)) throw error;
        await sleep(pause, options.signal);
      }
      if (failures === 0 && approval.state === "pending") await sleep(Math.max(0, APPROVAL_RETRY.min - (Date.now() - began)), options.signal);
    }
    return approval;
  }

  /** The records of a log from an index on, asked for by pages. Without a limit, to the end. */
  async* records(asked: { from?: number; limit?: number; log?: "actions" | "control" } = {}, options: CallOptions = {}): AsyncGenerator<AttestationRecord> {
    onlyKnown("records", asked, ["from", "limit", "log"]);
    let { from = 0 } = asked;
    const { limit = Infinity, log } = asked;
    for (let left = limit; left > 0;) {
      const most = Math.min(left, PAGE);
      const { records } = await this.getChain({ from, limit: most, ...(log && { log }) }, options);
      yield* records;
      if (records.length < most) return;
      from += most;
      left -= most;
    }
  }

  /**
   * The records that a search finds, the newest first unless order says otherwise, asked for by
   * pages: those of the log as it was at the first one. That none is missing is the service's word;
   * what is returned can be checked.
   */
  async* search({ limit = Infinity, ...asked }: Omit<Arguments<"searchRecords">, "cursor"> = {}, options: CallOptions = {}): AsyncGenerator<AttestationRecord> {
    let cursor: { cursor?: string } = {};
    for (let left = limit; left > 0;) {
      const { records, next } = await this.searchRecords({ ...asked, ...cursor, limit: Math.min(left, PAGE) }, options);
      yield* records;
      if (!next) return;
      cursor = { cursor: next };
      left -= records.length;
    }
  }

  /**
   * Records as they are appended, of the credential's company or, without one, of those that the
   * service shows to anyone. With from, those from that index on come first. It ends with a
   * ConnectionError; the index of the last message says where to go on. It needs a global
   * WebSocket: a browser or Node 22.
   */
  async* stream(asked: { from?: number } = {}, options: CallOptions = {}): AsyncGenerator<StreamMessage> {
    onlyKnown("stream", asked, ["from"]);
    onlyKnown("the options of a call", options, OPTIONS);
    const { from } = asked;
    const { signal } = options;
    const url = `${this.url.replace(/^http/, "ws")}/v1/ws${from === undefined ? "" : `?from=${from}`}`;
    for await (const text of messages(url, await this.#bearer.get(), signal)) yield JSON.parse(text) as StreamMessage;
  }

  /**
   * Carries out an operation and resolves to the bytes of its answer, for a caller that stores
   * them: those of evidence, for example.
   */
  async raw(name: Exclude<Name, "attest" | "attestBatch" | "stream">, values: Values = {}, options: CallOptions = {}): Promise<Uint8Array> {
    return this.#send(name, values, options, bytesOf);
  }

  async #call(name: Name, values: Values, options: CallOptions): Promise<unknown> {
    const route: Route = operations[name];
    switch (route.answer) {
      case "text": return this.#send(name, values, options, textOf);
      case "bytes": return this.#send(name, values, options, bytesOf);
      case "lines": return this.#send(name, values, options, async (answer) => lines(route.call, answer));
      default: return this.#send(name, values, options, jsonOf);
    }
  }

  async #send<T>(name: Name, values: Values, options: CallOptions & Patience, read: Read<T>, text?: string): Promise<T> {
    const route: Route = operations[name];
    onlyKnown("the options of a call", options, OPTIONS);
    const { path, headers, body } = arrange(route, values);
    const type = { json: "application/json", form: "application/x-www-form-urlencoded", text: "text/plain" }[route.body ?? "json"];
    const sent = text ?? body;
    return this.#again(route, path, sent === undefined ? { headers } : { headers: { ...headers, "Content-Type": type }, body: sent }, read, options);
  }

  // Sends until it succeeds or Retry says that it is enough. A credential that is refused may offer
  // another once, and so may a nonce.
  async #again<T>(route: Route, path: string, { headers, body }: { headers: Record<string, string>; body?: string }, read: Read<T>, { signal, impatient }: CallOptions & Patience): Promise<T> {
    let token = route.public ? "" : await this.#bearer.get();
    let renewed = false;
    let told = false;
    let unknown = false;
    for (let n = 0; ;) {
      try {
        if (APPENDS.includes(route)) this.agent?.refuse();
        const method = route.call.split(" ", 1)[0]!;
        const init: RequestInit = { method, headers: { ...headers, ...await this.#bearer.headers(token, method, this.url + path) } };
        if (body !== undefined) init.body = body;
        return await this.#attempt(route, path, init, read, signal);
      } catch (error) {
        if (error instanceof ServiceError) error.repeated = unknown;
        unknown ||= !(error instanceof ServiceError) || error.foreign || error.status >= 500;
        if (token && wantsNonce(error) && error instanceof ServiceError && error.status === 401) {
          if (told) throw error;
          told = true;
          continue;
        }
        if (token && !renewed && error instanceof ServiceError && error.status === 401) {
          renewed = true;
          const fresh = await this.#bearer.get(token);
          if (fresh === token) throw error;
          token = fresh;
          continue;
        }
        const limited = impatient && error instanceof ServiceError && error.status === 429;
        const wait = signal?.aborted || limited ? undefined : waitBefore(this.#retry, n++, error, route.safe ?? route.call.startsWith("GET "));
        if (wait === undefined) throw error;
        await sleep(wait, signal);
      }
    }
  }

  // Redirects are not followed: a redirected POST becomes a GET. What is not the service's, such as
  // a proxy's page, is no answer.
  async #attempt<T>(route: Route, path: string, init: RequestInit, read: Read<T>, signal?: AbortSignal): Promise<T> {
    const ends = new AbortController();
    const stop = () => ends.abort(signal?.reason);
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop, { once: true });
    const timer = setTimeout(() => ends.abort(new Error(`longer than ${this.#timeout} ms`)), this.#timeout);
    try {
      const answer = await this.#fetch(this.url + path, { ...init, redirect: "manual", signal: ends.signal });
      this.agent?.hear(answer);
      this.#nonce = answer.headers.get("DPoP-Nonce") ?? this.#nonce;
      if (APPENDS.includes(route)) this.rate = rateOf(answer) ?? this.rate;
      if (answer.status === (route.status ?? 200)) return await read(answer);
      const [body, error] = await serviceError(route.call, answer);
      if (route.denies && body?.valid === false) return body as T;
      throw error;
    } catch (cause) {
      if (cause instanceof ServiceError || cause instanceof RecordMismatchError || signal?.aborted) throw cause;
      throw new ConnectionError(route.call, cause, UNSENT.includes(codeOf(cause)));
    } finally {
      clearTimeout(timer);
      // it ends their reading, too
      if (route.answer !== "lines") signal?.removeEventListener("abort", stop);
    }
  }
}

/** A key that was enrolled; log is the one that its statements must name. */
interface Enrolled {
  thumbprint: string;
  agentId: string;
  createdAt: string;
  log?: string;
}

const APPENDS: readonly Route[] = [operations.attest, operations.attestBatch];
const OPTIONS = ["signal", "impatient"];

interface Patience {
  /** Where the rate limit takes no more, the call fails at once and waits for no retry. */
  impatient?: boolean;
}

/**
 * Sends items. Where the service knows a key that we made from another request, that item is sent
 * under another; a caller's own key stays.
 */
async function underFreshKeys<T>(items: Prepared[], send: (items: Prepared[]) => Promise<T>): Promise<T> {
  for (const renewed = new Set<number>(); ;) {
    try {
      return await send(items);
    } catch (error) {
      const at = error instanceof ServiceError && error.code === REUSED ? items.length === 1 ? 0 : placeOf(error) : undefined;
      const item = at === undefined || renewed.has(at) ? undefined : items[at];
      if (!item?.made) throw error;
      renewed.add(at!);
      const other = await rekeyed(item);
      items = items.map((one) => (one === item ? other : one));
    }
  }
}

type Read<T> = (answer: Response) => Promise<T>;

/** What Node says where no connection was made. */
const UNSENT = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"];

/** For how many seconds the service holds the answer about a pending approval. */
const MAX_APPROVAL_WAIT = 55;

/** Between two questions about an approval. */
const APPROVAL_RETRY: Retry = { times: Infinity, min: 1000, max: 8000 };

/** Records of a page of the chain. */
const PAGE = 500;

/** Puts the arguments of an operation where they belong. */
function arrange({ call, query = [], header = [], members = [], body }: Route, values: Values) {
  const [, template = ""] = call.split(" ");
  const inPath = Array.from(template.matchAll(/\{(\w+)\}/g), ([, name]) => name!);
  if (!members.includes("*")) onlyKnown(call, values, [...inPath, ...query, ...header, ...members]);
  const rest = { ...values };
  const take = (name: string) => {
    const value = rest[name];
    delete rest[name];
    return value === undefined || value === null ? undefined : String(value);
  };
  let path = template.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = take(name);
    if (!value) throw new AttestdError(`${call}: ${name} is missing`);
    const segments = (name === "path" ? value.split("/") : [value]).map(encodeURIComponent);
    if (segments.some((segment) => /^\.\.?$/.test(segment))) throw new AttestdError(`${call}: ${name} is not ${value}, which would lead to another path`);
    return segments.join("/");
  });
  const search = new URLSearchParams(query.flatMap((name) => { const value = take(name); return value === undefined ? [] : [[name, value]]; })).toString();
  if (search) path += `?${search}`;
  const headers: Record<string, string> = {};
  for (const name of header) {
    const value = take(name);
    if (value !== undefined) headers[name] = value;
  }
  const names = Object.keys(rest);
  if (names.length === 0) return { path, headers };
  if (body === "text") return { path, headers, body: String(rest.text) };
  if (body === "form") return { path, headers, body: new URLSearchParams(names.filter((name) => rest[name] !== undefined).map((name) => [name, name === "authorization_details" && typeof rest[name] !== "string" ? JSON.stringify(rest[name]) : String(rest[name])])).toString() };
  return { path, headers, body: encode(rest) };
}
