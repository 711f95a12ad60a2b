// Lists that this browser keeps beyond the page.
import { list, read } from '../lib/form.js';
import { store } from './store.js';

/**
 * A list of entries of a form, kept in localStorage by a name: a store of {all}, with change(f), which puts f(all) in its place. What other tabs
 * change is seen here. Without storage it lasts as long as the page.
 */
export function keptList(name, form) {
  let alone = false; // whether what is here could not be written

  function stored(otherwise) {
    if (alone) return otherwise;
    try {
      return read(list(form), localStorage.getItem(name) ?? '[]', name);
    } catch {
      return otherwise; // no storage, or not what was put there
    }
  }

  const state = store({ all: stored([]) });
  globalThis.addEventListener?.('storage', ({ key }) => { if (key === name) state.set({ all: stored(state.get().all) }); });
  return {
    ...state,
    change(f) {
      const all = f(stored(state.get().all)); // another tab may have written just now
      try {
        localStorage.setItem(name, JSON.stringify(all));
      } catch {
        alone = true;
      }
      state.set({ all });
    },
  };
}
