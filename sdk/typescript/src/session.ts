import { isNewKey, newKey, prepare, type OwnAttestation, type Prepared } from "./attestation.js";
import { freshID, hashOf, placeIn, type Agent, type Continuation, type RefusedPlace } from "./agent.js";
import type { Client } from "./client.js";
import { AttestdError, ServiceError, STATEMENT_REUSED } from "./errors.js";
import type { AttestationRecord } from "./operations.js";

/**
 * Whether an error says for certain that an append had no effect: the service has refused it, for
 * what it is and not for who sends it.
 */
export const isRefused = (error: unknown): error is ServiceError => error instanceof ServiceError && !error.repeated && !error.foreign && (error.code === STATEMENT_REUSED ||
  [400, 403, 413, 422].includes(error.status) && !["FORBIDDEN_ROLE", "FORBIDDEN_AGENT", "COMPANY_SUSPENDED"].includes(error.code) && !error.operation.endsWith("/v1/oauth/token"));

/** The place of the next statement of a session, and what it names. */
export interface Next {
  sid: string;
  seq: number;
  previous?: string | undefined;
  end?: boolean;
  /** Places that the service has refused and no statement has named, in order. */
  refused?: readonly RefusedPlace[] | undefined;
  /** Of the run that the session goes on from; of its first statement alone. */
  continues?: Continuation | undefined;
  /** The last idempotency keys of callers, as the jti of statements that were refused. */
  spent?: readonly string[] | undefined;
}

/** How many refused places one statement names. */
const NAMED = 100;

/** How many jti of refused statements are known. */
const SPENT = 1000;

/** What the next statement says of its place. */
export const placeOfNext = ({ sid, seq, previous, refused = [], continues }: Next, end: boolean) => ({ sid, seq, previous, refused: refused.slice(0, NAMED), continues, end });

/** Where a session is after a statement, which names the first of the refused places, if any. */
export const after = async ({ sid, seq, refused = [], spent }: Next, statement: string, end: boolean): Promise<Next> => ({
  sid, seq: seq + 1, previous: await hashOf(statement), end, refused: refused.slice(placeIn(statement)?.refused?.length), spent,
});

/** The jti of the next statement; undefined for a new one. */
export const idOfNext = async ({ spent = [] }: Next, { key, made }: Prepared): Promise<string | undefined> =>
  (made ? undefined : freshID(key, (id) => spent.includes(id)));

/** A refusal as later statements name it; named are those that its own statement named. */
export interface Refusal extends RefusedPlace {
  id: string;
  kid: string;
  sid: string;
  named: readonly RefusedPlace[];
  previous?: string | undefined;
  continues?: Continuation | undefined;
}

/** What is known of a statement that the service has refused; undefined outside of a session. */
export async function refusalOf(statement: string, { status, code }: ServiceError): Promise<Refusal | undefined> {
  const place = placeIn(statement);
  if (!place) return undefined;
  const { id, kid, sid, seq, refused = [], previous, continues } = place;
  return { id, kid, sid, seq, hash: await hashOf(statement), code: /^[A-Z0-9_]{1,64}$/.test(code) ? code : `HTTP_${status}`, named: refused, previous, continues };
}

/**
 * Where a session is once a statement of it was refused. Its place stays used, and later statements
 * name it.
 */
export function afterRefusal(next: Next, { id, sid, seq, hash, code, named }: Refusal): Next {
  if (sid !== next.sid) return next;
  // under a key that is recorded already nothing is recorded again
  const spent = code === STATEMENT_REUSED || isNewKey(id) ? next.spent : [...(next.spent ?? []).filter((one) => one !== id), id].slice(-SPENT);
  const known = new Map([...next.refused ?? [], ...named, { seq, hash, code }].map((one) => [one.seq, one]));
  return { ...next, spent, end: hash === next.previous ? false : next.end ?? false, refused: [...known.values()].sort((a, b) => a.seq - b.seq) };
}

/**
 * Where the run of a session goes on whose place another statement has, at the service: in a
 * session of another ID.
 */
export function elsewhere(next: Next, { sid, kid, hash, previous, continues }: Refusal, newID: string): Next {
  if (sid !== next.sid) return next;
  const last = hash === next.previous ? previous : next.previous;
  return { sid: newID, seq: 0, spent: next.spent, continues: last === undefined ? continues : { sid, kid, hash: last } };
}

export const isReused = (error: unknown): boolean => error instanceof ServiceError && error.code === STATEMENT_REUSED;

/** IDs of sessions that go on from one, each later than the one before. */
export class FurtherIDs {
  #at = 0;

  of(id: string): string {
    this.#at = Math.max(this.#at + 1, Date.now());
    const further = `${id.replace(/~\d+$/, "")}~${this.#at}`;
    return further.length <= 128 ? further : newKey();
  }
}

/**
 * One run of an agent: its statements are numbered, and each names the one before, so that nothing
 * can be taken out unseen. It sends one at a time and ends with the process; a session of a Spool
 * goes on after a crash, and while the service is away.
 */
export class Session {
  #next: Next;
  #kid = "";
  readonly #ids = new FurtherIDs();
  #refusal: Refusal | undefined; // the last one
  // of which it is not known whether it is recorded
  #unsettled: { signed: Prepared & { statement: string }; key: string | undefined } | undefined;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(readonly client: Client, readonly agent: Agent, id: string = newKey(), { continues }: SessionOptions = {}) {
    this.#next = { sid: id, seq: 0, continues };
  }

  /** Its ID. It changes where the service has other statements of that ID. */
  get id(): string {
    return this.#next.sid;
  }

  /** The last statement, which a further session can go on from; undefined before the first. */
  get last(): Continuation | undefined {
    const { sid, previous } = this.#next;
    return previous === undefined ? undefined : { sid, kid: this.#kid, hash: previous };
  }

  /**
   * Signs an attestation at the next place, and appends its record. After a ConnectionError its
   * outcome is unknown: the next call first sends the same statement again. The place of one that
   * the service refuses stays used, and the next statement names it.
   */
  attest(attestation: OwnAttestation): Promise<AttestationRecord> {
    return this.#inTurn(attestation, false);
  }

  /** As attest, of the last one of the session. */
  end(attestation: OwnAttestation): Promise<AttestationRecord> {
    return this.#inTurn(attestation, true);
  }

  #inTurn(attestation: OwnAttestation, end: boolean): Promise<AttestationRecord> {
    const done = this.#turn.then(() => this.#attest(attestation, end));
    this.#turn = done.catch(() => {});
    return done;
  }

  async #attest(attestation: OwnAttestation, end: boolean): Promise<AttestationRecord> {
    const before = this.#unsettled;
    const key = attestation.idempotencyKey;
    if (before) {
      const record = await this.#send(before.signed, before.key);
      if (before.key !== undefined && before.key === key) return record;
    }
    const prepared = prepare({ ...attestation, agentId: attestation.agentId ?? this.agent.agentId });
    await this.client.learnLog();
    try {
      return await this.#sign(prepared, end, key);
    } catch (error) {
      if (!isReused(error) || !this.#refusal) throw error;
    }
    // Another statement has the place or the jti. Only the jti is the same elsewhere.
    const here = this.#next;
    this.#next = elsewhere(here, this.#refusal, this.#ids.of(here.sid));
    try {
      return await this.#sign(prepared, end, key);
    } catch (error) {
      if (isReused(error)) this.#next = here;
      throw error;
    }
  }

  async #sign(prepared: Prepared, end: boolean, key: string | undefined): Promise<AttestationRecord> {
    if (this.#next.end) throw new AttestdError("the session has ended");
    const signed = await this.agent.sign(prepared, placeOfNext(this.#next, end), await idOfNext(this.#next, prepared));
    this.#kid ||= await this.agent.thumbprint();
    this.#next = await after(this.#next, signed.statement, end);
    return this.#send(signed, key);
  }

  async #send(signed: Prepared & { statement: string }, key: string | undefined): Promise<AttestationRecord> {
    this.#unsettled = { signed, key };
    this.#refusal = undefined;
    try {
      const record = await this.client.sendPrepared(signed);
      this.#unsettled = undefined;
      return record;
    } catch (error) {
      const refusal = isRefused(error) ? await refusalOf(signed.statement, error) : undefined;
      if (refusal) {
        this.#unsettled = undefined;
        this.#refusal = refusal;
        this.#next = afterRefusal(this.#next, refusal);
      }
      throw error;
    }
  }
}

export interface SessionOptions {
  /** The last statement of the run that the session goes on from: last of another session. */
  continues?: Continuation | undefined;
}
