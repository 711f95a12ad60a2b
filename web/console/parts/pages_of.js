// @ts-check
// Lists that the API gives in pages.
import { useEffect, useRef, useState } from '../vendor/preact-htm.js';
import { call } from '../core/api.js';
import { useTask } from './basic.js';

const LIMIT = 50;

/**
 * {items, total, more(), reload(), retry(), hasMore, busy, error} of a paged endpoint: its form,
 * its path, the name that its list has, and a query, of which what is empty is left out.
 * asked(query) gives what each answer must name, as of call. Another query begins anew.
 */
export function usePaged(form, path, name, query, asked) {
  const [state, setState] = useState(/** @type {any} */ ({ items: null, next: '' }));
  const [run, busy, error] = useTask();
  const last = useRef(/** @type {any[]} */ ([]));
  const load = (...place) => run(async () => {
    last.current = place;
    const [cursor, before] = place;
    const search = new URLSearchParams(Object.entries({ limit: LIMIT, ...query, cursor }).filter(([, value]) => value));
    const page = await call(form, 'GET', `${path}?${search}`, { asked: asked(query) });
    setState({ items: [...before, ...page[name]], next: page.next ?? '', total: page.total });
  });
  useEffect(() => { load('', []); }, [JSON.stringify(query)]);
  return {
    items: state.items, total: state.total, hasMore: Boolean(state.next), busy, error,
    more: () => load(state.next, state.items ?? []),
    reload: () => load('', []),
    retry: () => load(...last.current),
  };
}
