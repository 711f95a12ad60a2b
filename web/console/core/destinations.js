// @ts-check
// Where somebody who types some letters may want to go: a page, a record, a hash, a saved search,
// an agent.
import { isHash } from '../lib/bytes.js';

const MOST = 12;

/**
 * The places that fit what was typed, the best first. agents: those that the server has found for
 * it. saved: the searches that have names here.
 * @param {string} typed
 * @param {{id: string, name: string}[]} pages
 * @param {string[]} agents
 * @param {{name: string, query: Query}[]} [saved]
 * @returns {Destination[]}
 */
export function destinations(typed, pages, agents, saved = []) {
  const text = typed.trim();
  const sought = text.toLowerCase();
  /** @type {Destination[]} */
  const all = [];
  if (/^#?[0-9]{1,15}$/.test(text)) {
    const index = String(Number(text.replace('#', '')));
    all.push({ kind: 'Record', name: `#${index}`, page: 'records', argument: index, query: {} });
  }
  if (isHash(sought)) all.push({ kind: 'Record', name: `with the hash ${sought}`, page: 'records', argument: '',
    query: { hash: sought } });
  /** @param {{name: string}} page */
  const place = ({ name }) => name.toLowerCase().indexOf(sought);
  const named = pages.filter((page) => place(page) >= 0);
  named.sort((a, b) => Number(place(a) > 0) - Number(place(b) > 0));
  for (const { id, name } of named) all.push({ kind: 'Page', name, page: id, argument: '', query: {} });
  for (const { name, query } of saved)
    if (text && place({ name }) >= 0) all.push({ kind: 'Search', name, page: 'records', argument: '', query });
  for (const agent of agents) all.push({ kind: 'Agent', name: agent, page: 'agents', argument: agent, query: {} });
  if (text) all.push({ kind: 'Records', name: `whose payload contains ${text}`, page: 'records', argument: '',
    query: { q: text } });
  return all.slice(0, MOST);
}
