// @ts-check
// Lists that the API gives in pages.
import { useEffect, useRef, useState } from '../vendor/preact-htm.js';
import { call } from '../core/api.js';
import { mustFit } from '../core/asked.js';
import { useTask } from './basic.js';

const LIMIT = 50;

/**
 * {items, total, more(), reload(), retry(), hasMore, busy, error} of a paged endpoint: its form,
 * its path, the name that its list has, and a query, of which what is empty is left out.
 * asked(query) gives what each answer must name, as of call. Another query starts again.
 * @template T
 * @template {string} N
 * @param {Form<{[K in N]: T[]} & {next?: string, total?: number}>} form
 * @param {string} path
 * @param {N} name
 * @param {Record<string, string>} query
 * @param {(query: any) => (found: any) => void} asked
 * @returns {Paged<T>}
 */
export function usePaged(form, path, name, query, asked) {
  /** @type {{items: T[] | null, next: string, total?: number}} */
  const nothing = { items: null, next: '' };
  const [state, setState] = useState(nothing);
  const [run, busy, error] = useTask();
  const last = useRef({ cursor: '', before: /** @type {T[]} */ ([]) });
  /**
   * @param {string} cursor
   * @param {T[]} before
   */
  const load = (cursor, before) => run(async () => {
    last.current = { cursor, before };
    const search = new URLSearchParams(
      Object.entries({ limit: String(LIMIT), ...query, cursor }).filter(([, value]) => value),
    );
    const page = await call(form, 'GET', `${path}?${search}`, { asked: asked(query) });
    mustFit(before.length || page.next || page.total === undefined || page.total === page[name].length,
      `it counts ${page.total} ${name} and lists ${page[name].length}`);
    setState({ items: [...before, ...page[name]], next: page.next ?? '', total: page.total });
  });
  useEffect(() => { load('', []); }, [JSON.stringify(query)]);
  return {
    items: state.items, total: state.total, hasMore: Boolean(state.next), busy, error,
    more: () => load(state.next, state.items ?? []),
    reload: () => load('', []),
    retry: () => load(last.current.cursor, last.current.before),
  };
}
