// @ts-check
// Whose cosignatures a person asks for below the checkpoints of a company: a policy
// (c2sp.org/tlog-policy) that came from outside, stored in this browser.
import { equalBytes, hex } from '../lib/bytes.js';
import { cosignature } from '../lib/note.js';
import { quorum, readPolicy } from '../lib/policy.js';
import { store } from './store.js';

const NAME = 'attestd.policy';

/** @param {string} companyId */
const nameOf = (companyId) => `${NAME} ${companyId}`;

/** @param {string} companyId */
function restored(companyId) {
  try {
    return localStorage.getItem(nameOf(companyId)) ?? '';
  } catch {
    return ''; // no storage
  }
}

/** texts: by company, those that were stored or removed since the page was opened. */
export const policies = store({ texts: /** @type {Record<string, string>} */ ({}) });

/**
 * @param {string} companyId
 * @param {string} text
 */
function put(companyId, text) {
  try {
    if (text) localStorage.setItem(nameOf(companyId), text);
    else localStorage.removeItem(nameOf(companyId));
  } catch { /* it then lasts as long as the page */ }
  policies.set({ texts: { ...policies.get().texts, [companyId]: text } });
}

/**
 * Keeps a policy for a company; throws an Error that names the line where it is none.
 * @param {string} companyId
 * @param {string} text
 */
export async function savePolicy(companyId, text) {
  const whole = text === '' || text.endsWith('\n') ? text
    : `${text}\n`; // what is pasted often lacks its last line break
  await readPolicy(whole);
  put(companyId, whole);
}

/** @param {string} companyId */
export const forgetPolicy = (companyId) => put(companyId, '');

/**
 * The text of the policy that is stored for a company, '' where there is none; policies tells when
 * it changes.
 * @param {string} companyId
 */
export const policyText = (companyId) => policies.get().texts[companyId] ?? restored(companyId);

/**
 * What a line below a checkpoint says of itself: when it was made, in seconds, or null.
 * @param {{blob: Bytes}} line
 */
function timeOf({ blob }) {
  const time = blob.length === 72 ? BigInt(`0x${hex(blob.slice(0, 8))}`) : 0n;
  return time > 0n && time < 1n << 40n ? Number(time) : null;
}

/**
 * The lines of others below a checkpoint, as openCheckpoint gives it: [{name, time, witness,
 * failed}]. witness is the name that the policy has for who made it, '' where it knows no one with
 * that key: then the time is only said. failed is that a line says to be of one of its witnesses,
 * and is not.
 * @param {{lines: NoteLine[], text: string}} checkpoint
 * @param {Policy | null} policy
 * @returns {Promise<CosignedLine[]>}
 */
export const cosignaturesOf = (checkpoint, policy) => Promise.all(checkpoint.lines.slice(1).map(async (line) => {
  for (const [name, key] of policy?.witnesses ?? []) {
    try {
      const found = await cosignature(line, checkpoint.text, [key]);
      if (found) return { name: line.name, time: Number(found.time), witness: name, failed: false };
    } catch {
      return { name: line.name, time: timeOf(line), witness: name, failed: true };
    }
  }
  return { name: line.name, time: timeOf(line), witness: '', failed: false };
}));

/**
 * Whether a checkpoint meets a policy: {met, reason}. origins are those of the company's logs: a
 * policy names a key once, and that counts for both.
 * @param {Policy} policy
 * @param {{lines: NoteLine[], text: string, signer: {raw: Bytes}}} checkpoint
 * @param {string[]} origins
 */
export async function meets(policy, checkpoint, origins) {
  if (!policy.logs.some(({ name, raw }) => origins.includes(name) && equalBytes(raw, checkpoint.signer.raw)))
    return { met: false, reason: 'the policy doesn’t name the key that signed this checkpoint' };
  try {
    return (await quorum(policy, checkpoint))
      ? { met: true, reason: '' }
      : { met: false, reason: 'too few of the policy’s witnesses have cosigned this checkpoint' };
  } catch (err) {
    return { met: false, reason: err.message };
  }
}
