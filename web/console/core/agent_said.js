// @ts-check
// What the control log says of an agent: since when it is registered, with which metadata, and
// whether it is disabled. What the server lists of the agent counts only where it says the same.
import { having, json, nullable, string, timestamp } from '../lib/form.js';
import { sha256hex } from '../lib/sha256.js';
import { visible } from '../lib/visible.js';
import { findAgent, metadataOf } from './agents.js';
import { allChanges } from './control_log.js';

const registered = having({ registeredAt: timestamp, metadataHash: nullable(string) });
const disabled = having({ disabledAt: timestamp });
const rowForm = having({ table: string, name: string, row: json });
const row = having({ registeredAt: timestamp, metadataHash: string, disabledAt: string });

/**
 * What an agent is after a control record, where it was as before.
 * @param {LogRecord} record
 * @param {AgentSaid | null} before
 * @param {string} agentId
 * @returns {AgentSaid | null}
 */
function after({ index, actionType: action, inner, source }, before, agentId) {
  if (action === 'agent.registered') {
    const { registeredAt, metadataHash } = registered(inner, source, 'it');
    return { disabledAt: before?.disabledAt ?? '', registeredAt, metadataHash: metadataHash ?? '', index };
  }
  if (action === 'agent.disabled') return before && { ...before, ...disabled(inner, source, 'it'), index };
  if (action === 'agent.enabled') return before && { ...before, disabledAt: '', index };
  const { table, name, row: { node, source: text } } = rowForm(inner, source, 'it');
  if (table !== 'agent' || name !== agentId) return before;
  return node.type === 'null' ? null : { ...row(node, text, 'row'), index };
}

/**
 * What the control log says of an agent now; null where it knows none of that name.
 * @param {string} agentId
 */
async function readSaid(agentId) {
  const changes = await Promise.all(['agent.*', 'row.*'].map((action) => allChanges({ action, q: agentId })));
  const own = changes.flat().filter(({ subject }) => subject === `agent:${agentId}`)
    .map(({ record }) => record)
    .sort((a, b) => a.index - b.index);
  return own.reduce((said, record) => after(record, said, agentId), /** @type {AgentSaid | null} */ (null));
}

/** @param {string} [disabledAt] */
const stateOf = (disabledAt) => (disabledAt ? `disabled since ${visible(disabledAt)}` : 'active');

/**
 * What the server lists of an agent otherwise than the control log says, one sentence each.
 * @param {RegisteredAgent | null} listed
 * @param {AgentSaid | null} said
 */
export async function misstatedOf(listed, said) {
  if (!listed && !said) return [];
  if (!listed) return [`The server knows no such agent; control record ${said?.index} says that it is registered.`];
  if (!said) return ['The server lists this agent, and no control record says that it was registered.'];
  const at = `the control log, up to record ${said.index},`;
  const wrong = [];
  if (listed.registeredAt !== said.registeredAt)
    wrong.push(`The server lists that the agent was registered at ${listed.registeredAt}; ${at} says ` +
      `${said.registeredAt}.`);
  if ((listed.disabledAt ?? '') !== said.disabledAt)
    wrong.push(`The server lists the agent as ${stateOf(listed.disabledAt)}; ${at} says ${stateOf(said.disabledAt)}.`);
  const metadata = metadataOf(listed);
  const hash = metadata ? await sha256hex(metadata.source.slice(metadata.node.start, metadata.node.end)) : '';
  if (hash !== said.metadataHash)
    wrong.push(`The metadata that the server lists are not those that were registered: ${at} has ` +
      `${said.metadataHash ? `the SHA-256 ${visible(said.metadataHash)}` : 'none'}.`);
  return wrong;
}

/**
 * An agent as the server lists it, null for none; what the control log says of it; and where the
 * two differ.
 * @param {string} agentId
 */
export async function readAgent(agentId) {
  for (let again = true; ; again = false) {
    const listed = await findAgent(agentId);
    let said = null;
    let wrong;
    try {
      said = await readSaid(agentId);
      wrong = await misstatedOf(listed, said);
    } catch (err) {
      wrong = [`What the control log says of this agent could not be read: ${err.message}`];
    }
    if (!wrong.length || !again) return { listed, said, wrong }; // it may have been changed in between
  }
}
