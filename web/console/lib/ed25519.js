// Ed25519 checks: the browser's own where it is there and works, else the vendored @noble/ed25519.
import { unhex } from './bytes.js';

// RFC 8032 §7.1, test 1: proves that an engine works before it is trusted.
const PROBE_KEY = unhex('d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a');
const PROBE_SIGNATURE = unhex(
  'e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b');

const webcrypto = {
  name: 'WebCrypto',
  key: (raw) => crypto.subtle.importKey('raw', raw, 'Ed25519', false, ['verify']),
  verify: (key, signature, message) => crypto.subtle.verify('Ed25519', key, signature, message),
};

async function nobleEngine() {
  const [ed, sha2] = await Promise.all([import('../vendor/noble/ed25519.js'), import('../vendor/noble/sha2.js')]);
  ed.hashes.sha512 = sha2.sha512;
  return {
    name: '@noble/ed25519',
    key: async (raw) => Uint8Array.from(raw),
    verify: async (key, signature, message) => {
      try {
        return ed.verify(signature, message, key, { zip215: false });
      } catch {
        return false; // not a point of the curve
      }
    },
  };
}

async function works(engine) {
  try {
    const key = await engine.key(PROBE_KEY);
    const wrong = PROBE_SIGNATURE.slice();
    wrong[0] ^= 1;
    return (await engine.verify(key, PROBE_SIGNATURE, new Uint8Array())) && !(await engine.verify(key, wrong, new Uint8Array()));
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

let chosen;
/** The engine in use, chosen and proved at the first call: {name, key(raw), verify(key, signature, message)}. */
export const engine = () => (chosen ??= choose());

/** The engine of a page that is not a secure context; exported so that it is tested on every machine. */
export const fallback = nobleEngine;

/** A key ready for verify, from its raw 32 bytes. */
export async function publicKey(raw) {
  if (raw.length !== 32) throw new Error('an Ed25519 key has 32 bytes');
  return (await engine()).key(raw);
}

export async function verify(key, signature, message) {
  if (signature.length !== 64) return false;
  return (await engine()).verify(key, signature, message);
}
