// @ts-check
// Bytes and their spellings: UTF-8, hex, base64url, PEM. Every decoder is strict: what does not
// re-encode to itself is refused, so that one signature or key has one spelling.

const encoder = new TextEncoder();
// ignoreBOM keeps a byte order mark in the text, where the JSON parser refuses it.
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * @param {string} text
 * @returns {Bytes}
 */
export const utf8 = (text) => encoder.encode(text);

/**
 * The text of UTF-8 bytes; throws a TypeError on anything else.
 * @param {Uint8Array} bytes
 */
export const text = (bytes) => decoder.decode(bytes);

const HEX = Array.from({ length: 256 }, (_, i) => i.toString(16).padStart(2, '0'));

/** @param {Uint8Array} bytes */
export function hex(bytes) {
  let out = '';
  for (const b of bytes) out += HEX[b];
  return out;
}

/** @param {string} s */
export function unhex(s) {
  if (typeof s !== 'string' || s.length % 2 || !/^[0-9a-f]*$/.test(s)) throw new Error('not lower-case hex');
  const out = new Uint8Array(s.length / 2);
  for (let i = 0; i < out.length; i++) out[i] = parseInt(s.slice(2 * i, 2 * i + 2), 16);
  return out;
}

/** @param {unknown} s */
export const isHash = (s) => typeof s === 'string' && /^[0-9a-f]{64}$/.test(s);

/** @param {string} s */
function fromBase64(s) {
  const raw = atob(s);
  return Uint8Array.from(raw, (c) => c.charCodeAt(0));
}

/**
 * Standard base64 with padding.
 * @param {Uint8Array} bytes
 */
export const base64 = (bytes) => btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join(''));

/** @param {Uint8Array} bytes */
export const base64url = (bytes) =>
  base64(bytes).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');

/** @param {string} s */
export function unbase64url(s) {
  if (typeof s !== 'string' || !/^[A-Za-z0-9_-]*$/.test(s) || s.length % 4 === 1) throw new Error('not base64url');
  const bytes = fromBase64(s.replace(/-/g, '+').replace(/_/g, '/'));
  if (base64url(bytes) !== s) throw new Error('not canonical base64url');
  return bytes;
}

/**
 * Standard base64 with padding, in its only spelling.
 * @param {string} s
 */
export function unbase64(s) {
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(s) || s.length % 4) throw new Error('not base64');
  const bytes = fromBase64(s);
  if (base64(bytes) !== s) throw new Error('not canonical base64');
  return bytes;
}

/** @param {...Uint8Array} parts */
export function concat(...parts) {
  const out = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

/**
 * @param {Uint8Array} a
 * @param {Uint8Array} b
 */
export function equalBytes(a, b) {
  return a.length === b.length && a.every((v, i) => v === b[i]);
}

// The fixed head of a SubjectPublicKeyInfo that holds an Ed25519 key (RFC 8410 §4).
const SPKI_HEAD = unhex('302a300506032b6570032100');

/**
 * The SPKI DER of a raw 32-byte Ed25519 public key.
 * @param {Uint8Array} raw
 */
export function spki(raw) {
  const der = new Uint8Array(SPKI_HEAD.length + 32);
  der.set(SPKI_HEAD);
  der.set(raw, SPKI_HEAD.length);
  return der;
}

/**
 * A raw Ed25519 public key as attestd writes it in PEM.
 * @param {Uint8Array} raw
 */
export const pemOf = (raw) => `-----BEGIN PUBLIC KEY-----\n${base64(spki(raw))}\n-----END PUBLIC KEY-----\n`;

/**
 * The raw 32 bytes of an Ed25519 public key in SPKI PEM.
 * @param {string} pem
 */
export function rawKeyFromPEM(pem) {
  const m = /^\s*-----BEGIN PUBLIC KEY-----([A-Za-z0-9+/=\s]+)-----END PUBLIC KEY-----\s*$/.exec(pem);
  if (!m) throw new Error('not a PEM public key');
  const der = fromBase64(m[1].replace(/\s+/g, ''));
  if (der.length !== 44 || !equalBytes(der.subarray(0, 12), SPKI_HEAD)) throw new Error('not an Ed25519 public key');
  return der.slice(12);
}
