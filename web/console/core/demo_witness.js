// @ts-check
// The witness of the demonstration: it cosigns checkpoints of the log of actions, each once it is
// proven that the log has only grown since the last one (c2sp.org/tlog-witness). Its key is made
// here, so it shows what a cosignature is, and proves nothing to others.
import { base64, concat, hex, utf8 } from '../lib/bytes.js';
import { grows } from '../lib/consistency.js';
import { newSigningKey } from '../lib/ed25519_sign.js';
import { FormError } from '../lib/form.js';
import { nodeOfHex, readConsistency } from '../lib/log_tree.js';
import { COSIGNER, LOG, must, noteKey, readCheckpoint, readVKey, signedBy } from '../lib/note.js';
import { callText } from './api.js';
import { readLogs } from './growth.js';

const NAME = 'witness.demo.example';

/**
 * Makes a witness, and resolves to a function that cosigns the newest checkpoint: {checkpoint,
 * vkey}, or null while the checkpoint does not cover all records. A server signs one at most once a
 * second.
 * @param {Record<string, string>} headers that sign in
 */
export async function cosigner(headers) {
  const key = await newSigningKey();
  const { id } = await noteKey(NAME, COSIGNER, key.raw);
  const vkey = `${NAME}+${hex(id)}+${base64(concat(Uint8Array.of(COSIGNER), key.raw))}`;
  const options = { headers, accept: 'text/plain' };
  let latest = { size: 0, root: '' };
  let log = (await readLogs({ headers }))[0];
  const signer = await readVKey(log.vkeys[0], LOG); // as it is when the witness is made
  return async () => {
    [log] = await readLogs({ headers });
    const path = `/v1/log/${log.logId}`;
    const { hashes, signed } = latest.size === 0
      ? { hashes: [], signed: await callText('GET', `${path}/checkpoint`, options) }
      : readConsistency(await callText('GET', `${path}/consistency?from=${latest.size}`, options), latest.size);
    const { origin, size, root, text, lines } = readCheckpoint(signed);
    const tree = { size: Number(size), root: hex(root) };
    const signs = await Promise.all(lines.map((line) => signedBy(line, text, signer)));
    must(origin === signer.name && signs.includes(true), 'the checkpoint is not signed by the log');
    if (tree.size < log.size) return null;
    const growth = { from: latest.size, to: tree.size, fromRoot: latest.root, toRoot: tree.root };
    if (!(await grows({ ...growth, proof: hashes.map(hex) }, nodeOfHex)))
      throw new FormError('The log has not grown from what the witness cosigned.');
    latest = tree;
    const time = BigInt(Math.floor(Date.now() / 1000));
    const signature = await key.sign(utf8(`cosignature/v1\ntime ${time}\n${text}`));
    const at = new Uint8Array(8);
    new DataView(at.buffer).setBigUint64(0, time);
    return { checkpoint: `${signed}— ${NAME} ${base64(concat(id, at, signature))}\n`, vkey };
  };
}
