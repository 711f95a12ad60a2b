// @ts-check
// The two logs of the company that is signed in: how long they are, which keys sign them, and the
// checkpoints that the server gives of them.
import { equalBytes, hex } from '../lib/bytes.js';
import { grows } from '../lib/consistency.js';
import { FormError } from '../lib/form.js';
import { follows } from '../lib/keyring.js';
import { nodeOfHex, readConsistency } from '../lib/log_tree.js';
import { must } from '../lib/note.js';
import { callText } from './api.js';
import { openCheckpoint } from './checkpoint.js';
import { readLogs } from './growth.js';
import { pinHead } from './heads.js';
import { signedIn } from './session.js';

/**
 * Both logs as the server says they are: {actions, control}, each {log, logId, origin, vkeys, size,
 * merkleRoot, root}.
 */
export async function bothLogs() {
  const logs = await readLogs();
  const [actions, control] = logs;
  must(actions.origin !== control.origin, 'The server names both logs by one origin.');
  for (const { origin, logId } of logs)
    must(
      /^[0-9a-f]{32}$/.test(logId) && origin.endsWith(`/v1/log/${logId}`),
      'The server names another log by its origin than by its ID.',
    );
  return { actions, control };
}

/** @type {WeakMap<ServiceKey, Promise<CompanyKey>>} */
const rings = new WeakMap(); // by the key of a session

/**
 * The key that control records are checked with: the company's keys as they follow one another in
 * that log, where each has a first index of its own. key is that of the session, which vouches for
 * each of them; throws where one does not follow from the one before it.
 * @param {ServiceKey} [key]
 */
export async function controlKey(key = signedIn().key) {
  const known = rings.get(key) ?? ringOf(key).catch((err) => { rings.delete(key); throw err; });
  rings.set(key, known);
  return known;
}

/**
 * @param {ServiceKey} key
 * @returns {Promise<CompanyKey>}
 */
async function ringOf(key) {
  const { controlLog: log, ring = [key] } = key;
  if (!log?.keys.length) throw new FormError('The server does not say which keys sign the control log.');
  const keys = log.keys.map(({ kid, fromIndex, rotation }, i) => {
    const known = ring[ring.length - log.keys.length + i];
    if (known?.kid !== kid)
      throw new FormError(`Key ${kid} of the control log is not the one that the company had then.`);
    return { ...known, fromIndex, rotation };
  });
  if (keys[0].fromIndex !== 0) throw new FormError('The first key of the control log is missing.');
  for (let i = 1; i < keys.length; i++) {
    if (!(await follows(log.origin, keys[i - 1], keys[i])))
      throw new FormError(`Nothing proves that key ${keys[i].kid} follows key ${keys[i - 1].kid} in the control log.`);
  }
  // Keys that ended before the log began have signed none of its records, and vouch for those that
  // did.
  const earlier = ring.slice(0, -keys.length).map((one) => ({ ...one, fromIndex: Infinity }));
  return { ...key, ...keys.at(-1), origin: log.origin, ring: [...earlier, ...keys] };
}

/**
 * The newest checkpoint that the server gives of a log, as openCheckpoint reads it.
 * @param {{logId: string, origin: string}} log
 * @param {CompanyKey} key
 * @param {CallOptions} [options]
 */
export const newestCheckpoint = async (log, key, options) =>
  openCheckpoint(
    await callText('GET', `/v1/log/${log.logId}/checkpoint`, { accept: 'text/plain', ...options }),
    log.origin,
    key,
  );

/**
 * Whether the newest checkpoint of a log follows from an older one, {size, root}, by a proof that
 * is checked here: {ok, reason, newest}. A server that has fewer records than the older one cannot
 * prove it.
 * @param {{size: bigint, root: Bytes}} older
 * @param {{logId: string, origin: string}} log
 * @param {CompanyKey} key
 * @param {CallOptions} [options]
 */
export async function follow(older, log, key, options) {
  const newest = await newestCheckpoint(log, key, options);
  if (older.size > newest.size) return { ok: false, reason: 'shorter', newest };
  if (older.size === newest.size) return { ok: equalBytes(older.root, newest.root), reason: 'rewritten', newest };
  const { hashes, signed } = readConsistency(
    await callText('GET', `/v1/log/${log.logId}/consistency?from=${older.size}`, { accept: 'text/plain', ...options }),
    older.size,
  );
  const then = await openCheckpoint(signed, log.origin, key);
  const ok = await grows(
    {
      from: Number(older.size),
      to: Number(then.size),
      fromRoot: hex(older.root),
      toRoot: hex(then.root),
      proof: hashes.map(hex),
    },
    nodeOfHex,
  );
  return { ok, reason: 'rewritten', newest: then };
}

/**
 * Remembers a checkpoint of a log that a key of the company has signed: what the server shows later
 * must have grown from it.
 * @param {NamedKey} key
 * @param {LogName} log
 * @param {{size: bigint, root: Bytes}} checkpoint
 * @param {HeadSource} [source]
 */
export const pinCheckpoint = (key, log, { size, root }, source = 'checkpoint') =>
  pinHead(key, { log, size: Number(size), logRoot: hex(root), source });
