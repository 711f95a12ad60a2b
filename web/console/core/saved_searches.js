// @ts-check
// Searches over records that the person at this browser has given a name: what their fields and the
// URL hold, by company. They hold no credential. What is read from storage is checked as any answer
// is.
import { exactly, stringThat } from '../lib/form.js';
import { storedList } from './stored_list.js';

export const MOST_SAVED = 30; // searches of a company
const MOST_NAME = 60;

/** @type {SearchField[]} */
const FIELDS = ['q', 'payload', 'agent', 'action', 'delegatedBy', 'decision', 'policy', 'hash', 'last', 'since',
  'until', 'order', 'failures'];

/** @param {number} most */
const short = (most) => stringThat((text) => text.length <= most, `a text of at most ${most} characters`);
/** @param {string} text */
const isName = (text) =>
  text === text.trim() && text !== '' && text.length <= MOST_NAME && !/\p{C}|\p{Zl}|\p{Zp}/u.test(text);
const field = short(2048);

export const savedSearches = storedList(
  'attestd.searches',
  exactly(
    { companyId: short(128), name: stringThat(isName, 'a name'), query: exactly({},
      Object.fromEntries(FIELDS.map((name) => [name, field]))) },
  ),
);

/**
 * The searches of a company, by their names.
 * @param {string} companyId
 * @param {{all: SavedSearch[]}} state
 * @returns {SavedSearch[]}
 */
export const searchesOf = (companyId, { all }) =>
  all.filter((one) => one.companyId === companyId).slice(0, MOST_SAVED)
    .toSorted((a, b) => a.name.localeCompare(b.name));

/**
 * What of a URL's query is a search.
 * @param {Query} query
 * @returns {SavedSearch['query']}
 */
export const queryOf = (query) =>
  Object.fromEntries(FIELDS.flatMap((name) => {
    const value = query[name];
    return value ? [[name, value]] : [];
  }));

/**
 * Keeps a search under a name, in place of one that has it; returns why it does not, or ''.
 * @param {string} companyId
 * @param {string} typed
 * @param {Query} query
 */
export function saveSearch(companyId, typed, query) {
  const name = typed.trim();
  if (!isName(name)) return `Give it a name of at most ${MOST_NAME} characters, without control characters.`;
  const asked = queryOf(query);
  if (Object.values(asked).some((value) => value.length > 2048)) return 'This search is too long to be saved.';
  const others = savedSearches.get().all.filter((one) => one.companyId === companyId && one.name !== name);
  if (others.length >= MOST_SAVED) return `This browser keeps ${MOST_SAVED} searches of a company. Remove one first.`;
  savedSearches.change((all) => [...all.filter((one) => one.companyId !== companyId || one.name !== name),
    { companyId, name, query: asked }]);
  return '';
}

/**
 * @param {string} companyId
 * @param {string} name
 */
export const removeSearch = (companyId, name) =>
  savedSearches.change((all) => all.filter((one) => one.companyId !== companyId || one.name !== name));
