// @ts-check
// Ed25519 checks: the browser's own where it is there and works, else the vendored @noble/ed25519.
// Both take exactly what Go's crypto/ed25519 and OpenSSL take, so that no signature is good for one
// checker and bad for another: S is below the order of the group, and R is, byte for byte, what is
// computed from the rest. Keys of low order and odd spellings of a key pass there, so they do here.
import { concat, equalBytes, hex, unhex } from './bytes.js';
import { sha512 } from './sha512.js';

// RFC 8032 §7.1, test 1: proves that an engine works before it is trusted.
const PROBE_KEY = unhex('d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a');
const PROBE_SIGNATURE = unhex(
  'e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155' +
    '5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b',
);

// The y of points of low order, and those from p on, which are spelt oddly. Browsers may refuse
// both, as the Web Cryptography API asks.
const LOW = [
  '00'.repeat(32),
  '01' + '00'.repeat(31),
  'ec' + 'ff'.repeat(30) + '7f',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
];

/**
 * Whether a point has a y of low order, or one that is spelt oddly.
 * @param {Bytes} point
 */
export function isOdd(point) {
  const y = point.slice();
  y[31] &= 0x7f;
  return LOW.includes(hex(y)) || /^(e[def]|f.)(ff){30}7f$/.test(hex(y));
}

/**
 * @typedef {object} Engine
 * @property {string} name
 * @property {(raw: Bytes) => Promise<PreparedKey>} key
 * @property {(key: PreparedKey, signature: Bytes, message: Bytes) => Promise<boolean>} verify
 */

/** @type {Engine} */
const webcrypto = {
  name: 'WebCrypto',
  key: async (raw) => ({
    raw,
    native: await crypto.subtle.importKey('raw', raw, 'Ed25519', false, ['verify']).catch(() => null),
  }),
  async verify({ raw, native }, signature, message) {
    if (native && (await crypto.subtle.verify('Ed25519', native, signature, message))) return true;
    return (isOdd(raw) || isOdd(signature.slice(0, 32))) && (await nobleEngine()).verify({ raw }, signature, message);
  },
};

/** @param {Bytes} bytes */
const littleEndian = (bytes) => BigInt('0x' + hex(bytes.slice().reverse()));

/**
 * noble's own verify multiplies by the cofactor, and so accepts signatures that the others refuse.
 * @returns {Promise<Engine>}
 */
async function nobleEngine() {
  const { Point } = await import('../vendor/noble/ed25519.js');
  const order = Point.CURVE().n;
  return {
    name: '@noble/ed25519',
    key: async (raw) => ({ raw: Uint8Array.from(raw) }),
    async verify({ raw }, signature, message) {
      let minusA;
      try {
        minusA = Point.fromBytes(raw, true).negate();
      } catch {
        return false; // not a point of the curve
      }
      const r = signature.slice(0, 32);
      const s = littleEndian(signature.slice(32));
      if (s >= order) return false;
      const k = littleEndian(await sha512(concat(r, raw, message))) % order;
      return equalBytes(Point.BASE.multiply(s, false).add(minusA.multiply(k, false)).toBytes(), r);
    },
  };
}

/** @param {Engine} engine */
async function works(engine) {
  try {
    const key = await engine.key(PROBE_KEY);
    const wrong = PROBE_SIGNATURE.slice();
    wrong[0] ^= 1;
    return (
      (await engine.verify(key, PROBE_SIGNATURE, new Uint8Array())) &&
      !(await engine.verify(key, wrong, new Uint8Array()))
    );
  } catch {
    return false;
  }
}

async function choose() {
  if (globalThis.crypto?.subtle && (await works(webcrypto))) return webcrypto;
  const noble = await nobleEngine();
  if (!(await works(noble))) throw new Error('no working Ed25519 in this browser');
  return noble;
}

/** @type {Promise<Engine> | undefined} */
let chosen;
/**
 * The engine in use, chosen and proved at the first call: {name, key(raw), verify(key, signature,
 * message)}.
 */
export const engine = () => (chosen ??= choose());

/**
 * The engine of a page that is not a secure context; exported so that it is tested on every
 * machine.
 */
export const fallback = nobleEngine;

/**
 * A key ready for verify, from its raw 32 bytes. What is no point of the curve verifies nothing.
 * @param {Bytes} raw
 * @returns {Promise<PreparedKey>}
 */
export async function publicKey(raw) {
  if (raw.length !== 32) throw new Error('an Ed25519 key has 32 bytes');
  return (await engine()).key(raw);
}

/**
 * @param {PreparedKey} key
 * @param {Bytes} signature
 * @param {Bytes} message
 * @returns {Promise<boolean>}
 */
export async function verify(key, signature, message) {
  if (signature.length !== 64) return false;
  return (await engine()).verify(key, signature, message);
}
