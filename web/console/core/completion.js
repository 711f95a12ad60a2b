// @ts-check
// Names that complete what is typed into a search field: of agents and of actions. They are the
// server's word, and only help to type.
import { agentPage, agentsAsked } from './agents.js';
import { call } from './api.js';
import { actionsWithMost, agentsWithMost } from './search.js';

const MOST = 20; // names in a list

/**
 * Names, each once, that contain a text in either case, those that begin with it first. What a
 * field cannot hold or show as it is, is left out.
 * @param {string[]} names
 * @param {string} typed
 */
export function completions(names, typed) {
  const sought = typed.toLowerCase();
  const fit = [...new Set(names)].filter(
    (name) => name && !/\p{C}|\p{Zl}|\p{Zp}/u.test(name) && name === name.trim() &&
      name.toLowerCase().includes(sought) && name !== typed);
  /** @param {string} name */
  const begins = (name) => Number(!name.toLowerCase().startsWith(sought));
  return fit.toSorted((a, b) => begins(a) - begins(b)).slice(0, MOST);
}

/**
 * The beginnings of actions: tool.* of tool.called, where several actions begin so.
 * @param {string[]} actions
 */
export function beginnings(actions) {
  const before = actions.filter((action) => action.includes('.'))
    .map((action) => `${action.slice(0, action.indexOf('.'))}.*`);
  return [...new Set(before.filter((one, i) => before.indexOf(one) !== i))];
}

/**
 * @param {string} typed
 * @param {AbortSignal} signal
 */
async function registered(typed, signal) {
  const asked = { q: typed, status: '' };
  const query = new URLSearchParams({ ...(typed && { q: typed }), limit: String(MOST) });
  const { agents } = await call(agentPage, 'GET', `/v1/agents?${query}`, { asked: agentsAsked(asked), signal });
  return agents.map(({ agentId }) => agentId);
}

/**
 * What finds names for a text that is typed, at most 20: of agents that are registered, or have the
 * most records; or of the actions with the most records, which are asked for once.
 * @param {'agent' | 'action'} kind
 * @returns {(typed: string, signal: AbortSignal) => Promise<string[]>}
 */
export function completer(kind) {
  /** @type {string[] | null} */
  let busiest = null;
  return async (typed, signal) => {
    busiest ??= kind === 'agent' ? await agentsWithMost({ signal }) : withBeginnings(await actionsWithMost({ signal }));
    return completions(kind === 'agent' ? [...busiest, ...(await registered(typed, signal))] : busiest, typed);
  };
}

/** @param {string[]} actions */
const withBeginnings = (actions) => [...beginnings(actions), ...actions];
