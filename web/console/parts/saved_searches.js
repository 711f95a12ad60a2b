// @ts-check
// The searches over records that have a name in this browser: opened, removed, and made of what is
// searched for now.
import { html, useEffect, useRef, useState } from '../vendor/preact-htm.js';
import { href } from '../core/router.js';
import { queryOf, removeSearch, saveSearch, savedSearches, searchesOf } from '../core/saved_searches.js';
import { useSignedIn } from '../core/session.js';
import { useStore } from '../core/store.js';
import { Field, Icon } from './basic.js';
import { Text } from './text.js';

/** @param {{query: Query}} props */
export function SavedSearches({ query }) {
  const { company: { companyId } } = useSignedIn();
  const saved = searchesOf(companyId, useStore(savedSearches));
  const [naming, setNaming] = useState(false);
  const [flaw, setFlaw] = useState('');
  const box = useRef(null);
  useEffect(() => { if (naming) box.current.querySelector('input').focus(); }, [naming]);
  const asked = JSON.stringify(queryOf(query));
  const canSave = asked !== '{}' && !saved.some((one) => JSON.stringify(queryOf(one.query)) === asked);
  /** @param {SubmitEvent} event */
  const save = (event) => {
    event.preventDefault();
    const input = /** @type {HTMLFormElement} */ (event.target).elements.namedItem('name');
    const wrong = saveSearch(companyId, /** @type {HTMLInputElement} */ (input).value, query);
    setFlaw(wrong);
    if (wrong) return /** @type {HTMLInputElement} */ (input).focus();
    setNaming(false);
    box.current.focus();
  };
  /** @param {string} name */
  const remove = (name) => {
    removeSearch(companyId, name);
    box.current.focus();
  };
  if (!saved.length && !canSave) return null;
  return html`
    <section class="saved" aria-label="Saved searches" tabindex="-1" ref=${box} data-saved=${saved.length}>
      ${saved.length > 0 && html`<ul>${saved.map(({ name, query: of }) => html`
        <li key=${name}><a href=${href('records', '', of)}
          aria-current=${JSON.stringify(queryOf(of)) === asked ? 'true' : undefined}><${Text} of=${name} /></a>
          <button type="button" class="button quiet small" aria-label="Remove the saved search ${name}"
            onClick=${() => remove(name)}><${Icon} name="bad" /></button></li>`)}</ul>`}
      ${canSave && !naming && html`<button type="button" class="button small" onClick=${() => setNaming(true)}>
        Save this search</button>`}
      ${canSave && naming && html`<form class="filters" onSubmit=${save}>
        <${Field} label="Name of the search" hint=${flaw}>${(p) => html`<input ...${p} class="input" name="name"
          maxlength="60" autocomplete="off" aria-invalid=${flaw ? 'true' : undefined} />`}<//>
        <div class="buttons"><button class="button small primary">Save</button>
          <button type="button" class="button small" onClick=${() => setNaming(false)}>Cancel</button></div></form>`}
    </section>`;
}
