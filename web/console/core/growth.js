// @ts-check
// Proves that the logs which the server shows have grown from all that this browser has seen of
// them.
import { hex } from '../lib/bytes.js';
import { grows } from '../lib/consistency.js';
import { FormError, hash, having, integer, list, oneOf, string } from '../lib/form.js';
import { nodeOfHex, readConsistency } from '../lib/log_tree.js';
import { nodeHash } from '../lib/merkle.js';
import { readCheckpoint } from '../lib/note.js';
import { call, callText, records } from './api.js';
import { NOTHING } from './asked.js';
import { openCheckpoint } from './checkpoint.js';
import { headsOf, pinHead, rewrittenSince } from './heads.js';

/** @type {LogName[]} */
const LOGS = ['actions', 'control'];

const logs = having({
  logs: list(
    having({
      log: oneOf(...LOGS),
      logId: string,
      origin: string,
      vkeys: list(string),
      size: integer,
      merkleRoot: hash,
      root: hash,
    }),
  ),
});
const proofForm = having({ from: integer, to: integer, proof: list(hash, 128) });

/**
 * The logs of the company that is signed in, actions and then control, with their sizes and both
 * roots of each, as the server says.
 * @param {CallOptions} [options]
 * @returns {Promise<ServiceLog[]>}
 */
export async function readLogs(options) {
  const { logs: all } = await call(logs, 'GET', '/v1/logs',
    { ...options, asked: NOTHING }); // their names are compared below
  if (all.map(({ log }) => log).join() !== LOGS.join())
    throw new FormError('The server does not list the two logs of the company.');
  return all;
}

/**
 * The server's newest checkpoint and how it grew from a size. A history that was rewritten has no
 * such proof at all, by any signer.
 * @param {ServiceLog} now
 * @param {number} from
 * @param {CallOptions} [options]
 */
async function logProof(now, from, options) {
  const { hashes, signed } = readConsistency(
    await callText('GET', `/v1/log/${now.logId}/consistency?from=${from}`, options),
    from,
  );
  const { origin, size, root } = readCheckpoint(signed);
  if (origin !== now.origin) throw new FormError('The server’s proof of consistency is of another log.');
  return { to: Number(size), toRoot: hex(root), proof: hashes.map(hex), signed };
}

/**
 * The head in the text of a checkpoint, null where no key of the company has signed it: then
 * the answering server may have made it up.
 * @param {string} signed
 * @param {ServiceLog} now
 * @param {CompanyKey} key
 * @returns {Promise<NewHead | null>}
 */
async function signedHead(signed, now, key) {
  try {
    const { size, root } = await openCheckpoint(signed, now.origin, key);
    return { log: now.log, size: Number(size), logRoot: hex(root), source: 'seen' };
  } catch {
    return null;
  }
}

/**
 * Whether a stored head is the beginning of a log as the server shows it now: the proof is the
 * server's, checking it is not. Returns a list of the text of the checkpoint that the log tree's
 * proof leads to, if one was asked for, and null where there is no proof.
 * @param {Head} head
 * @param {ServiceLog} now
 * @param {CallOptions} [options]
 */
async function grownInto({ size: from, root, logRoot }, now, options) {
  if (from > now.size) return null;
  if (from === now.size)
    return (root ?? now.merkleRoot) === now.merkleRoot && (logRoot ?? now.root) === now.root ? [] : null;
  if (root !== undefined) {
    const { proof } = await call(proofForm, 'GET', `/v1/consistency?from=${from}&to=${now.size}&log=${now.log}`, {
      ...options,
      asked: { from, to: now.size },
    });
    if (!(await grows({ from, to: now.size, fromRoot: root, toRoot: now.merkleRoot, proof }, nodeHash))) return null;
  }
  if (logRoot === undefined) return [];
  const { signed, ...proven } = await logProof(now, from, options);
  if (!(await grows({ from, fromRoot: logRoot, ...proven }, nodeOfHex))) return null;
  return proven.to === now.size && proven.toRoot !== now.root ? null
    : [signed]; // of another size where records came meanwhile
}

/**
 * The shortest head that does not hold, {head, from}, with how many records are still what they
 * were; all that are longer fail with it, if any does. Else {grown}: what grownInto says of each.
 * @param {KeptHead[]} entries
 * @param {ServiceLog} now
 * @param {CallOptions} [options]
 * @returns {Promise<Inconsistent>}
 */
async function firstInconsistent(entries, now, options) {
  const grown = [];
  for (const head of entries) {
    const into = await grownInto(head, now, options);
    if (!into) return { head, from: Math.max(0, ...grown.map((_, i) => entries[i].size)) };
    grown.push(into);
  }
  return { grown };
}

/**
 * What is proven to begin a longer one is proven with that one.
 * @param {KeptHead[]} entries
 */
const due = (entries) => entries.filter(({ proven }, i) => !proven || i === entries.length - 1);

/**
 * Proves that all that was seen of a company's logs is the beginning of what the server shows now,
 * and keeps the checkpoints that a key of the company has signed: returns the logs. What is only
 * said of them is not kept, for an honest server would be held to it later. What was rewritten is
 * in heads. Throws where the server does not answer: then nothing is known.
 * @param {CompanyKey} key
 * @param {CallOptions} [options]
 */
export async function proveSince(key, options) {
  // Only what was seen before the server is asked can be no longer than what it answers.
  const before = LOGS.map((log) => headsOf(key, log));
  const shown = await readLogs(options);
  const judged = [];
  for (const [i, now] of shown.entries()) {
    judged.push(await firstInconsistent(due(before[i]), now, options));
    if (!judged[i].head) continue;
    // What has failed once has failed.
    const first = await firstInconsistent(before[i], now, options).catch(() => null);
    const { head, from } = first?.head ? first : judged[i];
    rewrittenSince(key, now.log, head, { from, now: now.size });
  }
  if (judged.some(({ head }) => head)) return shown;
  for (const [i, now] of shown.entries()) {
    for (const [j, head] of due(before[i]).entries()) {
      for (const signed of judged[i].grown?.[j] ?? []) {
        const grown = await signedHead(signed, now, key);
        if (grown) pinHead(key, grown, [head]);
      }
    }
    if (now.size > 0 && !before[i].some(({ logRoot }) => logRoot)) {
      const first = await signedHead(
        await callText('GET', `/v1/log/${now.logId}/checkpoint`, { accept: 'text/plain', ...options }),
        now,
        key,
      );
      if (first) pinHead(key, first);
    }
  }
  return shown;
}

/**
 * The first of some records, which stand in their order, that the server does not show any more as
 * it was; undefined where there is none.
 * @param {{index: number, hash: string}[]} held
 */
export async function changedOf(held) {
  const [{ index: first }] = held;
  const now = await records(first, held[held.length - 1].index + 1 - first);
  const hashes = new Map(now.map(({ index, hash }) => [index, hash]));
  return held.find(({ index, hash }) => hashes.get(index) !== hash);
}
