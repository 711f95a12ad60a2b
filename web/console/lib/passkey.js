// @ts-check
// Passkeys: their keys in COSE, and what one has signed. Package passkey is the specification.
import { base64url, concat, hex, text as utf8Text, unhex, utf8 } from './bytes.js';
import { isOdd, publicKey, verify } from './ed25519.js';
import { FormError, having, onlyFalse, oneOf, string } from './form.js';
import { lossless } from './jcs.js';
import { member, parse } from './json.js';
import { must } from './note.js';
import { sha256 } from './sha256.js';

const [LONGEST_CLIENT_DATA, LONGEST_DATA, LONGEST_SIGNATURE] = [4096, 1024, 512]; // bytes
const DEEPEST = 9; // of clientDataJSON
const SHORTEST = 37; // authenticatorData
// of authenticatorData: UP and UV, BE, BS, AT and ED
const [PRESENT, ELIGIBLE, BACKED_UP, ATTESTED, EXTENDED] = [0x05, 0x08, 0x10, 0x40, 0x80];

const P256_SPKI = '3059301306072a8648ce3d020106082a8648ce3d030107034200';
const ED25519_SPKI = '302a300506032b6570032100';
const RSA_OID = '300d06092a864886f70d0101010500'; // rsaEncryption, with its parameters
const RSA_EXPONENT = '0203010001';

const needsWebCrypto = () =>
  must(globalThis.crypto?.subtle, 'this browser checks ES256 and RS256 only in pages from https, localhost or disk');

/**
 * A DER element.
 * @param {number} tag
 * @param {Bytes} content
 */
function der(tag, content) {
  const { length } = content;
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return concat(Uint8Array.of(tag, ...size), content);
}

/**
 * r and s of a signature of P-256, each in 32 bytes; undefined for what is not in the one spelling
 * of DER.
 * @param {Bytes} signature
 */
export function rawSignature(signature) {
  if (signature.length > 72 || signature[0] !== 0x30 || signature[1] !== signature.length - 2) return undefined;
  const raw = new Uint8Array(64);
  let at = 2;
  for (const end of [32, 64]) {
    const length = signature[at + 1];
    const from = at + 2;
    at = from + length;
    if (signature[from - 2] !== 0x02 || !(length > 0 && length <= 33) || at > signature.length) return undefined;
    const [first, next] = signature.subarray(from, at);
    if (first >= 0x80 || (first === 0 && !(length > 1 && next >= 0x80)) || (length === 33 && first !== 0))
      return undefined;
    const number = signature.subarray(first === 0 ? from + 1 : from, at);
    raw.set(number, end - number.length);
  }
  return at === signature.length ? raw : undefined;
}

/**
 * @param {string} x
 * @param {string} y
 */
async function ofES256(x, y) {
  needsWebCrypto();
  const point = unhex(`04${x}${y}`);
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
  const key = await crypto.subtle.importKey('raw', point, algorithm, false, ['verify']);
  return {
    algorithm: -7,
    spki: concat(unhex(P256_SPKI), point),
    /** @type {(signature: Bytes, message: Bytes) => Promise<boolean>} */
    verify: async (signature, message) => {
      const raw = rawSignature(signature);
      return raw !== undefined && crypto.subtle.verify(algorithm, key, raw, message);
    },
  };
}

/** @param {string} x */
async function ofEdDSA(x) {
  const raw = unhex(x);
  must(!isOdd(raw), 'a key for which everybody can sign, or in another spelling');
  const key = await publicKey(raw);
  return {
    algorithm: -8,
    spki: concat(unhex(ED25519_SPKI), raw),
    /** @type {(signature: Bytes, message: Bytes) => Promise<boolean>} */
    verify: (signature, message) => verify(key, signature, message),
  };
}

/**
 * @param {string} size
 * @param {string} modulus
 */
async function ofRS256(size, modulus) {
  needsWebCrypto();
  const n = unhex(modulus);
  const { length } = n;
  must(length === parseInt(size, 16) && length >= 256 && length <= 512 && n[0] >= 0x80 && n[length - 1] % 2 === 1,
    'not an RSA key of 2048 to 4096 bits');
  const numbers = der(0x30, concat(der(0x02, concat(Uint8Array.of(0), n)), unhex(RSA_EXPONENT)));
  const spki = der(0x30, concat(unhex(RSA_OID), der(0x03, concat(Uint8Array.of(0), numbers))));
  const algorithm = { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' };
  const key = await crypto.subtle.importKey('spki', spki, algorithm, false, ['verify']);
  return {
    algorithm: -257,
    spki,
    /** @type {(signature: Bytes, message: Bytes) => Promise<boolean>} */
    verify: async (signature, message) =>
      signature.length === length && crypto.subtle.verify(algorithm, key, signature, message),
  };
}

/** @param {string} cose in hex */
function keyOf(cose) {
  const es256 = /^a5010203262001215820([0-9a-f]{64})225820([0-9a-f]{64})$/.exec(cose);
  if (es256) return ofES256(es256[1], es256[2]);
  const eddsa = /^a4010103272006215820([0-9a-f]{64})$/.exec(cose);
  if (eddsa) return ofEdDSA(eddsa[1]);
  const rs256 = /^a40103033901002059([0-9a-f]{4})((?:[0-9a-f]{2})+)2143010001$/.exec(cose);
  if (rs256) return ofRS256(rs256[1], rs256[2]);
  throw new Error('no COSE key of ES256, EdDSA (Ed25519) or RS256 in canonical form');
}

/**
 * The key of a passkey, from its canonical COSE form, with its fingerprint.
 * @param {Bytes} cose
 */
export async function passkey(cose) {
  const key = await keyOf(hex(cose));
  return { ...key, fingerprint: `SHA256:${base64url(await sha256(key.spki))}` };
}

const clientDataForm = having(
  { type: oneOf('webauthn.get'), challenge: string, origin: string },
  { crossOrigin: onlyFalse },
);

/**
 * Requires that a passkey has signed a challenge, on a page that is its relying party, and returns
 * that page.
 * @param {{authenticatorData: Bytes, clientDataJSON: Bytes, signature: Bytes}} assertion
 * @param {{verify: (signature: Bytes, message: Bytes) => Promise<boolean>}} key
 * @param {Bytes} challenge
 */
export async function checkAssertion({ authenticatorData: data, clientDataJSON, signature }, key, challenge) {
  must(clientDataJSON.length <= LONGEST_CLIENT_DATA && signature.length <= LONGEST_SIGNATURE, 'it is too long');
  const text = utf8Text(clientDataJSON);
  const node = parse(text, DEEPEST);
  lossless(node);
  const client = clientDataForm(node, text, 'clientDataJSON');
  if (member(node, 'topOrigin')) throw new FormError('another page had the passkey asked for in a frame');
  must(client.challenge === base64url(challenge), 'the challenge is another one');
  const page = /^(?:https:\/\/([a-z0-9.-]{1,253})|http:\/\/(localhost))(?::[0-9]{1,5})?$/.exec(client.origin);
  must(page, 'origin is no page of a relying party');
  const relyingParty = hex(await sha256(utf8(page[1] ?? page[2])));
  must(data.length >= SHORTEST && data.length <= LONGEST_DATA && hex(data.subarray(0, 32)) === relyingParty,
    'rpIdHash is that of another relying party');
  const flags = data[32];
  must((flags & PRESENT) === PRESENT, 'the person was not there, or not verified');
  must(!(flags & BACKED_UP) || flags & ELIGIBLE, 'the flag BS is there without BE');
  must(!(flags & ATTESTED) && data.length > SHORTEST === Boolean(flags & EXTENDED),
    'authenticatorData is that of an enrolment, or of another length than it says');
  must(await key.verify(signature, concat(data, await sha256(clientDataJSON))),
    'the signature is not that of the passkey');
  return client.origin;
}
