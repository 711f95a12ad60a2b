// @ts-check
// Which keys of agents the person at this browser vouches for. The company can enrol a key for any
// agent, so that a key is enrolled does not show that it is the agent's: nothing that it signed is
// green before its thumbprint was entered here, from another source.
import { exactly, string } from '../lib/form.js';
import { storedList } from './stored_list.js';

/** Entries {companyId, agentId, thumbprint}; an agent may have several keys. */
export const agentTrust = storedList(
  'attestd.agent-keys',
  exactly({ companyId: string, agentId: string, thumbprint: string }),
);

/**
 * @param {AgentName} agent
 * @returns {(one: AgentName) => boolean}
 */
const isOf = ({ companyId, agentId }) => (one) => one.companyId === companyId && one.agentId === agentId;

/**
 * Takes what was typed for the thumbprint of a key; false where it is that of another one.
 * @param {AgentName} agent
 * @param {string} thumbprint
 * @param {string} typed
 */
export function confirmAgentKey({ companyId, agentId }, thumbprint, typed) {
  if (typed.replace(/\s/g, '').replace(/=+$/, '') !== thumbprint) return false;
  forgetAgentKey({ companyId, agentId }, thumbprint);
  agentTrust.change((all) => [...all, { companyId, agentId, thumbprint }]);
  return true;
}

/**
 * @param {AgentName} agent
 * @param {string} thumbprint
 */
export const forgetAgentKey = (agent, thumbprint) =>
  agentTrust.change((all) => all.filter((one) => !isOf(agent)(one) || one.thumbprint !== thumbprint));

/**
 * The state of a key of an agent. chain: its thumbprint, and then those of the keys from which it
 * follows, each endorsed by the next one. other: only other keys of the agent are confirmed.
 * @param {AgentName} agent
 * @param {string[]} chain
 * @param {{all: (AgentName & {thumbprint: string})[]}} [state]
 * @returns {KeyState}
 */
export function agentKeyState(agent, chain, { all } = agentTrust.get()) {
  const own = all.filter(isOf(agent));
  if (own.some(({ thumbprint }) => chain.includes(thumbprint))) return 'confirmed';
  return own.length ? 'other' : 'unconfirmed';
}
