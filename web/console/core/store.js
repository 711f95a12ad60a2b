// @ts-check
// A value that components watch.
import { useLayoutEffect, useReducer } from '../vendor/preact-htm.js';

/**
 * {get, set(patch), subscribe(f) → unsubscribe}; set merges into a fresh object.
 * @template {object} T
 * @param {T} initial
 * @returns {Store<T>}
 */
export function store(initial) {
  let state = initial;
  const watchers = new Set();
  return {
    get: () => state,
    set(patch) {
      state = { ...state, ...patch };
      for (const watch of [...watchers]) watch();
    },
    subscribe(watch) {
      watchers.add(watch);
      return () => watchers.delete(watch);
    },
  };
}

/**
 * The state of a store; the component renders again when it changes.
 * @template T
 * @param {Store<T>} source
 * @returns {T}
 */
export function useStore(source) {
  const [, rerender] = useReducer((n) => n + 1, 0);
  useLayoutEffect(() => source.subscribe(rerender), [source]);
  return source.get();
}
