// @ts-check
// Join: what an invitation opens, and where the identity provider leads back to. The invitation is
// behind the # of the address, so that it is in no request line and no log.
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { begin, hasPasskeys, join, underName } from '../core/people.js';
import { href } from '../core/router.js';
import { session } from '../core/session.js';
import { useStore } from '../core/store.js';
import { Failure, Field, Notice, Page, useTask } from '../parts/basic.js';
import { Text } from '../parts/text.js';

const FIELDS = [
  ['companyId', 'Company ID', 'Letters, digits, dot, hyphen and underscore; it is permanent.', 'organization'],
  ['personId', 'Your ID in the company', 'As records will name you, such as alice; it is permanent.', 'username'],
  ['name', 'Your name', '', 'name'],
];

/**
 * What the first person of a server says. Everybody else was named by who invited them.
 * @param {{form: Record<string, string>, set: (form: Record<string, string>) => void}} props
 */
const First = ({ form, set }) => FIELDS.map(([name, label, hint, autocomplete]) => html`
  <${Field} label=${label} hint=${hint}>
    ${(p) => html`<input ...${p} class="input" name=${name} required autocomplete=${autocomplete} spellcheck="false"
      value=${form[name] ?? ''} onInput=${(e) => set({ ...form, [name]: e.target.value })} />`}<//>`);

/** Takes up the session of somebody who comes back from the identity provider. */
function Back() {
  const [run, , error] = useTask();
  useEffect(() => { run(async () => { await begin(); location.hash = href('start'); }); }, []);
  return html`<${Page} title="Signing in"><${Failure} error=${error} />
    ${error && html`<p><a href=${href('start')}>Sign in again</a></p>`}<//>`;
}

/** @param {{argument: string}} props */
export const Join = ({ argument }) =>
  (argument === 'signed-in' ? html`<${Back} />` : html`<${Invited} invitation=${argument} />`);

/** @param {{invitation: string}} props */
function Invited({ invitation }) {
  const [first, setFirst] = useState(false);
  const [form, setForm] = useState(/** @type {Record<string, string>} */ ({}));
  const [run, busy, error] = useTask();
  const { status, company } = useStore(session);
  const named = underName();
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    run(async () => {
      try {
        await join({ invitation, ...(first && form) });
      } catch (err) {
        if (err.code !== 'COMPANY_REQUIRED') throw err;
        setFirst(true); // it makes the first company
        return;
      }
      location.hash = href('start');
    });
  };
  if (status === 'in' && company)
    return html`<${Page} title="You are signed in" lead="An invitation is for somebody who is not.">
      <p>Sign out of <${Text} of=${company.companyId} /> first, or go to the
        ${' '}<a href=${href('start')}>overview</a>.</p><//>`;
  return html`
    <${Page} title=${first ? 'Your company' : 'You are invited'}
      lead="Make a passkey on this device. It replaces a password and an API key, and it never leaves the device.">
      ${named && html`<${Notice} kind="warn">Passkeys need a host name.
        ${' '}<a href=${named}>Open this page on localhost</a>.<//>`}
      ${!named && !hasPasskeys() && html`<${Notice} kind="bad">Passkeys work on this page only over HTTPS and under a
        host name.<//>`}
      <form class="card" onSubmit=${submit}>
        ${first && html`<${First} form=${form} set=${setForm} />`}
        <${Failure} error=${error} />
        <div><button class="button primary" disabled=${busy || !hasPasskeys()}>
          ${first ? 'Create the company and a passkey' : 'Make a passkey'}</button></div>
      </form><//>`;
}
