// @ts-check
// For whom the company exchanges tokens: what is named, and its change.
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { MOST_AUDIENCES, readExchangeAudiences, setExchangeAudiences } from '../core/company_policy.js';
import { Failure, Field, useTask } from './basic.js';
import { Confirm } from './dialogs.js';
import { Text } from './text.js';

export function ExchangeAudiences() {
  const [now, setNow] = useState(/** @type {string[] | null} */ (null));
  const [typed, setTyped] = useState('');
  const [adding, setAdding] = useState('');
  const [run, busy, error] = useTask();
  const load = () => run(async () => setNow(await readExchangeAudiences()));
  useEffect(() => { load(); }, []);
  /** @param {string[]} next */
  const set = async (next) => {
    await setExchangeAudiences(next);
    await load();
  };
  return html`
    <section class="card" aria-label="Exchanges for others" data-audiences=${now?.length ?? ''}>
      <div class="card-head"><h2>Exchanges for others</h2></div>
      <${Failure} error=${error} retry=${load} />
      ${now && html`
        <p>${now.length === 0 ? 'Tokens of the company are exchanged for this service alone.'
          : 'An agent that acts for another gets tokens for:'}</p>
        ${now.length > 0 && html`<ul class="rows">${now.map((name) => html`
          <li key=${name} class="row-button"><code><${Text} of=${name} /></code>
            <span class="row-side"><button type="button" class="button small danger" disabled=${busy}
              aria-label="Remove ${name}" onClick=${() => run(() => set(now.filter((one) => one !== name)))}>
              Remove</button></span></li>`)}</ul>`}
        ${now.length < MOST_AUDIENCES && html`
          <form class="stack" onSubmit=${(/** @type {Event} */ event) => {
            event.preventDefault();
            setAdding(typed.trim());
          }}>
            <${Field} label="Audience" hint="An https URL, or another name of who takes the token.">
              ${(p) => html`<input ...${p} class="input" name="audience" required autocomplete="off" spellcheck="false"
                value=${typed} onInput=${(e) => setTyped(e.target.value)} />`}<//>
            <div><button class="button" disabled=${busy}>Name it…</button></div>
          </form>`}`}
      ${now && adding && html`
        <${Confirm} title="Exchange tokens for this audience?" action="Name the audience" onClose=${() => setAdding('')}
          act=${async () => {
            await set([...now, adding]);
            setTyped('');
          }}>
          <p>An agent that acts for another gets a token for <code><${Text} of=${adding} /></code> whose subject is the
            other one. Most who verify such tokens do not read <code>act</code>, which says who presents it: to them the
            agent is the other one.</p><//>`}
    </section>`;
}
