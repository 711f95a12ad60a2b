import { newKey, prepare, type Attestation, type Prepared } from "./attestation.js";
import { hashOf, type Agent } from "./agent.js";
import type { Client } from "./client.js";
import { AttestdError, ServiceError } from "./errors.js";
import type { AttestationRecord } from "./operations.js";

/**
 * Whether an error says for certain that an append had no effect: the service has refused it, for
 * what it is and not for who sends it.
 */
export const isRefused = (error: unknown): boolean => error instanceof ServiceError && !error.repeated && (error.code === "STATEMENT_REUSED" ||
  [400, 403, 413, 422].includes(error.status) && !["FORBIDDEN_ROLE", "FORBIDDEN_AGENT", "COMPANY_SUSPENDED"].includes(error.code) && !error.operation.endsWith("/v1/oauth/token"));

/**
 * One run of an agent: its statements are numbered, and each names the one before, so that nothing
 * can be taken out unseen. It sends one at a time and ends with the process; a session of a Spool
 * goes on after a crash, and while the service is away.
 */
export class Session {
  #seq = 0;
  #previous: string | undefined;
  #ended = false;
  // of which it is not known whether it is recorded
  #unsettled: { signed: Prepared; key: string | undefined } | undefined;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(readonly client: Client, readonly agent: Agent, readonly id: string = newKey()) {}

  /**
   * Signs an attestation at the next place, and appends its record. After a ConnectionError its
   * outcome is unknown: the next call first sends the same statement again. One that the service
   * refuses has no place.
   */
  attest(attestation: Attestation): Promise<AttestationRecord> {
    return this.#next(attestation, false);
  }

  /** As attest, of the last one of the session. */
  end(attestation: Attestation): Promise<AttestationRecord> {
    return this.#next(attestation, true);
  }

  #next(attestation: Attestation, end: boolean): Promise<AttestationRecord> {
    const done = this.#turn.then(() => this.#attest(attestation, end));
    this.#turn = done.catch(() => {});
    return done;
  }

  async #attest(attestation: Attestation, end: boolean): Promise<AttestationRecord> {
    const before = this.#unsettled;
    if (before) {
      const record = await this.client.sendPrepared(before.signed);
      this.#unsettled = undefined;
      if (before.key !== undefined && before.key === attestation.idempotencyKey) return record;
    }
    if (this.#ended) throw new AttestdError("the session has ended");
    const signed = await this.agent.sign(prepare(attestation), { sid: this.id, seq: this.#seq, previous: this.#previous, end });
    try {
      const record = await this.client.sendPrepared(signed);
      await this.#advance(signed.statement, end);
      return record;
    } catch (error) {
      if (!isRefused(error)) {
        this.#unsettled = { signed, key: attestation.idempotencyKey };
        await this.#advance(signed.statement, end);
      }
      throw error;
    }
  }

  async #advance(statement: string, end: boolean): Promise<void> {
    [this.#seq, this.#previous, this.#ended] = [this.#seq + 1, await hashOf(statement), end];
  }
}

