// @ts-check
// The keys of all agents of the company, by their control records.
import { revokedForm } from '../lib/evidence/agent_keys.js';
import { having, nullable, string, timestamp } from '../lib/form.js';
import { allChanges } from './control_log.js';

const enrolled = having(
  { agentId: string, thumbprint: string, expiresAt: nullable(timestamp) }, { label: nullable(string) },
);
const revoked = having({ thumbprint: string });

/**
 * The state of the newest key of each agent, in a word or two, by agent.
 * @param {Awaited<ReturnType<typeof allAgentKeys>>} keys the newest first
 * @param {number} now ms
 */
export function keyStatesOf(keys, now) {
  /** @type {Map<string, string>} */
  const states = new Map();
  for (const { agentId, expiresAt, revokedAt } of keys) {
    if (states.has(agentId)) continue;
    const expired = expiresAt !== null && Date.parse(expiresAt) <= now;
    states.set(agentId, revokedAt ? 'key revoked' : expired ? 'key expired' : 'own key');
  }
  return states;
}

/** All keys, the newest first; revokedAt and reason are '' of one that is not revoked. */
export async function allAgentKeys() {
  const changes = (await allChanges({ action: 'agent-key.*' })).map(({ record }) => record);
  /** @type {Map<string, {at: string, reason: string}>} */
  const ends = new Map(); // the newest comes first, and the first revocation counts
  for (const { actionType, timestamp: at, inner, source } of changes)
    if (actionType === 'agent-key.revoked')
      ends.set(revoked(inner, source, 'it').thumbprint, { at, reason: revokedForm(inner, source, 'it').reason ?? '' });
  return changes.filter(({ actionType }) => actionType === 'agent-key.enrolled')
    .map(({ timestamp: enrolledAt, inner, source }) => {
      const { agentId, thumbprint, expiresAt, label = null } = enrolled(inner, source, 'it');
      const { at = '', reason = '' } = ends.get(thumbprint) ?? {};
      return { agentId, thumbprint, label, enrolledAt, expiresAt, revokedAt: at, reason };
    });
}
