// Who is signed in, and the key that everything is checked with.
import { prepareKey, prepareRing } from '../lib/keyring.js';
import * as answers from './answers.js';
import { call, setCredential } from './api.js';
import { store } from './store.js';

const KEPT = 'attestd.key';

/** status is out, restoring or in; company and key are set when it is in; message says why it ended. */
export const session = store({ status: 'out', company: null, key: null, kept: false, message: '' });

const companyKeys = new Map();

// Keys of which one does not follow from the one before it are worth nothing: the last alone is taken, with what is wrong as its flaw.
async function prepare({ keys, ...company }) {
  const plain = keys.map(({ jwk, ...key }) => ({ ...key, x: jwk.x }));
  try {
    return await prepareRing({ ...company, keys: plain });
  } catch (err) {
    if (!plain.length) throw err;
    return { ...(await prepareKey({ ...plain.at(-1), companyId: company.companyId, spiffeId: company.spiffeId })), flaw: err.message };
  }
}

/**
 * The public key that this server publishes for a company, with all that it had before in its ring, and what its tokens must say:
 * {companyId, spiffeId, kid, fingerprint, pem, x, raw, prepared, origin, ring, audience, issuer}.
 */
export async function companyKey(companyId) {
  const known = companyKeys.get(companyId);
  if (known) return known;
  const query = `companyId=${encodeURIComponent(companyId)}`;
  const [published, discovery] = await Promise.all([
    call(answers.publishedKeys, 'GET', `/v1/ca/public-keys?${query}`),
    call(answers.discovery, 'GET', `/v1/ca/well-known?${query}`),
  ]);
  if (published.companyId !== companyId) throw new Error(`the server answers with the key of ${published.companyId}`);
  const key = {
    ...(await prepare(published)),
    audience: discovery.passport_format.audience,
    issuer: discovery.issuer,
  };
  companyKeys.set(companyId, key);
  return key;
}

const covered = new Map(); // by company: the last record that was there when its keys were asked for again

/**
 * Asks for a company's keys again, for one may have been rotated. With the index of a record that its keys do not verify, only where
 * they were not asked for since the record was there.
 */
export async function refreshKey(companyId, index = Infinity) {
  if (index <= (covered.get(companyId) ?? -1)) return companyKey(companyId);
  if (index !== Infinity) covered.set(companyId, index);
  const known = companyKeys.get(companyId);
  companyKeys.delete(companyId);
  let key;
  try {
    key = await companyKey(companyId);
  } catch (err) {
    if (!known) throw err;
    companyKeys.set(companyId, known);
    return known;
  }
  const { status, key: mine } = session.get();
  if (status === 'in' && mine.companyId === companyId && mine.fingerprint !== key.fingerprint) session.set({ key });
  return key;
}

/** Signs in with an API key or OAuth token. keep: sessionStorage holds it until the tab is closed. */
export async function signIn(credential, keep) {
  setCredential(credential);
  try {
    const company = await call(answers.company, 'GET', '/v1/company');
    const key = await companyKey(company.companyId);
    if (keep) sessionStorage.setItem(KEPT, credential);
    else sessionStorage.removeItem(KEPT);
    session.set({ status: 'in', company, key, kept: keep, message: '' });
  } catch (err) {
    setCredential('');
    throw err.status === 401 ? new Error('The server does not know this key.') : err;
  }
}

export function signOut(message = '') {
  setCredential('');
  sessionStorage.removeItem(KEPT);
  session.set({ status: 'out', company: null, key: null, kept: false, message });
}

/** Takes up a key that was kept for this tab. */
export async function restore() {
  const kept = sessionStorage.getItem(KEPT);
  if (!kept) return;
  session.set({ status: 'restoring' });
  try {
    await signIn(kept, true);
  } catch (err) {
    // A server that is only away keeps the key; a key that is refused goes.
    if (err.status === undefined) sessionStorage.removeItem(KEPT);
    session.set({ status: 'out', message: `The key kept for this tab was not taken up: ${err.message}` });
  }
}
