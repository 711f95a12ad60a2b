// @ts-check
// Which public keys the person at this browser vouches for, and which key each company had when it
// was last seen here. A signature shows that a key signed; whose key it is no file and no server
// can say of itself. So nothing is green before its key's fingerprint was entered here, from
// another source (or the page has registered the company by itself, as the demonstration does), and
// a company's key that changes is red, unless it is proven that the one follows the other.
import { dropFinding } from './findings.js';
import { store } from './store.js';

const CONFIRMED = 'attestd.confirmed'; // a list of "companyId fingerprint"
const CONFIRMED_AT = 'attestd.confirmed-at'; // the same, each with the time at which it was confirmed
const SEEN = 'attestd.seen'; // a list of "companyId fingerprint time"
const LATEST = 'attestd.latest'; // the same, of keys that are proven to follow and not acknowledged yet

/**
 * @param {string} name
 * @returns {string[]}
 */
function restored(name) {
  try {
    const stored = JSON.parse(localStorage.getItem(name) ?? '[]');
    return Array.isArray(stored) ? stored.filter((entry) => typeof entry === 'string') : [];
  } catch {
    return []; // no storage, or not what was put there
  }
}

/**
 * @param {string} companyId
 * @param {string} fingerprint
 */
const entry = (companyId, fingerprint) => `${companyId} ${fingerprint}`;
const all = () => ({
  confirmed: restored(CONFIRMED),
  confirmedAt: restored(CONFIRMED_AT),
  seen: restored(SEEN),
  latest: restored(LATEST),
});

/**
 * confirmed: a list of "companyId fingerprint"; a company may have several keys. confirmedAt: a
 * list of "companyId fingerprint time". seen and latest: one "companyId fingerprint time" of each
 * company.
 * @type {Store<TrustState>}
 */
export const trust = store(all());
globalThis.addEventListener?.('storage', () => trust.set(all())); // another tab has learned something

/**
 * @param {string} name
 * @param {keyof TrustState} member
 * @param {string[]} list
 */
function persist(name, member, list) {
  trust.set({ [member]: list });
  try {
    localStorage.setItem(name, JSON.stringify(list));
  } catch { /* it then lasts as long as the page */ }
}

/**
 * A key and those that are proven to come before or after it: confirming one confirms all.
 * @param {NamedKey} key
 */
const entriesOf = (key) => (key.ring ?? [key]).map(({ fingerprint }) => entry(key.companyId, fingerprint));

/**
 * @param {string[]} list
 * @param {string} companyId
 */
function known(list, companyId) {
  const [, fingerprint, at] = list.find((e) => e.startsWith(`${companyId} `))?.split(' ') ?? [];
  return fingerprint ? { fingerprint, at: at ?? '' } : undefined;
}

/**
 * What this browser remembers of a company, {fingerprint, at}; undefined where it was never signed
 * in to.
 * @param {string} companyId
 * @param {TrustState} [state]
 */
export const seenOf = (companyId, { seen } = trust.get()) => known(seen, companyId);

/**
 * @param {string} name
 * @param {keyof TrustState} member
 * @param {NamedKey} key
 * @param {Date} now
 */
const put = (name, member, { companyId, fingerprint }, now) =>
  persist(name, member, [
    ...trust.get()[member].filter((e) => !e.startsWith(`${companyId} `)),
    `${entry(companyId, fingerprint)} ${now.toISOString()}`,
  ]);

/**
 * Remembers a company's key from now on in place of the one that is remembered.
 * @param {NamedKey} key
 * @param {Date} [now]
 */
export function remember(key, now = new Date()) {
  put(SEEN, 'seen', key, now);
  see(key, now);
}

/**
 * Remembers that a key was there which follows from the one that is remembered: the next must
 * follow from both.
 * @param {NamedKey} key
 * @param {Date} [now]
 */
export function see(key, now = new Date()) {
  if (known(trust.get().latest, key.companyId)?.fingerprint !== key.fingerprint) put(LATEST, 'latest', key, now);
}

/**
 * How the key that a server publishes differs from the one that is remembered of its company: null
 * where it does not; {known, replaced: true} where nothing proves that it follows from that one, or
 * from the last that was there; else the proven rotations since, as pairs {old, next} of keys, in
 * their order.
 * @param {NamedKey} key
 * @param {Pick<TrustState, 'seen'> & Partial<TrustState>} [state]
 * @returns {KeyChange | null}
 */
export function changeOf(key, { seen, latest = [] } = trust.get()) {
  const remembered = known(seen, key.companyId);
  if (!remembered) return null;
  const ring = key.ring ?? [key];
  /** @param {{fingerprint: string}} one */
  const place = (one) => ring.findIndex(({ fingerprint }) => fingerprint === one.fingerprint);
  const lost = [remembered, known(latest, key.companyId)].find((one) => one && place(one) < 0);
  if (lost) return { known: lost, replaced: true };
  const at = place(remembered);
  return at === ring.length - 1
    ? null
    : { known: remembered, rotations: ring.slice(at + 1).map((next, i) => ({ old: ring[at + i], next })) };
}

/**
 * Takes what was typed for the fingerprint of a key, or of one that is proven with it; false where
 * it is that of another key.
 * @param {NamedKey} key
 * @param {string} typed
 * @param {Date} [now]
 */
export function confirm(key, typed, now = new Date()) {
  const given = entry(key.companyId, `SHA256:${typed.replace(/\s/g, '').replace(/^SHA256:/i, '').replace(/=+$/, '')}`);
  if (!entriesOf(key).includes(given)) return false;
  persist(CONFIRMED, 'confirmed', [...trust.get().confirmed.filter((e) => e !== given), given]);
  persist(CONFIRMED_AT, 'confirmedAt', [
    ...trust.get().confirmedAt.filter((e) => !e.startsWith(`${given} `)),
    `${given} ${now.toISOString()}`,
  ]);
  if (key.published && changeOf(key)?.replaced) {
    remember(key);
    dropFinding('key', key.companyId);
  }
  return true;
}

/** @param {NamedKey} key */
export function forget(key) {
  const own = entriesOf(key);
  const { confirmed, confirmedAt } = trust.get();
  persist(CONFIRMED, 'confirmed', confirmed.filter((e) => !own.includes(e)));
  persist(CONFIRMED_AT, 'confirmedAt', confirmedAt.filter((e) => !own.some((one) => e.startsWith(`${one} `))));
}

/**
 * When a key was confirmed here, or one that is proven with it; '' where that is not known, as of a
 * key that an earlier console has confirmed.
 * @param {NamedKey} key
 * @param {TrustState} [state]
 */
export function confirmedAt(key, state = trust.get()) {
  const own = entriesOf(key).filter((one) => state.confirmed.includes(one));
  return state.confirmedAt.find((e) => own.some((one) => e.startsWith(`${one} `)))?.split(' ')[2] ?? '';
}

/**
 * confirmed; other, where only other keys of its company are confirmed, or where nothing proves
 * that it follows from those before it or from the one that is remembered; or unconfirmed. What is
 * remembered says nothing of keys in files: only of the one that a server publishes.
 * @param {NamedKey} key
 * @param {TrustState} [state]
 * @returns {KeyState}
 */
export function keyStateOf(key, state = trust.get()) {
  if (key.flaw || (key.published && changeOf(key, state)?.replaced)) return 'other';
  if (entriesOf(key).some((e) => state.confirmed.includes(e))) return 'confirmed';
  return state.confirmed.some((e) => e.startsWith(`${key.companyId} `)) ? 'other' : 'unconfirmed';
}
