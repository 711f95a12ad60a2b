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

/** Takes what was typed for the fingerprint of a key; false where it is that of another key. */
export function confirm(key, typed) {
  const given = typed.trim().replace(/^SHA256:/, '').replace(/=+$/, '');
  if (`SHA256:${given}` !== key.fingerprint) return false;
  keep([...trust.get().confirmed.filter((e) => e !== entry(key.companyId, key.fingerprint)), entry(key.companyId, key.fingerprint)]);
  return true;
}

export const forget = (key) => keep(trust.get().confirmed.filter((e) => e !== entry(key.companyId, key.fingerprint)));

/** confirmed; other, where only other keys of its company are confirmed; or unconfirmed. */
export function standing(key, { confirmed } = trust.get()) {
  if (confirmed.includes(entry(key.companyId, key.fingerprint))) return 'confirmed';
  return confirmed.some((e) => e.startsWith(`${key.companyId} `)) ? 'other' : 'unconfirmed';
}

/** The colour of what was checked here with a key: ok is whether it holds, and keyStanding as of standing. */
export const toneOf = (ok, keyStanding) => (!ok || keyStanding === 'other' ? 'bad' : keyStanding === 'confirmed' ? 'ok' : 'warn');
