// Lists that the API gives in pages.
import { useEffect, useState } from '../vendor/preact-htm.js';
import { call } from '../core/api.js';
import { useTask } from './basic.js';

const LIMIT = 50;

/** {items, more(), reload(), hasMore, busy, error} of a paged endpoint: its form, its path, and the name that its list has. */
export function usePaged(form, path, name) {
  const [state, setState] = useState({ items: null, next: '' });
  const [run, busy, error] = useTask();
  const load = (cursor, before) => run(async () => {
    const page = await call(form, 'GET', `${path}?limit=${LIMIT}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ''}`);
    setState({ items: [...before, ...page[name]], next: page.next ?? '' });
  });
  useEffect(() => { load('', []); }, []);
  return {
    items: state.items, hasMore: Boolean(state.next), busy, error,
    more: () => load(state.next, state.items ?? []),
    reload: () => load('', []),
  };
}
