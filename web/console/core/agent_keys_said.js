// @ts-check
// The keys of agents, by their control records.
import { revokedForm } from '../lib/evidence/agent_keys.js';
import { having, nullable, string, timestamp } from '../lib/form.js';
import { allChanges } from './control_log.js';

const enrolled = having(
  { agentId: string, thumbprint: string, expiresAt: nullable(timestamp) }, { label: nullable(string) },
);
const revoked = having({ thumbprint: string });

/**
 * The keys of an agent, or of all with '', the newest first; revokedAt and reason are '' of one
 * that is not revoked.
 * @param {string} agentId
 */
export async function agentKeys(agentId) {
  const changes = (await allChanges({ action: 'agent-key.*', q: agentId })).map(({ record }) => record);
  /** @type {Map<string, {at: string, reason: string}>} */
  const ends = new Map(); // the newest comes first, and the first revocation counts
  for (const { actionType, timestamp: at, inner, source } of changes)
    if (actionType === 'agent-key.revoked')
      ends.set(revoked(inner, source, 'it').thumbprint, { at, reason: revokedForm(inner, source, 'it').reason ?? '' });
  return changes.filter(({ actionType }) => actionType === 'agent-key.enrolled')
    .map(({ timestamp: enrolledAt, inner, source }) => {
      const { thumbprint, label = null, ...key } = enrolled(inner, source, 'it');
      const { at = '', reason = '' } = ends.get(thumbprint) ?? {};
      return { ...key, thumbprint, label, enrolledAt, revokedAt: at, reason };
    })
    .filter((key) => !agentId || key.agentId === agentId);
}

/**
 * The state of the newest key of an agent, in a word or two.
 * @param {string} agentId
 * @param {number} now ms
 */
export async function keyStateOf(agentId, now) {
  const [newest] = await agentKeys(agentId);
  if (!newest) return 'no own key';
  if (newest.revokedAt) return 'key revoked';
  return newest.expiresAt !== null && Date.parse(newest.expiresAt) <= now ? 'key expired' : 'own key';
}

/**
 * A key as its control records say: label, expiresAt and revokedAt, and what of it the server lists
 * otherwise. Where no record says that it was enrolled, it is as it is listed.
 * @param {ListedAgentKey} listed
 * @param {(ControlEvent & {source: string})[]} events
 */
export function heldAgainst(listed, events) {
  const enrolment = events.find(({ action }) => action === 'agent-key.enrolled');
  if (!enrolment) return { ...listed, wrong: [] };
  const { label = null, expiresAt } = enrolled(enrolment.inner, enrolment.source, 'it');
  const revokedAt = events.find(({ action }) => action === 'agent-key.revoked')?.revokedAt || null;
  const wrong = [
    { what: 'the label', lists: listed.label, says: label },
    { what: 'as its expiry', lists: listed.expiresAt, says: expiresAt },
    { what: 'as its revocation', lists: listed.revokedAt, says: revokedAt },
  ].filter(({ lists, says }) => lists !== says)
    .map(({ what, lists, says }) =>
      `The server lists ${what} ${lists ?? 'none'}; the control log has ${says ?? 'none'}.`);
  return { ...listed, label, expiresAt, revokedAt, wrong };
}
