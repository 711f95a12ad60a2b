// @ts-check
// Ed25519 keys that are made in this page: the browser's own where it has them, whose private part
// no script can read, else those of the vendored @noble/ed25519.
import { sha512 } from './sha512.js';

/** @returns {Promise<KeyPair>} */
async function webcryptoKey() {
  const pair = /** @type {CryptoKeyPair} */ (await crypto.subtle.generateKey('Ed25519', false, ['sign', 'verify']));
  return {
    raw: new Uint8Array(await crypto.subtle.exportKey('raw', pair.publicKey)),
    sign: async (message) => new Uint8Array(await crypto.subtle.sign('Ed25519', pair.privateKey, message)),
  };
}

/** @returns {Promise<KeyPair>} */
async function nobleKey() {
  const noble = await import('../vendor/noble/ed25519.js');
  noble.hashes.sha512Async = sha512;
  const { secretKey, publicKey } = await noble.keygenAsync();
  return {
    raw: Uint8Array.from(publicKey),
    sign: async (message) => Uint8Array.from(await noble.signAsync(message, secretKey)),
  };
}

/** That of a page that is not a secure context; exported so that it is tested on every machine. */
export const fallback = nobleKey;

/** A new key pair: its public part as 32 raw bytes, and sign(message), which gives 64 bytes. */
export const newSigningKey = async () =>
  globalThis.crypto?.subtle ? webcryptoKey().catch(nobleKey) : nobleKey();
