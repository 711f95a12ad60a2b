// Which public keys the person at this browser vouches for. A signature shows that a key signed; whose key it is no file and no
// server can say of itself. So nothing is green before its key's fingerprint was entered here, from another source.
import { store } from './store.js';

const NAME = 'attestd.confirmed';

function restored() {
  try {
    const kept = JSON.parse(localStorage.getItem(NAME) ?? '[]');
    return Array.isArray(kept) ? kept.filter((entry) => typeof entry === 'string') : [];
  } catch {
    return []; // no storage, or not what was put there
  }
}

const entry = (companyId, fingerprint) => `${companyId} ${fingerprint}`;

/** confirmed: a list of "companyId fingerprint". A company may have several keys. */
export const trust = store({ confirmed: restored() });

function keep(confirmed) {
  try {
    localStorage.setItem(NAME, JSON.stringify(confirmed));
  } catch { /* it then lasts as long as the page */ }
  trust.set({ confirmed });
}

// A key and those that are proven to come before or after it: whoever vouches for one vouches for all.
const entriesOf = (key) => (key.ring ?? [key]).map(({ fingerprint }) => entry(key.companyId, fingerprint));

/** Takes what was typed for the fingerprint of a key, or of one that is proven with it; false where it is that of another key. */
export function confirm(key, typed) {
  const given = entry(key.companyId, `SHA256:${typed.trim().replace(/^SHA256:/, '').replace(/=+$/, '')}`);
  if (!entriesOf(key).includes(given)) return false;
  keep([...trust.get().confirmed.filter((e) => e !== given), given]);
  return true;
}

export const forget = (key) => keep(trust.get().confirmed.filter((e) => !entriesOf(key).includes(e)));

/**
 * confirmed; other, where only other keys of its company are confirmed, or where nothing proves that it follows from those before it; or
 * unconfirmed.
 */
export function standing(key, { confirmed } = trust.get()) {
  if (key.flaw) return 'other';
  if (entriesOf(key).some((e) => confirmed.includes(e))) return 'confirmed';
  return confirmed.some((e) => e.startsWith(`${key.companyId} `)) ? 'other' : 'unconfirmed';
}

/** The colour of what was checked here with a key: ok is whether it holds, and keyStanding as of standing. */
export const toneOf = (ok, keyStanding) => (!ok || keyStanding === 'other' ? 'bad' : keyStanding === 'confirmed' ? 'ok' : 'warn');
