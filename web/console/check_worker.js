// @ts-check
// Checks records for the sender of their texts: the page, or the worker that reads a whole chain.
import { unbase64url } from './lib/bytes.js';
import { engine, publicKey } from './lib/ed25519.js';
import { keyAt } from './lib/keyring.js';
import { leafHash } from './lib/note.js';
import { checkRecord, parseRecordOf } from './lib/record.js';

/** @type {{name: string, key?: RecordKey}} */
let ring = { name: '' }; // of the key that came last

/** @param {PlainKey} key */
async function ringOf({ companyId, keys }) {
  const name = JSON.stringify([companyId, keys.map(({ raw, fromIndex }) => [[...raw], fromIndex])]);
  if (!ring.key || ring.name !== name) {
    const prepared = await Promise.all(
      keys.map(async ({ raw, fromIndex }) => ({ raw, fromIndex, prepared: await publicKey(raw) })),
    );
    const key = { companyId, ...prepared[prepared.length - 1], ring: prepared };
    ring = { name, key };
    return key;
  }
  return ring.key;
}

/**
 * @param {string} text
 * @param {LogName} log
 * @param {RecordKey} key
 * @returns {Promise<WorkerResult>}
 */
async function check(text, log, key) {
  let record;
  try {
    record = parseRecordOf(log, text);
  } catch (err) {
    return { error: err.message, ok: false, reason: `unreadable: ${err.message}` };
  }
  const result = await checkRecord(record, key);
  const leaf = await leafHash(record.hash, unbase64url(record.signature), keyAt(key, record.index).raw);
  return { index: record.index, hash: record.hash, leaf, ...result };
}

/** @param {{id: number, texts: string[], log: LogName, key: PlainKey}} asked */
async function answer({ id, texts, log, key: given }) {
  try {
    const key = await ringOf(given);
    return {
      id,
      engine: (await engine()).name,
      results: await Promise.all(texts.map((text) => check(text, log, key))),
    };
  } catch (err) {
    return { id, error: err.message };
  }
}

/**
 * @param {{postMessage(message: unknown): void}} to
 * @returns {(event: MessageEvent) => Promise<void>}
 */
const serve = (to) => async ({ data }) => {
  if (data.port) data.port.onmessage = serve(data.port);
  else to.postMessage(await answer(data));
};

onmessage = serve(self);
