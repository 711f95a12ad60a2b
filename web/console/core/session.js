// @ts-check
// Who is signed in, and the key that everything is checked with.
import { prepareKey, prepareRing } from '../lib/keyring.js';
import { companySPIFFE, domainOf } from '../lib/spiffe.js';
import * as answers from './answers.js';
import { PERSON, call, getCredential, setListeners, setCredential } from './api.js';
import { NOTHING, mustFit } from './asked.js';
import { addFinding } from './findings.js';
import { endPause } from './pause.js';
import { storeCredential, storedCredential, shareCredential } from './shared.js';
import { store, useStore } from './store.js';
import { changeOf, remember, see, seenOf } from './trust.js';

/**
 * status is out, restoring or in; company and key are set when it is in. message says why it ended;
 * back is the hash of the page that is to be shown again after signing in, and is empty where none
 * is; waits is whether a stored key could not be used yet. turn counts the keys that came in place
 * of one which they do not follow from: what was checked with one of them says nothing of the
 * other.
 * @type {Store<Session>}
 */
export const session = store({
  status: 'out',
  company: null,
  key: null,
  staySignedIn: false,
  message: '',
  back: '',
  waits: false,
  turn: 0,
});

/**
 * The company that is signed in, with its key. Throws if no one is signed in: a user who signed out
 * meanwhile has no use for what was to be done.
 */
export function signedIn() {
  const { company, key } = session.get();
  if (!company || !key) throw new Error('You are signed out.');
  return { company, key };
}

/** The same for a page that only those see who are signed in. */
export function useSignedIn() {
  useStore(session);
  return signedIn();
}

/**
 * The server's clock as of its last answer: offset is how many seconds it is ahead of this
 * computer's, give or take error.
 */
export const clock = store({ offset: 0, error: Infinity, dismissed: false });

/** @type {Map<string, ServiceKey>} */
const companyKeys = new Map();

/**
 * Keys of which one does not follow from the one before it are worth nothing: the last alone is
 * taken, with what is wrong as its flaw.
 * @param {ReturnType<typeof answers.publishedKeys>} published
 */
async function prepare({ keys, logs, ...company }) {
  const plain = keys.map(({ jwk, ...key }) => ({ ...key, x: jwk.x }));
  try {
    return await prepareRing({ ...company, keys: plain });
  } catch (err) {
    const last = plain.at(-1);
    if (!last) throw err;
    return {
      ...(await prepareKey({ ...last, companyId: company.companyId, spiffeId: company.spiffeId })),
      flaw: err.message,
    };
  }
}

/**
 * @param {string} companyId
 * @returns {Promise<ServiceKey>}
 */
async function askKey(companyId) {
  const query = `companyId=${encodeURIComponent(companyId)}`;
  const [published, discovery] = await Promise.all([
    call(answers.publishedKeys, 'GET', `/v1/ca/public-keys?${query}`, { asked: { companyId } }),
    call(answers.discovery, 'GET', `/v1/ca/well-known?${query}`, { asked: { company_id: companyId } }),
  ]);
  mustFit(
    published.spiffeId === companySPIFFE(domainOf(discovery.issuer) ?? '', companyId),
    `the SPIFFE ID ${published.spiffeId} is not that of ${companyId} in the trust domain of ${discovery.issuer}`,
  );
  return {
    ...(await prepare(published)),
    controlLog: published.logs?.[0],
    audience: discovery.passport_format.audience,
    issuer: discovery.issuer,
    published: true,
  };
}

/**
 * The public key that this server publishes for a company, with all that it had before in its ring,
 * and what its tokens must say: {companyId, spiffeId, kid, fingerprint, pem, x, raw, prepared,
 * origin, ring, controlLog, audience, issuer, published}.
 * @param {string} companyId
 * @returns {Promise<ServiceKey>}
 */
export async function companyKey(companyId) {
  const known = companyKeys.get(companyId) ?? (await askKey(companyId));
  companyKeys.set(companyId, known);
  return known;
}

/**
 * @param {RingKey} key
 * @returns {RingKey[]}
 */
const ringOf = ({ ring, fingerprint }) => ring ?? [{ fingerprint, fromIndex: 0 }];
/**
 * @param {ServiceKey} a
 * @param {ServiceKey} b
 */
const isSame = (a, b) =>
  a.flaw === b.flaw && JSON.stringify(ringOf(a).map(facts)) === JSON.stringify(ringOf(b).map(facts));
/** @param {RingKey} key */
const facts = ({ fingerprint, fromIndex, endedAt, compromisedAt }) => [fingerprint, fromIndex, endedAt, compromisedAt];
/**
 * @param {ServiceKey} old
 * @param {ServiceKey} next
 */
const continues = (old, next) =>
  !old.flaw &&
  !next.flaw &&
  ringOf(old).every(
    ({ fingerprint, fromIndex }, i) =>
      ringOf(next)[i]?.fingerprint === fingerprint && ringOf(next)[i].fromIndex === fromIndex,
  );

/**
 * Of a key that follows from the known one it is remembered that it was there; one that does not is
 * found fault with until a person says that they know why.
 * @param {ServiceKey} key
 */
function recordKeyChange(key) {
  if (key.flaw || changeOf(key)?.replaced)
    addFinding({ kind: 'key', companyId: key.companyId, fingerprint: key.fingerprint });
  else see(key);
}

/** @type {Map<string, number>} */
const covered = new Map(); // by company: the last record that was there when its keys were asked for again
const PROPAGATION = 400; // ms after which a server knows what another one, of the same database, has rotated

/**
 * Asks for a company's keys again, for one may have been rotated. With the index of a record that
 * its keys do not verify, only where they were not asked for since the record was there. Rejects
 * where they cannot be had.
 * @param {string} companyId
 * @param {number} [index]
 */
export async function refreshKey(companyId, index = Infinity) {
  if (index <= (covered.get(companyId) ?? -1)) return companyKey(companyId);
  const known = companyKeys.get(companyId);
  let key = await askKey(companyId);
  if (index !== Infinity && known && isSame(known, key)) {
    await new Promise((resolve) => { setTimeout(resolve, PROPAGATION); });
    key = await askKey(companyId);
  }
  if (index !== Infinity) covered.set(companyId, index);
  if (known && isSame(known, key)) return known;
  companyKeys.set(companyId, key);
  const { status, key: mine, turn } = session.get();
  if (status === 'in' && mine?.companyId === companyId && !isSame(mine, key)) {
    recordKeyChange(key);
    session.set({ key, turn: continues(mine, key) ? turn : turn + 1 });
  }
  return key;
}

/**
 * What cannot stand in a header cannot be sent, and no key holds it: mostly a quotation mark, a
 * dash or a space that came with the copy.
 * @param {string} credential
 */
function assertKey(credential) {
  const found = [...credential].findIndex((c) => c < '!' || c > '~');
  if (found < 0) return;
  const character = [...credential][found];
  const code = `U+${Number(character.codePointAt(0)).toString(16).toUpperCase().padStart(4, '0')}`;
  throw new Error(
    `That is not a key: character ${found + 1} is ` +
      `${character > ' ' && character !== '\u007f' && /\P{C}/u.test(character) && /\S/.test(character)
        ? `“${character}” (${code})` : code}, which no key contains. Copy it again, complete and without anything ` +
          `else.`,
  );
}

/**
 * Signs in with an API key or OAuth token. keep: it serves reloads and new tabs of this browser,
 * until the last tab is closed.
 * @param {string} credential
 * @param {boolean} stay
 */
export async function signIn(credential, stay) {
  if (credential !== PERSON) assertKey(credential);
  setCredential(credential);
  companyKeys.clear(); // the service may be another one than before
  covered.clear();
  try {
    const company = await call(answers.company, 'GET', '/v1/company', { asked: NOTHING });
    const key = await companyKey(company.companyId);
    mustFit(company.spiffeId === key.spiffeId, `it names another SPIFFE ID, ${company.spiffeId}`);
    if (getCredential() !== credential) return; // signed out meanwhile
    if (!seenOf(company.companyId) && !key.flaw) remember(key);
    else recordKeyChange(key);
    storeCredential(stay ? credential : '');
    session.set({ status: 'in', company, key, staySignedIn: stay, message: '', back: '', waits: false });
  } catch (err) {
    if (getCredential() === credential) setCredential('');
    throw err.status === 401 && err.code === ''
      ? Object.assign(new Error(credential === PERSON ? err.message : 'The server does not know this key.'),
        { refused: true })
      : err;
  }
}

/**
 * Ends the session, in all tabs of this browser unless others is false. Who ends it on purpose
 * starts at Start again.
 * @param {string} [message]
 * @param {{back?: string, others?: boolean}} [then]
 */
export function signOut(message = '', { back = '#/start', others = true } = {}) {
  if (getCredential() === PERSON && others) endSession();
  setCredential('');
  storeCredential('', others);
  endPause();
  session.set({ status: 'out', company: null, key: null, staySignedIn: false, message, back, waits: false });
}

/** Ends the person's session at the server too. Where that fails it ends after an hour. */
const endSession = () => import('./people.js').then((m) => m.endSession()).catch(() => {});

/**
 * Takes up a stored key: by this tab, before it was reloaded, or by another one that is open.
 */
export async function restore() {
  const stored = storedCredential();
  if (stored) await resume(stored);
}

/** @param {string} credential */
async function resume(credential) {
  session.set({ status: 'restoring', message: '', waits: false });
  try {
    await signIn(credential, true);
  } catch (err) {
    // A key that is refused goes. A server that is only away, or that cannot be reached, keeps it.
    if (err.refused) storeCredential('', false);
    session.set({ status: 'out', message: `Your session could not be restored: ${err.message}`, waits: !err.refused });
  }
}

setListeners({
  clock: (now) => clock.set(now),
  reauthenticate: () => import('./people.js').then((m) => m.reauthenticate()),
  // Where the page is left alone, its URL still names it: the next sign-in returns there.
  refused({ message }) {
    if (session.get().status === 'in') signOut(message, { back: location.hash, others: false });
  },
});

shareCredential({
  given: () => (session.get().staySignedIn ? getCredential() : ''),
  received: (credential) => session.get().status === 'out' && !session.get().message && resume(credential),
  ended: () =>
    session.get().status !== 'out' && signOut('You signed out in another tab.', { back: location.hash, others: false }),
});
