// @ts-check
// Keys, signatures and policies in the forms of C2SP: signed notes, cosignatures, tlog-proofs,
// tlog-policy. Package tlog is their specification.
import { concat, hex, equalBytes, unbase64, unhex, utf8 } from './bytes.js';
import { publicKey, verify } from './ed25519.js';
import { FormError } from './form.js';
import { sha256 } from './sha256.js';

export const LOG = 0x01;
export const COSIGNER = 0x04;
const LARGEST_TREE = BigInt(Number.MAX_SAFE_INTEGER);

/**
 * Throws a FormError with the reason where something does not hold.
 * @param {unknown} holds
 * @param {string} reason
 * @returns {asserts holds}
 */
export function must(holds, reason) {
  if (!holds) throw new FormError(reason);
}

/**
 * Whether a name may stand in a signature line.
 * @param {string} name
 */
export const isName = (name) =>
  name !== '' &&
  utf8(name).length <= 255 &&
  // Eslint-disable-line no-control-regex.
  !/[\0-\x20+\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/.test(name);

/**
 * @param {string} name
 * @param {number} type
 * @param {Bytes} raw
 */
const keyID = async (name, type, raw) =>
  (await sha256(concat(utf8(`${name}\n`), Uint8Array.of(type), raw))).slice(0, 4);

/**
 * A key that may sign notes: {name, raw, id, prepared}.
 * @param {string} name
 * @param {number} type
 * @param {Bytes} raw
 * @returns {Promise<NoteKey>}
 */
export const noteKey = async (name, type, raw) => ({
  name,
  raw,
  id: await keyID(name, type, raw),
  prepared: await publicKey(raw),
});

/**
 * Reads a vkey of a type: {vkey, name, raw, id, prepared}.
 * @param {string} vkey
 * @param {number} type
 * @returns {Promise<NoteKey & {vkey: string}>}
 */
export async function readVKey(vkey, type) {
  const [name, tag, ...rest] = vkey.split('+');
  const key = unbase64(rest.join('+'));
  must(isName(name) && key.length === 33 && key[0] === type, 'not a vkey of this kind');
  const read = await noteKey(name, type, key.slice(1));
  must(hex(read.id) === tag, 'the key ID of a vkey is not that of its key');
  return { vkey, ...read };
}

/**
 * The lines below a checkpoint, [{name, id, blob}].
 * @param {string} text
 * @returns {NoteLine[]}
 */
export function signatureLines(text) {
  must(text.endsWith('\n'), 'a signed note ends in a line break');
  return text
    .slice(0, -1)
    .split('\n')
    .map((line) => {
      const [dash, name, base64, ...rest] = line.split(' ');
      must(
        dash === '—' && base64 !== undefined && !rest.length && isName(name),
        'a line below a checkpoint is no signature',
      );
      const blob = unbase64(base64);
      must(blob.length > 4, 'a signature is missing');
      return { name, id: blob.slice(0, 4), blob: blob.slice(4) };
    });
}

/**
 * @param {NoteLine} line
 * @param {NoteKey} key
 */
const claims = (line, key) => line.name === key.name && equalBytes(line.id, key.id);

/**
 * Whether a line is the signature of a key of a log over the text of a checkpoint.
 * @param {NoteLine} line
 * @param {string} text
 * @param {NoteKey} key
 */
export const signedBy = async (line, text, key) => claims(line, key) && verify(key.prepared, line.blob, utf8(text));

/**
 * Whose of some witnesses' a line is, and when it was made: {witness, time}, or null. Throws where
 * it says that it is of one of them and does not verify.
 * @template {NoteKey} W
 * @param {NoteLine} line
 * @param {string} text
 * @param {W[]} witnesses
 */
export async function cosignature(line, text, witnesses) {
  const claimed = witnesses.filter((witness) => claims(line, witness));
  if (!claimed.length) return null;
  const time = BigInt(`0x${hex(line.blob.slice(0, 8)) || 0}`);
  for (const witness of line.blob.length === 72 && time > 0n && time < 1n << 63n ? claimed : []) {
    if (await verify(witness.prepared, line.blob.slice(8), utf8(`cosignature/v1\ntime ${time}\n${text}`)))
      return { witness, time };
  }
  throw new FormError(`the cosignature of ${line.name} does not verify`);
}

/**
 * Reads a signed checkpoint: {origin, size, root, text, lines}; size is a BigInt. Signatures are
 * not checked.
 * @param {string} signed
 * @returns {Checkpoint}
 */
export function readCheckpoint(signed) {
  const [head, below, ...more] = signed.split('\n\n');
  const [origin, size, root, ...rest] = head.split('\n');
  must(below !== undefined && !more.length && root !== undefined && !rest.length && isName(origin), 'not a checkpoint');
  must(/^(0|[1-9][0-9]{0,18})$/.test(size) && BigInt(size) <= LARGEST_TREE, 'the size in a checkpoint is no number');
  const checkpoint = {
    origin,
    size: BigInt(size),
    root: unbase64(root),
    text: `${head}\n`,
    lines: signatureLines(below),
  };
  must(checkpoint.root.length === 32, 'the log root in a checkpoint is no hash');
  return checkpoint;
}

/**
 * Reads a tlog-proof of a record: {hashes, signed}, with the text of its checkpoint.
 * @param {string} text
 * @param {number} index
 */
export function readProof(text, index) {
  const cut = text.indexOf('\n\n');
  must(cut >= 0, 'not a tlog-proof');
  const [version, at, ...lines] = text.slice(0, cut).split('\n');
  must(version === 'c2sp.org/tlog-proof@v1' && at === `index ${index}`, `not a tlog-proof of record ${index}`);
  const hashes = lines.map(unbase64);
  must(hashes.length <= 60 && hashes.every(({ length }) => length === 32), 'a tlog-proof has hashes that are none');
  return { hashes, signed: text.slice(cut + 2) };
}

/**
 * The hash of the leaf of a record: of its hash, its signature, and the raw key that made that.
 * @param {string} hash
 * @param {Bytes} signature
 * @param {Bytes} raw
 */
export const leafHash = async (hash, signature, raw) =>
  sha256(concat(Uint8Array.of(0), unhex(hash), signature, await sha256(raw)));

/**
 * Whether hashes lead from a leaf to the root of a checkpoint (RFC 9162 §2.1.3.2).
 * @param {Bytes[]} hashes
 * @param {Bytes} leaf
 * @param {number} index
 * @param {{size: bigint, root: Bytes}} checkpoint
 */
export async function leads(hashes, leaf, index, { size, root }) {
  let at = BigInt(index);
  let last = size - 1n;
  let node = leaf;
  if (at > last) return false;
  for (const sibling of hashes) {
    if (last === 0n) return false;
    const onTheLeft = Boolean(at & 1n) || at === last;
    node = await sha256(concat(Uint8Array.of(1), ...(onTheLeft ? [sibling, node] : [node, sibling])));
    for (; onTheLeft && at > 0n && !(at & 1n); last >>= 1n) at >>= 1n;
    at >>= 1n;
    last >>= 1n;
  }
  return last === 0n && equalBytes(node, root);
}
