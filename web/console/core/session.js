// Who is signed in, and the key that everything is checked with.
import { rawKeyFromPEM } from '../lib/bytes.js';
import { publicKey } from '../lib/ed25519.js';
import { identify } from '../lib/evidence.js';
import { call, setCredential } from './api.js';
import { store } from './store.js';

const KEPT = 'attestd.key';

/** status is out, restoring or in; company and key are set when it is in; message says why it ended. */
export const session = store({ status: 'out', company: null, key: null, kept: false, message: '' });

const companyKeys = new Map();

/**
 * A company's public key and what its tokens must say: {companyId, pem, x, kid, fingerprint, raw, prepared, audience, issuer}.
 * kid and fingerprint are computed here from the key itself, not believed.
 */
export async function companyKey(companyId) {
  const known = companyKeys.get(companyId);
  if (known) return known;
  const query = `companyId=${encodeURIComponent(companyId)}`;
  const [published, discovery] = await Promise.all([
    call('GET', `/v1/ca/public-key?${query}`),
    call('GET', `/v1/ca/well-known?${query}`),
  ]);
  const raw = rawKeyFromPEM(published.pem);
  const key = {
    companyId, spiffeId: published.spiffeId, pem: published.pem, x: published.jwk.x, raw,
    ...(await identify(raw)),
    prepared: await publicKey(raw),
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
    const company = await call('GET', '/v1/company');
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
