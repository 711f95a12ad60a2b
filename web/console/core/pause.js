// @ts-check
// A pause that the server asked for (429 with Retry-After). All reads that it put off wait here, so
// that one countdown is shown for them.
/** @type {Map<() => void, number>} */
const waiting = new Map(); // what wakes each of them, and the time in milliseconds at which it goes on by itself
let elsewhere = 0; // until when a worker waits
let watch = /** @type {(until: number) => void} */ (() => {});

const changed = () => watch(Math.max(elsewhere, ...waiting.values()));

/**
 * Calls f with the time, in milliseconds, at which the last of those that wait goes on; with 0 when
 * no one waits.
 * @param {(until: number) => void} f
 */
export const watchPause = (f) => { watch = f; };

/**
 * Says until when a worker waits; 0 where it goes on.
 * @param {number} until
 */
export function pauseElsewhere(until) {
  elsewhere = until;
  changed();
  if (until)
    setTimeout(() => {
      if (elsewhere === until) pauseElsewhere(0);
    }, until - Date.now()); // it may have been ended meanwhile
}

/** Lets all go on that wait here. */
export const endPause = () => { for (const wake of [...waiting.keys()]) wake(); };

/**
 * Waits until a time in milliseconds.
 * @param {number} until
 * @param {AbortSignal} [signal]
 * @returns {Promise<void>}
 */
export const rest = (until, signal) => new Promise((resolve, reject) => {
  /** @param {(why: any) => void} finish */
  const end = (finish) => () => {
    clearTimeout(timer);
    waiting.delete(wake);
    changed();
    finish(signal?.reason);
  };
  const wake = end(resolve);
  const timer = setTimeout(wake, Math.max(0, until - Date.now()));
  signal?.addEventListener('abort', end(reject), { once: true });
  waiting.set(wake, until);
  changed();
});
