// @ts-check
// Who signed a record: what the agent has signed with a key of its own, and what anybody could say
// in its name who has a key of the company. What the control log says of the agent's keys and of
// policies is asked for and checked record by record. That the server left none of these out, only
// a report shows.
import { eventOf } from '../lib/evidence/control.js';
import { isOfAgentKey } from '../lib/evidence/agent_keys.js';
import { SLACK, addPolicies, agentKeyOf, lastPolicy, signed, unsigned, word } from '../lib/words.js';
import { allChanges } from './control_log.js';
import { clock, signedIn } from './session.js';

const HELD = 1024; // agents and keys of which something is held

/** @type {Map<string, {until: number, found: Promise<any>}>} */
const held = new Map();

const owner = () => {
  const { company, key } = signedIn();
  return `${company.companyId} ${key.fingerprint}`;
};

/**
 * What was read for a record at a time (ms) or before, or what read() gives now. What was read for
 * a record is good for those of the same moments, as changes under way then do not count.
 * @template T
 * @param {string} name
 * @param {number} at
 * @param {() => Promise<T>} read
 * @returns {Promise<T>}
 */
function fresh(name, at, read) {
  const full = `${owner()} ${name}`;
  const known = held.get(full);
  if (known && at <= known.until) return known.found;
  const found = read();
  held.delete(full);
  held.set(full, { until: Math.min(at, Date.now() + clock.get().offset * 1000) + SLACK, found });
  found.catch(() => { if (held.get(full)?.found === found) held.delete(full); });
  if (held.size > HELD) held.delete(/** @type {string} */ (held.keys().next().value));
  return found;
}

/** @type {Map<string, Map<string, PolicyChange[]>>} */
const policies = new Map(); // by company, and then by subject

async function readPolicies() {
  const of = owner();
  const known = policies.get(of) ?? new Map();
  const latest = Math.max(0, ...[...known.values()].flat().map(({ at }) => at));
  const since = latest ? { since: new Date(latest - SLACK).toISOString() } : {};
  const found = await Promise.all(
    ['agent.policy-changed', 'company.policy-changed'].map((action) => allChanges({ action, ...since })));
  policies.set(of, addPolicies(known, found.flat().map(({ record }) => record)));
  return known;
}

/**
 * The policies of an agent and of the company as they are now.
 * @param {string} agentId
 * @returns {Promise<Policies>}
 */
export async function policiesOf(agentId) {
  const known = await readPolicies();
  return { own: lastPolicy(known.get(`policy:${agentId}`)), company: lastPolicy(known.get('policy:')) };
}

/**
 * All that the control log says of the keys of an agent, in the order of enrolment.
 * @param {string} agentId
 * @returns {Promise<KeyEvents>}
 */
async function readKeyEvents(agentId) {
  const changes = await allChanges({ action: 'agent-key.*', q: agentId });
  /** @type {KeyEvents} */
  const found = new Map();
  for (const { record } of changes.reverse()) {
    const event = { ...eventOf(record), source: record.source };
    if (!isOfAgentKey(event) || event.agentId !== agentId) continue;
    const thumbprint = event.subject.slice('agent-key:'.length);
    found.set(thumbprint, [...(found.get(thumbprint) ?? []), event]);
  }
  return found;
}

/**
 * @param {KeyEvents} known
 * @param {string} kid
 * @param {string} agentId
 */
function keyOf(known, kid, agentId) {
  const { company: { companyId, spiffeId: audience }, key: { origin = '' } } = signedIn();
  return agentKeyOf(known, kid, { companyId, agentId, audience, log: origin });
}

/**
 * What the control log says of the keys of an agent now; chains has of each key that holds what
 * agentKeyState asks for.
 * @param {string} agentId
 */
export async function keysOf(agentId) {
  const known = await readKeyEvents(agentId);
  /** @type {Map<string, string[]>} */
  const chains = new Map();
  for (const kid of known.keys()) {
    const found = await keyOf(known, kid, agentId).catch(() => null);
    if (found) chains.set(kid, found.chain);
  }
  return { chains, known };
}

/**
 * @param {LogRecord} record
 * @param {number} at ms, of the newest record that is asked about
 * @returns {Promise<Word>}
 */
async function wordOf(record, at) {
  const { agentId } = record;
  try {
    if (record.statement === undefined)
      return unsigned(record, await fresh('policies', at, readPolicies), signedIn().company.spiffeId);
    const known = await fresh(`keys ${agentId}`, at, () => readKeyEvents(agentId));
    return await signed(record, (kid) => fresh(`key ${agentId} ${kid}`, at, () => keyOf(known, kid, agentId)));
  } catch (err) {
    return word(record, 'unknown', `Who signed this could not be found out: ${err.message}`);
  }
}

/**
 * Who signed each of some records, in their order.
 * @param {LogRecord[]} records
 */
export function wordsOf(records) {
  const at = Math.max(0, ...records.map(({ timestamp }) => Date.parse(timestamp)));
  return Promise.all(records.map((record) => wordOf(record, at)));
}
