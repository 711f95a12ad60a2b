import { jsonOf } from "./answer.js";

/** What every error of this package is. */
export class AttestdError extends Error {
  override name = "AttestdError";
}

/**
 * An answer of the service that is not a success. Programs go by status and code; the codes stand
 * in the API reference.
 */
export class ServiceError extends AttestdError {
  override name = "ServiceError";

  /** An earlier attempt had no answer, so that it may have had an effect. */
  repeated = false;

  constructor(
    /** Method and route, for no path: keys stand in paths. */
    readonly operation: string,
    readonly status: number,
    reason: string,
    /** "" where the service gives none. */
    readonly code = "",
    /** JSON Pointer to the member of the request that is refused, or "". */
    readonly pointer = "",
    /** Under which the service's log has the cause. */
    readonly requestId = "",
    /** Seconds until a retry is welcome, 0 where the service does not say. */
    readonly retryAfter = 0,
    /**
     * The answer is not the service's, but that of something before it, such as a gateway's page:
     * it lacks the member error or the header X-Request-ID. Nothing is decided by it.
     */
    readonly foreign = false,
  ) {
    super(`${operation}: ${status} ${reason}${pointer && ` at ${pointer}`}${code && ` (${code})`}${foreign ? "; that is no answer of attestd, but of something before it" : ""}${status >= 500 && requestId ? `, request ${requestId}` : ""}`);
  }
}

/**
 * A call that got no whole answer. Whether it was carried out is unknown, unless unsent says that
 * no connection was made.
 */
export class ConnectionError extends AttestdError {
  override name = "ConnectionError";

  constructor(operation: string, cause: unknown, readonly unsent = false) {
    super(`${operation}: no answer: ${reasonOf(cause)}`, { cause });
  }
}

/** Stands in the places of a RecordMismatchError for a decision that was pruned. */
export const PRUNED_DECISION = "pruned decision";

/**
 * ALARM: the service, or a proxy in front of it, has answered with records of something else than
 * was sent. Whether what was sent is recorded is unknown. places says which of the items differ,
 * and in what: agentId, actionType, payload, statement, delegation, decision, companyId or hash;
 * PRUNED_DECISION where the payload was pruned with the decision, so that nothing can be compared.
 */
export class RecordMismatchError extends AttestdError {
  override name = "RecordMismatchError";

  constructor(operation: string, readonly places: ReadonlyMap<number, string>) {
    const [[at, what] = [0, ""]] = places;
    super(what === PRUNED_DECISION
      ? `${operation}: the service says that item ${at} is recorded already, and that its payload was pruned with the decision: ` +
        "whether the record is of what was sent cannot be compared. The archive of the operator has it"
      : `ALARM: ${operation}: ${places.size} of the records in the answer are not of what was sent: that of item ${at} has another ${what}. ` +
        "Whether it is recorded is unknown. Find out what answers in place of the service");
  }
}

/**
 * A value that cannot be sent as it is; nothing was sent. pointer is its place in what was given.
 */
export class PayloadError extends AttestdError {
  override name = "PayloadError";

  constructor(readonly pointer: string, reason: string) {
    super(pointer ? `${pointer}: ${reason}` : reason);
  }
}

/**
 * What was checked does not hold. code names the step that failed: for evidence and tokens one of
 * the reference's, else KEY, RECORD, PRUNED, PROOF or STATUS.
 */
export class VerificationError extends AttestdError {
  override name = "VerificationError";

  constructor(readonly code: string, reason: string) {
    super(`${code}: ${reason}`);
  }
}

/** A call that must not be made, for its approval is denied, expired, withdrawn or used up. */
export class NotApprovedError extends AttestdError {
  override name = "NotApprovedError";

  constructor(readonly approval: { approvalId: string; state: string; reason: string | null }) {
    super(`the approval ${approval.approvalId} is ${approval.state}${approval.reason ? `: ${approval.reason}` : ""}`);
  }
}

/** The code of a refusal of an idempotency key that came with another request before. */
export const REUSED = "IDEMPOTENCY_KEY_REUSED";

/** The code of a refusal of a statement whose jti, or place, another one has. */
export const STATEMENT_REUSED = "STATEMENT_REUSED";

/** Whether something before the service has refused a request in its place. */
export const isPage = ({ foreign, status }: ServiceError): boolean => foreign && status >= 400 && status < 500 && status !== 408 && status !== 429;

/** Which item of a batch a refusal names. */
export const placeOf = ({ pointer }: ServiceError): number | undefined => {
  const named = /^\/records\/(\d+)/.exec(pointer);
  return named ? Number(named[1]) : undefined;
};

/** The error code of Node, such as ECONNREFUSED, where a failed fetch has one. */
export const codeOf = (cause: unknown): string => {
  const { code, cause: inner } = (cause ?? {}) as { code?: unknown; cause?: unknown };
  return typeof code === "string" ? code : inner ? codeOf(inner) : "";
};

/** The most bytes of a refusal. */
const MAX_REFUSAL = 64 << 10;

const reasonOf = (cause: unknown): string => codeOf(cause) || (cause instanceof Error ? cause.message : String(cause));

/**
 * Reads an answer that is not a success: its body and the error. A body that is not the service's,
 * a proxy's page for example, is left out.
 */
/**
 * Whether a request was refused for the nonce of its proof alone (RFC 9449 §8): nothing was done.
 */
export const wantsNonce = (error: unknown): boolean => error instanceof ServiceError && (error.code === "USE_DPOP_NONCE" || error.status === 400 && error.message.includes(" 400 use_dpop_nonce"));

export async function serviceError(operation: string, answer: Response): Promise<[Record<string, unknown> | null, ServiceError]> {
  let body = await jsonOf(answer, MAX_REFUSAL).catch(() => null) as Record<string, unknown> | null;
  if (typeof body === "string") // as AuthZEN has errors
    body = { error: body };
  const text = (name: string) => (typeof body?.[name] === "string" ? body[name] as string : "");
  const reason = [text("error") || answer.statusText || "not the answer of the service", text("error_description")].filter(Boolean).join(": ");
  const later = answer.headers.get("Retry-After") ?? "";
  const seconds = /^\d{1,9}$/.test(later) ? Number(later) : Math.max(0, (Date.parse(later) - Date.now()) / 1000 || 0);
  const id = answer.headers.get("X-Request-ID") ?? "";
  return [body, new ServiceError(operation, answer.status, reason, text("code"), text("pointer"), id, seconds, !text("error") || !id)];
}
