// @ts-check
// SHA-512: the browser's own where the page is a secure context, else the vendored @noble/hashes.
const subtle = globalThis.crypto?.subtle;

/**
 * The 64-byte digest of bytes.
 * @param {Bytes} bytes
 */
export async function sha512(bytes) {
  if (subtle) return new Uint8Array(await subtle.digest('SHA-512', bytes));
  return (await import('../vendor/noble/sha2.js')).sha512(bytes);
}
