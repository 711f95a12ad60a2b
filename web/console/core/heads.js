// What this browser has seen of each log: lengths and roots, kept beyond the page. A chain only ever grows, so each of them must be the beginning of
// what the server shows later. Where it is not, the history was rewritten, whatever the server says of itself.
import { hex } from '../lib/bytes.js';
import { grows } from '../lib/consistency.js';
import { FormError, exactly, hash, having, integer, list, oneOf, read, string, timestamp } from '../lib/form.js';
import { nodeOfHex, readConsistency } from '../lib/log_tree.js';
import { nodeHash } from '../lib/merkle.js';
import { readCheckpoint } from '../lib/note.js';
import { call, callText } from './api.js';
import { store } from './store.js';

const NAME = 'attestd.heads';
const KEPT = 24; // for each log; between them the place of a change is found

const head = exactly(
  { companyId: string, fingerprint: string, log: oneOf('actions', 'control'), size: integer, at: timestamp, source: oneOf('seen', 'checked', 'checkpoint') },
  { root: hash, logRoot: hash },
);
const logs = having({
  logs: list(having({ log: oneOf('actions', 'control'), logId: string, origin: string, vkeys: list(string), size: integer, merkleRoot: hash, root: hash })),
});
const proofForm = having({ proof: list(hash, 128) });

/** The logs of the company that is signed in, with their sizes and both roots of each, as the server says. */
export const readLogs = async () => (await call(logs, 'GET', '/v1/logs')).logs;

/**
 * rewritten: null, or what no longer holds, {companyId, log, size, at, source, now, from}: at that time the log had so many records that are not
 * the beginning of the now records that the server shows. Those before from still are.
 */
export const heads = store({ rewritten: null });

function restored() {
  try {
    return read(list(head), localStorage.getItem(NAME) ?? '[]', 'heads');
  } catch {
    return []; // no storage, or not what was put there
  }
}

let kept = restored();

function put(entries) {
  kept = entries;
  try {
    localStorage.setItem(NAME, JSON.stringify(kept));
  } catch { /* it then lasts as long as the page */ }
}

addEventListener('storage', ({ key }) => { if (key === NAME) kept = restored(); });

/** The first key of a company names its logs: the later ones are proven to follow. */
const firstOf = (key) => (key.ring?.[0] ?? key).fingerprint;

const sameLog = (a, b) => a.companyId === b.companyId && a.fingerprint === b.fingerprint && a.log === b.log;

// Of too many, that one goes whose neighbours are nearest to each other: what stays is spread over the whole length.
function thinned(entries) {
  if (entries.length <= KEPT) return entries;
  let least = 1;
  for (let i = 2; i < entries.length - 1; i++) {
    if (entries[i + 1].size - entries[i - 1].size < entries[least + 1].size - entries[least - 1].size) least = i;
  }
  return entries.toSpliced(least, 1);
}

/** Keeps a head: {companyId, fingerprint, log, size, root or logRoot, source}; fingerprint is of the company's first key. An empty log says nothing. */
export function keepHead({ at = new Date().toISOString(), ...given }) {
  if (given.size === 0) return;
  const entry = { ...given, at };
  const others = kept.filter((e) => !sameLog(e, entry));
  const own = kept.filter((e) => sameLog(e, entry));
  const known = own.find((e) => e.size === entry.size && e.root === entry.root && e.logRoot === entry.logRoot);
  if (known) { // what was checked, or stands in a file, is more than what was seen; the first time stays
    if (known.source === 'seen' && entry.source !== 'seen') put([...others, ...own.map((e) => (e === known ? { ...known, source: entry.source } : e))]);
    return;
  }
  put([...others, ...thinned([...own, entry].sort((a, b) => a.size - b.size))]);
}

/** Keeps what was seen or checked of a company's log in the specification's tree. */
export const keepRoot = (key, log, size, root, source) => keepHead({ companyId: key.companyId, fingerprint: firstOf(key), log, size, root, source });

/** Keeps what was checked of a company's log, and the beginnings of it, by which the place of a later change is found. */
export async function keepChecked(key, log, frontier) {
  for (const { size, root } of await frontier.beginnings()) keepRoot(key, log, size, root, 'checked');
}

/** The heads that are kept of a company's log, the shortest first. */
export const headsOf = (key, log) => kept.filter((e) => sameLog(e, { companyId: key.companyId, fingerprint: firstOf(key), log }));

// The server's newest checkpoint and how it grew from a size. Who signed it matters nothing here: a history that was rewritten has no such proof at all.
async function logProof(now, from) {
  const { hashes, signed } = readConsistency(await callText('GET', `/v1/log/${now.logId}/consistency?from=${from}`), from);
  const { origin, size, root } = readCheckpoint(signed);
  if (origin !== now.origin) throw new FormError('The server’s proof of consistency is of another log.');
  return { to: Number(size), toRoot: hex(root), proof: hashes.map(hex) };
}

/** Whether a kept head is the beginning of a log as the server shows it now: the proof is the server's, checking it is not. */
export async function isBeginning({ size: from, root, logRoot }, now) {
  if (from > now.size) return false;
  if (logRoot !== undefined) return grows({ from, fromRoot: logRoot, ...(await logProof(now, from)) }, nodeOfHex);
  const { proof } = await call(proofForm, 'GET', `/v1/consistency?from=${from}&to=${now.size}&log=${now.log}`);
  return grows({ from, to: now.size, fromRoot: root, toRoot: now.merkleRoot, proof }, nodeHash);
}

// The shortest head that does not hold, and how many records are still what they were. All that are longer fail with it, if any does.
async function firstThatFails(entries, now) {
  let from = 0;
  for (const entry of entries) {
    if (!(await isBeginning(entry, now))) return { ...entry, from };
    from = Math.max(from, entry.size);
  }
  return null;
}

/**
 * Proves that all that was seen of a company's logs is the beginning of what the server shows now, and keeps that: returns the logs. What was
 * rewritten is in heads. Throws where the server does not answer: then nothing is known.
 */
export async function proveSince(key) {
  const shown = await readLogs();
  for (const now of shown) {
    const own = headsOf(key, now.log);
    // The newest was proven to come after those that were seen before it; files came in between.
    const telling = own.filter((e, i) => i === own.length - 1 || e.source === 'checkpoint');
    const failed = (await firstThatFails(telling, now)) && (await firstThatFails(own, now));
    if (failed) {
      heads.set({ rewritten: { companyId: key.companyId, log: now.log, size: failed.size, at: failed.at, source: failed.source, from: failed.from, now: now.size } });
      return shown;
    }
  }
  for (const now of shown) keepRoot(key, now.log, now.size, now.merkleRoot, 'seen');
  if (heads.get().rewritten) heads.set({ rewritten: null });
  return shown;
}

/** Says that records which this page holds are not what the server shows now. */
export const rewrittenHere = (key, { size, from, now, at }) =>
  heads.set({ rewritten: { companyId: key.companyId, log: 'actions', size, at, source: 'checked', from, now } });

/** Forgets what was seen of a log that was rewritten: for who knows why. What is shown from now on is remembered anew. */
export function forgetHeads({ companyId, log }) {
  put(kept.filter((e) => e.companyId !== companyId || e.log !== log));
  heads.set({ rewritten: null });
}

