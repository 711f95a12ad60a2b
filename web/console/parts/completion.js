// @ts-check
// What can be typed into a search field: agents or actions that the server knows, as a list that
// the browser offers with the field. Any other text can be typed as well.
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { completer } from '../core/completion.js';

const TYPING = 200; // ms without a key before the server is asked

/**
 * The list of a field with the attribute list=${id}, for what is typed there. Nothing is asked
 * before the field is used.
 * @param {{id: string, kind: 'agent' | 'action'}} props
 */
export function Completion({ id, kind }) {
  const [found, setFound] = useState(/** @type {string[]} */ ([]));
  useEffect(() => {
    const field = document.querySelector(`input[list="${CSS.escape(id)}"]`);
    if (!(field instanceof HTMLInputElement)) return;
    const find = completer(kind);
    let timer = 0;
    let stop = new AbortController();
    let asked = /** @type {string | null} */ (null);
    const ask = () => {
      clearTimeout(timer);
      timer = window.setTimeout(async () => {
        const typed = field.value.trim();
        if (typed === asked) return;
        asked = typed;
        stop.abort();
        stop = new AbortController();
        const { signal } = stop;
        try {
          const names = await find(typed, signal);
          if (!signal.aborted) setFound(names);
        } catch {
          if (!signal.aborted) asked = null; // who types goes on without a list
        }
      }, TYPING);
    };
    field.addEventListener('focus', ask);
    field.addEventListener('input', ask);
    return () => {
      clearTimeout(timer);
      stop.abort();
      field.removeEventListener('focus', ask);
      field.removeEventListener('input', ask);
    };
  }, [id, kind]);
  return html`<datalist id=${id}>${found.map((name) => html`<option key=${name} value=${name}></option>`)}</datalist>`;
}
