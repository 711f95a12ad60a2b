// @ts-check
// All keys that a company has had. Each but the first is proven by a statement that the key before
// it and the key itself have signed, so a reader who confirmed one of them need not be asked about
// the others.
import { base64url, equalBytes, hex, rawKeyFromPEM, spki, unbase64url, utf8 } from './bytes.js';
import { publicKey, verify } from './ed25519.js';
import { FormError } from './form.js';
import { sha256 } from './sha256.js';
import { isCompany } from './spiffe.js';

const DAY = 86400; // seconds; no token lasts longer
const LATE = 60; // seconds after its key's end that a statement may still be of, for it was under way

/**
 * The kid (16 hex digits) and fingerprint of a raw key: both come from SHA-256 of its SPKI DER.
 * @param {Bytes} raw
 */
export async function identify(raw) {
  const digest = await sha256(spki(raw));
  return { kid: hex(digest).slice(0, 16), fingerprint: 'SHA256:' + base64url(digest) };
}

/**
 * A published key, {companyId, spiffeId, kid, fingerprint, pem, x}, made ready for checks; what it
 * says of itself must be so.
 * @param {PublishedKey & {companyId: string, spiffeId: string}} published
 * @returns {Promise<CompanyKey>}
 */
export async function prepareKey(published) {
  const raw = rawKeyFromPEM(published.pem);
  const { kid, fingerprint } = await identify(raw);
  if (!equalBytes(unbase64url(published.x), raw) || published.kid !== kid || published.fingerprint !== fingerprint) {
    throw new FormError('the public key, its ID and its fingerprint are not of one key');
  }
  if (!isCompany(published.spiffeId, published.companyId))
    throw new FormError('the public key names two companies');
  return { ...published, raw, prepared: await publicKey(raw) };
}

/**
 * @param {string} version
 * @param {...(string | number)} lines
 */
const text = (version, ...lines) => [`attestd/key-rotation/${version}`, ...lines, ''].join('\n');

/**
 * What both keys of a rotation sign: with whole fingerprints, or in the older form, with the kids
 * alone.
 * @param {string} origin
 * @param {number} index
 * @param {{kid: string, fingerprint: string}} old
 * @param {{kid: string, fingerprint: string}} next
 */
const statements = (origin, index, old, next) => [
  text('v2', origin, index, old.fingerprint, next.fingerprint),
  text('v1', origin, index, old.kid, next.kid),
];

/**
 * Whether next is proven to follow old in the log of an origin; each has kid, fingerprint, prepared
 * and fromIndex.
 * @param {string} origin
 * @param {RingEntry} old
 * @param {RingEntry & {rotation?: Rotation}} next
 */
export async function follows(origin, old, next) {
  const { rotation } = next;
  if (
    !rotation ||
    next.fromIndex === undefined ||
    old.fromIndex === undefined ||
    next.fromIndex < old.fromIndex ||
    !statements(origin, next.fromIndex, old, next).includes(rotation.statement)
  )
    return false;
  const said = utf8(rotation.statement);
  /** @type {[RingEntry, string][]} */
  const signed = [[old, rotation.oldSignature], [next, rotation.newSignature]];
  return (await Promise.all(signed.map(([key, s]) => verify(key.prepared, unbase64url(s), said)))).every(Boolean);
}

/**
 * A company's keys, {companyId, spiffeId, origin, keys}, each as for prepareKey with its fromIndex
 * and rotation, made ready for checks: the key that signs now, and in its ring all of them, the
 * oldest first. Throws an Error where one does not follow from the one before it.
 * @param {{companyId: string, spiffeId: string, origin: string, keys: PublishedKey[]}} company
 * @returns {Promise<CompanyKey>}
 */
export async function prepareRing({ companyId, spiffeId, origin, keys }) {
  const ring = await Promise.all(keys.map((key) => prepareKey({ ...key, companyId, spiffeId })));
  if (!ring.length || ring[0].fromIndex !== 0 || ring[0].rotation)
    throw new FormError('the first key of the company is missing');
  for (let i = 1; i < ring.length; i++) {
    if (!(await follows(origin, ring[i - 1], ring[i])))
      throw new FormError(`nothing proves that key ${ring[i].kid} follows key ${ring[i - 1].kid}`);
  }
  return { ...ring[ring.length - 1], origin, ring };
}

/**
 * The key that signs a record: one key alone signs all.
 * @template {{fromIndex?: number}} R
 * @template {{ring?: R[]}} K
 * @param {K & {ring?: R[]}} key
 * @param {number} index
 * @returns {R | K}
 */
export const keyAt = (key, index) =>
  key.ring?.findLast(({ fromIndex = Infinity }) => fromIndex <= index) ?? key;

/**
 * The key with which a token that names a kid and is of a time, iat, may be signed; the company's
 * own where there is none. A key that has ended has signed nothing later. Times are in seconds.
 * @param {CompanyKey} key
 * @param {string | undefined} kid
 * @param {number} iat
 * @param {number} now
 */
export function tokenKey(key, kid, iat, now) {
  /** @param {CompanyKey} key */
  const good = ({ endedAt, compromisedAt }) => {
    const end = Date.parse(endedAt ?? '') / 1000;
    return !compromisedAt && (!endedAt || (iat <= end && now < end + DAY));
  };
  return key.ring?.find((one) => one.kid === kid && good(one)) ?? key;
}

/**
 * The key that a statement of a time, in text, names by its PEM; the company's own where that is
 * not the one of its time.
 * @param {CompanyKey} key
 * @param {string} pem
 * @param {string} at
 */
export function statementKey(key, pem, at) {
  /** @param {CompanyKey} key */
  const good = ({ endedAt, compromisedAt }) =>
    !compromisedAt && (!endedAt || Date.parse(at) <= Date.parse(endedAt) + LATE * 1000);
  return key.ring?.find((one) => one.pem === pem && good(one)) ?? key;
}
