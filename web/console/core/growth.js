// Proves that the logs which the server shows have grown from all that this browser has seen of them.
import { hex } from '../lib/bytes.js';
import { grows } from '../lib/consistency.js';
import { FormError, hash, having, integer, list, oneOf, string } from '../lib/form.js';
import { nodeOfHex, readConsistency } from '../lib/log_tree.js';
import { nodeHash } from '../lib/merkle.js';
import { readCheckpoint } from '../lib/note.js';
import { call, callText, records } from './api.js';
import { headsOf, keepHead, rewrittenSince } from './heads.js';

const LOGS = ['actions', 'control'];

const logs = having({
  logs: list(having({ log: oneOf(...LOGS), logId: string, origin: string, vkeys: list(string), size: integer, merkleRoot: hash, root: hash })),
});
const proofForm = having({ proof: list(hash, 128) });

/** The logs of the company that is signed in, actions and then control, with their sizes and both roots of each, as the server says. */
export async function readLogs(options) {
  const { logs: all } = await call(logs, 'GET', '/v1/logs', options);
  if (all.map(({ log }) => log).join() !== LOGS.join()) throw new FormError('The server does not list the two logs of the company.');
  return all;
}

// The server's newest checkpoint and how it grew from a size. Who signed it matters nothing here: a history that was rewritten has no such proof at all.
async function logProof(now, from, options) {
  const { hashes, signed } = readConsistency(await callText('GET', `/v1/log/${now.logId}/consistency?from=${from}`, options), from);
  const { origin, size, root } = readCheckpoint(signed);
  if (origin !== now.origin) throw new FormError('The server’s proof of consistency is of another log.');
  return { to: Number(size), toRoot: hex(root), proof: hashes.map(hex) };
}

// Whether a kept head is the beginning of a log as the server shows it now: the proof is the server's, checking it is not. Returns a list of the head that
// the log tree's proof leads to, where that is not now's own, and null where there is no proof.
async function grownInto({ size: from, root, logRoot }, now, options) {
  if (from > now.size) return null;
  if (from === now.size) return (root ?? now.merkleRoot) === now.merkleRoot && (logRoot ?? now.root) === now.root ? [] : null;
  if (root !== undefined) {
    const { proof } = await call(proofForm, 'GET', `/v1/consistency?from=${from}&to=${now.size}&log=${now.log}`, options);
    if (!(await grows({ from, to: now.size, fromRoot: root, toRoot: now.merkleRoot, proof }, nodeHash))) return null;
  }
  if (logRoot === undefined) return [];
  const proven = await logProof(now, from, options);
  if (!(await grows({ from, fromRoot: logRoot, ...proven }, nodeOfHex))) return null;
  const { to: size, toRoot } = proven;
  if (size === now.size) return toRoot === now.root ? [] : null;
  return [{ size, logRoot: toRoot }]; // records came meanwhile, or the server signs a checkpoint now and then
}

// The shortest head that does not hold, {head, from}, with how many records are still what they were; all that are longer fail with it, if any does. Else
// {grown}: what grownInto says of each.
async function judge(entries, now, options) {
  const grown = [];
  for (const head of entries) {
    const into = await grownInto(head, now, options);
    if (!into) return { head, from: Math.max(0, ...grown.map((_, i) => entries[i].size)) };
    grown.push(into);
  }
  return { grown };
}

// What is proven to begin a longer one is proven with that one.
const due = (entries) => entries.filter(({ proven }, i) => !proven || i === entries.length - 1);

/**
 * Proves that all that was seen of a company's logs is the beginning of what the server shows now, and keeps that: returns the logs. What was
 * rewritten is in heads. Throws where the server does not answer: then nothing is known.
 */
export async function proveSince(key, options) {
  // Only what was seen before the server is asked can be no longer than what it answers.
  const before = LOGS.map((log) => headsOf(key, log));
  const shown = await readLogs(options);
  const judged = [];
  for (const [i, now] of shown.entries()) {
    judged.push(await judge(due(before[i]), now, options));
    if (!judged[i].head) continue;
    const first = await judge(before[i], now, options).catch(() => ({})); // what has failed once has failed
    const { head, from } = first.head ? first : judged[i];
    rewrittenSince(key, now.log, head, { from, now: now.size });
  }
  if (judged.some(({ head }) => head)) return shown;
  for (const [i, now] of shown.entries()) {
    const asked = due(before[i]);
    judged[i].grown.forEach((into, j) => into.forEach((one) => keepHead(key, { log: now.log, ...one, source: 'seen' }, [asked[j]])));
    keepHead(key, { log: now.log, size: now.size, root: now.merkleRoot, logRoot: now.root, source: 'seen' }, asked.filter((_, j) => !judged[i].grown[j].length));
  }
  return shown;
}

/** The first of some records, which stand in their order, that the server does not show any more as it was; undefined where there is none. */
export async function changedOf(held) {
  const [{ index: first }] = held;
  const hashes = new Map((await records(first, held.at(-1).index + 1 - first)).map(({ index, hash }) => [index, hash]));
  return held.find(({ index, hash }) => hashes.get(index) !== hash);
}
