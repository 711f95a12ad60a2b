// @ts-check
// Who signed a record, from the record and what the control log says: of the agent's keys, by
// thumbprint, and of policies, by subject. Control records are given as they were checked.
import { AgentKeys } from './evidence/agent_keys.js';
import { notActor } from './evidence/control.js';
import { having, nullable, oneOf, string } from './form.js';
import { goesOn, madeFor, readEndorsement, readStatement, statementHash } from './statement.js';

/** A record may be under way while a key is revoked or a policy is set (ms). */
export const SLACK = 5000;

const subjectForm = having({ subject: string });
const policyForm = having({ attest: oneOf('any', 'key') });

/**
 * Adds changes of policies to those that are known, each subject's in the order of the log. What
 * the company has decided about other things has another subject.
 * @param {Map<string, PolicyChange[]>} known
 * @param {LogRecord[]} records
 */
export function addPolicies(known, records) {
  for (const { index, timestamp, inner, source } of records) {
    const { subject } = subjectForm(inner, source, `control record ${index}`);
    if (!subject.startsWith('policy:')) continue;
    const { attest } = policyForm(inner, source, `control record ${index}`);
    const before = (known.get(subject) ?? []).filter((one) => one.index !== index);
    const all = [...before, { index, at: Date.parse(timestamp), attest }];
    known.set(subject, all.sort((a, b) => a.index - b.index));
  }
  return known;
}

/**
 * The policy after some changes.
 * @param {PolicyChange[]} [changes]
 */
export const lastPolicy = (changes = []) => changes[changes.length - 1]?.attest ?? 'any';

/**
 * Whether a policy was key all the time around a moment.
 * @param {PolicyChange[] | undefined} changes
 * @param {number} at
 */
const wasKey = (changes = [], at) =>
  lastPolicy(changes.filter((one) => one.at < at - SLACK)) === 'key' &&
  changes.every((one) => one.attest === 'key' || one.at < at - SLACK || one.at > at + SLACK);

const endorsedForm = having({ endorsement: nullable(string) });

/**
 * A key of an agent, ready to check what it signed, and chain, as of agentKeyState: its thumbprint
 * and those of the keys from which it follows.
 * @param {KeyEvents} known
 * @param {string} kid
 * @param {AgentName & {audience: string, log: string}} agent
 */
export async function agentKeyOf(known, kid, { companyId, agentId, audience, log }) {
  /** @type {Set<string>} */
  const chain = new Set();
  const events = [];
  for (let next = kid; next && !chain.has(next);) {
    const own = known.get(next);
    if (!own) throw new Error(`the control log does not say that ${next} is a key of this agent`);
    chain.add(next);
    events.push(...own);
    const enrolled = own.find(({ action }) => action === 'agent-key.enrolled');
    const by = enrolled && endorsedForm(enrolled.inner, enrolled.source, 'it').endorsement;
    next = by ? readEndorsement(by).kid : '';
  }
  const keys = new AgentKeys(companyId, agentId, log);
  keys.audience = audience;
  await keys.read(events.sort((a, b) => a.index - b.index), kid);
  return { keys, chain: [...chain] };
}

/**
 * @param {LogRecord} record
 * @param {Word['is']} is
 * @param {string} reason
 * @param {Partial<Word>} [more]
 * @returns {Word}
 */
export const word = ({ companyId, agentId }, is, reason, more) => ({
  is, reason, companyId, agentId, chain: [], notes: [], ...more,
});

/**
 * What needs attention in a record that holds, with or without a statement.
 * @param {LogRecord} record
 * @param {string} [company] its SPIFFE ID
 */
function given(record, company) {
  const actor = notActor(record, company);
  return actor === null ? [] : [{ says: `Its delegation was given to ${actor}, and not to this agent.`, warns: true }];
}

/**
 * Who signed a record without a statement.
 * @param {LogRecord} record
 * @param {Map<string, PolicyChange[]>} policies
 * @param {string} [company] its SPIFFE ID
 */
export function unsigned(record, policies, company) {
  const at = Date.parse(record.timestamp);
  const by = wasKey(policies.get(`policy:${record.agentId}`), at) ? 'agent'
    : wasKey(policies.get('policy:'), at) ? 'company' : '';
  return by
    ? word(record, 'unsigned', `The policy of the ${by} was that only a key of the agent may speak in its name, and ` +
      'none has signed this.')
    : word(record, 'company', 'The agent has not signed this: the holder of any company key can record it.',
      { notes: given(record, company) });
}

/**
 * For which service a statement was made, what an older one leaves open, and what it says of others
 * of its session.
 * @param {ReturnType<typeof readStatement>['claims']} claims
 */
function signedNotes(claims) {
  const { log, delegation, refused, continues } = claims;
  const notes = [{ says: madeFor(claims), warns: false }];
  if (log === undefined && delegation)
    notes.push({ says: 'It covers the ID of the delegation alone, not what the delegation said.', warns: false });
  if (refused)
    notes.push({ says: `It says that the service refused ${refused.length} earlier statements of its session, the ` +
      `first of them number ${refused[0].seq} (${refused[0].code}).`, warns: false });
  if (continues) notes.push({ says: `Its session ${goesOn(continues)}.`, warns: false });
  return notes;
}

/**
 * Who signed a record with a statement. keyOf(kid) gives agentKeyOf a key.
 * @param {LogRecord} record
 * @param {(kid: string) => ReturnType<typeof agentKeyOf>} keyOf
 */
export async function signed(record, keyOf) {
  try {
    const { kid, alg } = readStatement(record.statement ?? '');
    if (alg === 'ES256' && !globalThis.crypto?.subtle)
      return word(record, 'unknown', 'This browser checks ES256 only in pages from https or localhost.');
    const { keys, chain } = await keyOf(kid);
    const { claims } = await keys.signed(record);
    const { sid, seq = 0, prev, end, refused, continues } = claims;
    const hash = sid === undefined ? '' : await statementHash(record.statement ?? '');
    return word(record, 'agent', `${keys.who()}.`, {
      chain,
      notes: [...signedNotes(claims), ...given(record, keys.audience),
        ...(keys.isStolen(record) ? [{ says: `${keys.sinceWhen()}.`, warns: true }] : [])],
      stolen: keys.isStolen(record),
      ...(sid !== undefined && { session: { sid, seq, prev, end, refused, continues, hash } }),
    });
  } catch (err) {
    return word(record, 'fails', `What the record has as the agent’s statement does not hold: ${err.message}.`);
  }
}
