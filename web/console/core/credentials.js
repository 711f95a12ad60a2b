// @ts-check
// Keys and OAuth clients without their secrets: what each may do, until when, who made it, and when
// it was last used.
import { having, list, nullable, oneOf, string, timestamp } from '../lib/form.js';
import { sha256hex } from '../lib/sha256.js';
import { call } from './api.js';
import { NOTHING } from './asked.js';
import { table } from '../lib/table.js';

/** @type {Form<KeyOrClient>} */
export const credential = having(
  {
    kind: oneOf('apiKey', 'oauthClient'),
    fingerprint: string,
    createdAt: timestamp,
    role: oneOf('admin', 'writer', 'reader'),
  },
  { clientId: string, label: nullable(string), madeBy: string, lastUsedAt: timestamp, expiresAt: timestamp },
);

/** The company's keys, then its clients, each in the order of creation. */
export const readCredentials = async () =>
  (await call(having({ credentials: list(credential) }), 'GET', '/v1/credentials', { asked: NOTHING })).credentials;

/**
 * It as the control log is held against it.
 * @param {KeyOrClient} credential
 * @returns {ListedItem}
 */
export const listedCredential = ({ kind, label, madeBy, expiresAt, ...lists }) => ({
  subject: kind === 'apiKey' ? `api-key:${lists.fingerprint}` : `oauth-client:${lists.clientId ?? ''}`,
  lists: { ...lists, label, madeBy, expiresAt },
});

/** @param {string} secret */
export const fingerprintOf = async (secret) => (await sha256hex(secret)).slice(0, 16);

/**
 * The secret of the API key with a fingerprint. The server gives all keys at once; the others are
 * not kept.
 * @param {string} fingerprint
 */
export async function secretOf(fingerprint) {
  const { keys } = await call(having({ keys: list(having({ key: string })) }), 'GET', '/v1/keys', { asked: NOTHING });
  for (const { key } of keys) if ((await fingerprintOf(key)) === fingerprint) return key;
  throw new Error('This key does not exist any more.');
}

const DAY = 24 * 60 * 60 * 1000;
export const LONG = 30; // days without use after which a credential is marked

/**
 * The mark of a credential at a time (ms): expired, unused (for LONG days), never (used); or ''.
 * @param {Pick<KeyOrClient, 'expiresAt' | 'lastUsedAt' | 'createdAt'>} credential
 * @param {number} now
 */
export function stateOf({ expiresAt, lastUsedAt, createdAt }, now) {
  if (expiresAt && Date.parse(expiresAt) <= now) return 'expired';
  if (now - Date.parse(lastUsedAt ?? createdAt) > LONG * DAY) return 'unused';
  return lastUsedAt ? '' : 'never';
}

/**
 * Whether a key opens every door for ever: a company always has one that does.
 * @param {KeyOrClient} c
 */
export const lasting = (c) => c.kind === 'apiKey' && c.role === 'admin' && !c.expiresAt;

/**
 * What a credential made, and what that made: [{credential, made: […]}]. No credential stands
 * twice.
 * @param {KeyOrClient[]} credentials
 * @param {string} fingerprint
 * @param {Set<string>} [seen]
 * @returns {CredentialTree}
 */
export function madeBy(credentials, fingerprint, seen = new Set([fingerprint])) {
  return credentials.filter((c) => c.madeBy === fingerprint && !seen.has(c.fingerprint)).map((one) => {
    seen.add(one.fingerprint);
    return { credential: one, made: madeBy(credentials, one.fingerprint, seen) };
  });
}

/**
 * How many credentials such a tree has.
 * @param {CredentialTree} tree
 * @returns {number}
 */
export const sizeOf = (tree) => tree.reduce((n, { made }) => n + 1 + sizeOf(made), 0);

const ROLES = ['admin', 'writer', 'reader'];
const LAST = '9999'; // after every time
/** @type {Record<string, (c: KeyOrClient) => string>} */
const ORDERS = table({
  created: (c) => c.createdAt,
  role: (c) => String(ROLES.indexOf(c.role)),
  expiry: (c) => c.expiresAt ?? LAST,
  use: (c) => c.lastUsedAt ?? '', // the longest unused first
  maker: (c) => c.madeBy ?? '',
});

/**
 * Those that a query of the URL asks for, in its order: {kind, role, state, maker, sort}; state
 * expired, unused, never or inuse.
 * @param {KeyOrClient[]} credentials
 * @param {Query} query
 * @param {number} now
 */
export function chosen(credentials, { kind, role, state, maker, sort }, now) {
  const order = ORDERS[sort && Object.hasOwn(ORDERS, sort) ? sort : 'created'];
  return credentials
    .filter(
      (c) =>
        (!kind || c.kind === kind) &&
        (!role || c.role === role) &&
        (!maker || c.madeBy === maker) &&
        (!state || (stateOf(c, now) || 'inuse') === state),
    )
    .toSorted((a, b) => (order(a) < order(b) ? -1 : order(a) > order(b) ? 1 : 0));
}
