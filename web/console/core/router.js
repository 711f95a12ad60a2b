// Which page is shown: the part of the URL after "#/", so that the server knows one page only.
import { store } from './store.js';

function read() {
  const [page = '', ...rest] = location.hash.replace(/^#\/?/, '').split('/');
  let argument = '';
  try {
    argument = decodeURIComponent(rest.join('/'));
  } catch { /* a broken escape names nothing */ }
  return { page: page || 'start', argument };
}

/** {page, argument}: "#/chain/12" is the page chain with the argument "12". */
export const route = store(read());

addEventListener('hashchange', () => route.set(read()));

export const href = (page, argument) => `#/${page}` + (argument === undefined ? '' : `/${encodeURIComponent(argument)}`);

export const go = (page, argument) => { location.hash = href(page, argument); };
