import { ConnectionError, ServiceError } from "./errors.js";

/** How often a request is sent again, and after how long. */
export interface Retry {
  /** Beyond the first attempt; 0 sends once. */
  times: number;
  /**
   * The wait before a retry, in milliseconds, is random between min and twice min, four times min
   * and so on, at most max. After Retry-After it is at least that.
   */
  min: number;
  max: number;
}

export const defaultRetry: Retry = { times: 2, min: 500, max: 8000 };

/**
 * The longest Retry-After that a call waits for: the window of the service's rate limits. After a
 * longer one the error comes at once.
 */
const PATIENCE = 60_000;

/**
 * How long to wait before retry number n, from 0 on, after an error; undefined when it is not worth
 * to. safe says that to carry the request out twice is no more than once.
 */
export function waitBefore({ times, min, max }: Retry, n: number, error: unknown, safe: boolean): number | undefined {
  if (n >= times || !isRetryable(error, safe)) return undefined;
  const wait = min + Math.random() * Math.max(0, Math.min(max, min * 2 ** (n + 1)) - min);
  const asked = error instanceof ServiceError ? error.retryAfter * 1000 : 0;
  return Math.max(wait, asked) <= Math.max(PATIENCE, max) ? Math.max(wait, asked) : undefined;
}

function isRetryable(error: unknown, safe: boolean): boolean {
  if (error instanceof ConnectionError) return safe || error.unsent;
  if (!(error instanceof ServiceError)) return false;
  if (error.status === 429 || error.code === "NOT_DONE") return true;
  return safe && (error.status === 408 || error.status === 409 && error.code !== "STATEMENT_REUSED" || error.status >= 500);
}

/** Whether another time may have more luck: what a spool keeps. */
export const isTemporary = (error: unknown): boolean => isRetryable(error, true);

export function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, milliseconds);
    if (signal?.aborted) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}
