// @ts-check
// Which page is shown, and what of it: the part of the URL after "#/", so that the server knows one
// page only and reads nothing of it.
import { store } from './store.js';

function read() {
  const [path, search = ''] = location.hash.replace(/^#\/?/, '').split(/\?(.*)/s);
  const [page = '', ...rest] = path.split('/');
  let argument = '';
  try {
    argument = decodeURIComponent(rest.join('/'));
  } catch { /* a broken escape names nothing */ }
  return { page: page || 'start', argument, query: Object.fromEntries(new URLSearchParams(search)) };
}

/**
 * {page, argument, query}: "#/records/12?agent=bot" is the page records with the argument "12" and
 * the query {agent: "bot"}.
 */
export const route = store(read());

addEventListener('hashchange', () => route.set(read()));

/**
 * The URL of a page. Of the query, what is empty is left out.
 * @param {string} page
 * @param {string | number} [argument]
 * @param {Record<string, string | number | undefined>} [query]
 */
export function href(page, argument = '', query = {}) {
  const search = new URLSearchParams(
    Object.entries(query).flatMap(([name, value]) =>
      (value === undefined || value === '' ? [] : [[name, String(value)]])),
  ).toString();
  return `#/${page}${argument === '' ? '' : `/${encodeURIComponent(argument)}`}${search && `?${search}`}`;
}

/**
 * @param {string} page
 * @param {string | number} [argument]
 * @param {Record<string, string | number | undefined>} [query]
 */
export const go = (page, argument, query) => { location.hash = href(page, argument, query); };

/**
 * Gives the shown page another query, without a step in the browser's history.
 * @param {Record<string, string | undefined>} query
 */
export function replace(query) {
  const { page, argument } = route.get();
  history.replaceState(null, '', href(page, argument, query));
  route.set(read());
}
