// @ts-check
// The keys of agents, with which they sign what they do: what the service lists of them, and what
// an admin can change. core/words.js checks who signed a record.
import { boolean, having, integer, list, nullable, oneOf, string, stringThat, timestamp } from '../lib/form.js';
import { isThumbprint } from '../lib/statement.js';
import { call } from './api.js';
import { NOTHING, eachNames, mustFit, mustName } from './asked.js';

const thumbprint = stringThat(isThumbprint, 'the thumbprint of a key');
const policy = oneOf('any', 'key');

export const listedKey = having({
  thumbprint,
  agentId: string,
  alg: string,
  label: nullable(string),
  createdAt: timestamp,
  expiresAt: nullable(timestamp),
  revokedAt: nullable(timestamp),
});

const dryRun = having({
  since: timestamp,
  records: integer,
  refused: integer,
  complete: boolean,
  agents: list(having({ agentId: string, refused: integer }), 100),
});

/**
 * @param {string} agentId
 * @param {string} more
 */
const at = (agentId, more) => `/v1/agents/${encodeURIComponent(agentId)}/${more}`;

/** @param {string} agentId */
export const readKeys = async (agentId) =>
  (await call(having({ keys: list(listedKey) }), 'GET', at(agentId, 'keys'), { asked: eachNames('keys', { agentId }) }))
    .keys;

/**
 * Revokes a key. since is when it came into other hands; it and the reason may be ''.
 * @param {string} agentId
 * @param {string} key its thumbprint
 * @param {{reason: string, since: string}} why
 */
export const revokeKey = (agentId, key, { reason, since }) =>
  call(listedKey, 'DELETE', at(agentId, `keys/${encodeURIComponent(key)}`), {
    asked: { agentId, thumbprint: key },
    body: { ...(reason && { reason }), ...(since && { since }) },
  });

// It is pasted into a shell, so it must be one word there.
const token = stringThat((s) => /^[A-Za-z0-9_-]{1,256}$/.test(s), 'an enrolment token');

/**
 * A token with which a machine enrols one key of an agent.
 * @param {string} agentId
 * @param {number} seconds for which it is good
 * @param {string} label
 */
export const createEnrolment = (agentId, seconds, label) =>
  call(having({ token, expiresAt: timestamp }), 'POST', at(agentId, 'enrolments'), {
    asked: NOTHING,
    body: { expiresIn: seconds, ...(label && { label }) },
  });

/**
 * The line that enrols a key on the machine where the agent runs.
 * @param {string} token
 */
export const enrolLine = (token) => `attestd agent-key enrol --url ${location.origin} --token ${token}`;

/**
 * Sets the policy of an agent, or with '' of the company.
 * @param {string} agentId
 * @param {Policies['own']} attest
 */
export const setPolicy = (agentId, attest) =>
  call(having({ attest: policy }, { agentId: string }), 'PUT', policyAt(agentId), {
    asked: { ...(agentId && { agentId }), attest },
    body: { attest },
  });

/**
 * What the policy key would have refused of the last day.
 * @param {string} agentId '' for that of the company
 */
export async function tryPolicy(agentId) {
  const form = having({ attest: policy, dryRun }, { agentId: string });
  const { dryRun: found } = await call(form, 'PUT', policyAt(agentId), {
    asked: (answer) => {
      mustName({ ...(agentId && { agentId }), attest: 'key' }, answer);
      const { records, refused, agents } = answer.dryRun;
      const named = agents.reduce((sum, one) => sum + one.refused, 0);
      mustFit(refused <= records && named <= refused, 'its numbers do not fit together');
    },
    body: { attest: 'key', dryRun: true },
  });
  return found;
}

/** @param {string} agentId */
const policyAt = (agentId) => (agentId ? at(agentId, 'policy') : '/v1/company/policy');
