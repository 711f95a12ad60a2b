/** The service's answers about its limit on attestations. */
export interface Rate {
  /** How many in a window; 0 is no limit. */
  limit: number;
  left: number;
  /** Until when that is so at least, by performance.now(). */
  until: number;
}

const WINDOW = 60_000;

/**
 * Reads the headers of an answer; undefined of one that knows nothing of it, such as a proxy's
 * page.
 */
export function rateOf(answer: Response): Rate | undefined {
  const [limit, left, reset] = ["Limit", "Remaining", "Reset"].map((name) => Number(answer.headers.get(`X-RateLimit-${name}`) ?? NaN)) as [number, number, number];
  if (![limit, left, reset].every(Number.isInteger)) return answer.status === 201 ? { limit: 0, left: 0, until: 0 } : undefined;
  return { limit, left, until: performance.now() + Math.min(WINDOW, Math.max(1000, reset * 1000 - Date.now())) };
}
