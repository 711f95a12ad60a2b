// @ts-check
// The keys of a file: what each is, and that each follows from the one before it in every log.
import { base64url, unbase64url } from '../bytes.js';
import { publicKey } from '../ed25519.js';
import { follows, identify } from '../keyring.js';
import { must } from '../note.js';

/** @param {FileKey} key */
async function checkKey({ kid, fingerprint, jwk }) {
  const raw = unbase64url(jwk.x);
  const is = await identify(raw);
  const fixed = { kty: 'OKP', crv: 'Ed25519', kid: is.kid, alg: 'EdDSA', use: 'sig' };
  const given = new Map(Object.entries(jwk));
  must(
    kid === is.kid && fingerprint === is.fingerprint
      && Object.entries(fixed).every(([name, value]) => given.get(name) === value),
    `key ${kid} is not the one that it says`,
  );
  return { kid, fingerprint, raw, prepared: await publicKey(raw) };
}

/**
 * The logs without which the file could not be checked; of another one nothing would be known.
 * @param {EvidenceLogs & {log: LogName, agentKey?: {records: unknown[]},
 *   passport?: {records: unknown[]}, authority?: {records: unknown[]},
 *   policies?: {records: unknown[]}, passports?: {records: unknown[]}}} file
 * @returns {string[]}
 */
export function neededLogs({ log, logs, keys, agentKey, passport, authority, policies, passports }) {
  const control = logs.find((one) => one.log === 'control');
  const later = control && control.keys.length > 0
    && control.keys.length !== keys.length; // it began under another key than the company's first
  const entries = [agentKey, passport, authority, policies, passports]
    .reduce((sum, one) => sum + (one?.records.length ?? 0), 0);
  return [log === 'actions' || later ? 'actions' : '', log === 'control' || entries > 0 ? 'control' : ''].filter(
    Boolean,
  );
}

/**
 * @param {FileLog} log
 * @param {EvidenceKey[]} all
 * @returns {Promise<EvidenceLog>}
 */
async function checkLog({ log, logId, origin, keys }, all) {
  must(origin.endsWith(`/v1/log/${logId}`), `the origin of the log ${log} is of another one`);
  must(
    keys.length > 0 && (log === 'actions' ? keys.length === all.length : keys.length <= all.length),
    `the log ${log} has not its keys`,
  );
  const ring = keys.map((key, i) => ({ ...key, ...all[all.length - keys.length + i], claimed: key.kid }));
  for (const [i, key] of ring.entries()) {
    must(key.claimed === key.kid, `key ${i} of the log ${log} is not the one in keys`);
    if (i === 0) must(key.fromIndex === 0 && !key.rotation, `the first key of the log ${log} is missing`);
    else
      must(
        await follows(origin, ring[i - 1], key),
        `nothing proves that key ${key.kid} follows key ${ring[i - 1].kid} in the log ${log}`,
      );
  }
  return { log, origin, ring };
}

/**
 * Checks the keys of a file, which must have the logs that are needed: {keys, logs}, each log with
 * its ring, by its name.
 * @param {EvidenceLogs} file
 * @param {string[]} needed
 */
export async function checkKeys(file, needed) {
  const keys = await Promise.all(file.keys.map(checkKey));
  must(new Set(keys.map(({ raw }) => base64url(raw))).size === keys.length, 'a key is listed twice');
  must(file.logs.map(({ log }) => log).join() === needed.join(), `the logs are not ${needed.join(' and ')}`);
  /** @type {Map<LogName, EvidenceLog>} */
  const logs = new Map();
  for (const log of file.logs) logs.set(log.log, await checkLog(log, keys));
  return { keys, logs };
}
