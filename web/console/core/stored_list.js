// @ts-check
// Lists that this browser keeps beyond the page.
import { list, read } from '../lib/form.js';
import { store } from './store.js';

/**
 * A list of entries of a form, stored in localStorage under a name: a store of {all}, with
 * change(f), which puts f(all) in its place. What other tabs change is seen here. Without storage
 * it lasts as long as the page.
 * @template T
 * @param {string} name
 * @param {Form<T>} form
 * @returns {Store<{all: T[]}> & {change(f: (all: T[]) => T[]): void}}
 */
export function storedList(name, form) {
  let alone = false; // whether what is here could not be written
  /** @type {{text: string, all: T[]}} */
  let known = { text: '[]', all: [] }; // what was read or written last

  /** @param {T[]} otherwise */
  function stored(otherwise) {
    if (alone) return otherwise;
    try {
      const text = localStorage.getItem(name) ?? '[]';
      if (text !== known.text) known = { text, all: read(list(form), text, name) };
      return known.all;
    } catch {
      return otherwise; // no storage, or not what was put there
    }
  }

  const state = store({ all: stored([]) });
  globalThis.addEventListener?.('storage', ({ key }) => {
    if (key === name) state.set({ all: stored(state.get().all) });
  });
  return {
    ...state,
    change(f) {
      const all = f(stored(state.get().all)); // another tab may have written just now
      try {
        known = { text: JSON.stringify(all), all };
        localStorage.setItem(name, known.text);
      } catch {
        alone = true;
      }
      state.set({ all });
    },
  };
}
