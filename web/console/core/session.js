// Who is signed in, and the key that everything is checked with.
import { prepareKey } from '../lib/evidence.js';
import * as answers from './answers.js';
import { call, setCredential } from './api.js';
import { store } from './store.js';

const KEPT = 'attestd.key';

/** status is out, restoring or in; company and key are set when it is in; message says why it ended. */
export const session = store({ status: 'out', company: null, key: null, kept: false, message: '' });

const companyKeys = new Map();

/**
 * The public key that this server publishes for a company, and what its tokens must say:
 * {companyId, spiffeId, kid, fingerprint, pem, x, raw, prepared, audience, issuer}.
 */
export async function companyKey(companyId) {
  const known = companyKeys.get(companyId);
  if (known) return known;
  const query = `companyId=${encodeURIComponent(companyId)}`;
  const [{ jwk, ...published }, discovery] = await Promise.all([
    call(answers.publishedKey, 'GET', `/v1/ca/public-key?${query}`),
    call(answers.discovery, 'GET', `/v1/ca/well-known?${query}`),
  ]);
  if (published.companyId !== companyId) throw new Error(`the server answers with the key of ${published.companyId}`);
  const key = {
    ...(await prepareKey({ ...published, x: jwk.x })),
    audience: discovery.passport_format.audience,
    issuer: discovery.issuer,
  };
  companyKeys.set(companyId, key);
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
