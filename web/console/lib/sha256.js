// @ts-check
// SHA-256: the browser's own where the page is a secure context, else the vendored @noble/hashes.
import { hex, utf8 } from './bytes.js';

const subtle = globalThis.crypto?.subtle;
let noble;

/**
 * The 32-byte digest of bytes.
 * @param {Bytes} bytes
 */
export async function sha256(bytes) {
  if (subtle) return new Uint8Array(await subtle.digest('SHA-256', bytes));
  noble ??= import('../vendor/noble/sha2.js');
  return (await noble).sha256(bytes);
}

/**
 * The digest, in lower-case hex, of the UTF-8 form of a text.
 * @param {string} text
 */
export const sha256hex = async (text) => hex(await sha256(utf8(text)));
