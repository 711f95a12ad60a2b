// @ts-check
// The form that signs in: on Start, and in place of every page that needs it, so that the page's
// URL stays as it is.
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { href, route } from '../core/router.js';
import { restore, session, signIn, signedIn } from '../core/session.js';
import { useStore } from '../core/store.js';
import { confirm } from '../core/trust.js';
import { Failure, Field, Notice, Page, useTask } from './basic.js';
import { Text } from './text.js';

/** @param {{stay: boolean, setStay: (stay: boolean) => void}} props */
export function StaySignedIn({ stay, setStay }) {
  return html`
    <label class="check"><input type="checkbox" checked=${stay} onChange=${(e) => setStay(e.target.checked)} />
      <span>Stay signed in until the last tab closes<br />
        <small class="muted">Each tab stores the key and shares it with new tabs of this browser. Signing out in one tab
          signs out all.</small></span></label>`;
}

/** Signs in as a person, in the ways that this server offers. */
function PersonButtons() {
  const [Ways, set] = useState(/** @type {(() => any)[]} */ ([]));
  useEffect(() => { import('./ways.js').then((m) => set([m.Ways]), () => {}); }, []);
  return Ways.map((W) => html`<${W} />`);
}

export function SignInForm() {
  const [key, setKey] = useState('');
  const [stay, setStay] = useState(false);
  const [run, busy, error] = useTask();
  const { fingerprint } = useStore(route).query;
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    const { back } = session.get();
    const atStart = route.get().page === 'start';
    run(async () => {
      await signIn(key.trim(), stay);
      if (fingerprint) confirm(signedIn().key, fingerprint);
      if (back && atStart) location.hash = back;
    });
  };
  return html`
    <form class="card" onSubmit=${submit}>
      <h2>Sign in</h2>
      <${PersonButtons} />
      <p class="muted">Or use an API key or an OAuth access token of an existing company.</p>
      <${Field} label="API key" hint="It stays in this page’s memory unless you choose to stay signed in.">
        ${(
          props,
        ) => html`<input ...${props} class="input" name="key" type="password" required autocomplete="off"
          spellcheck="false" placeholder="svc_…"
          value=${key} onInput=${(e) => setKey(e.target.value)} />`}
      <//>
      ${fingerprint && html`<p class="small">Confirms the signing key <code><${Text} of=${fingerprint} /></code> of the
        link. Compare it with what your terminal printed.</p>`}
      <${StaySignedIn} stay=${stay} setStay=${setStay} />
      <${Failure} error=${error} />
      <div><button class="button" disabled=${busy}>Sign in</button></div>
    </form>`;
}

/** Why the user is signed out; and of a page that anybody may read, where to sign in. */
export function SignedOut({ link = false }) {
  const { status, message, waits } = useStore(session);
  if (status !== 'out' || !message) return null;
  const actions = waits
    ? html`<button type="button" class="button small retry" onClick=${restore}>Retry</button>`
    : link && html`<a class="button small" href=${href('start')}>Sign in</a>`;
  return html`<div data-signed-out><${Notice} kind="bad" actions=${actions}>${message}<//></div>`;
}

/**
 * In place of a page that shows one company's data. A user who signs in on Start instead comes back
 * here.
 */
export function SignInFirst() {
  useEffect(() => {
    if (!session.get().back) session.set({ back: location.hash });
  }, []);
  return html`
    <${Page} title="Sign in first" lead="This page shows one company’s data. It opens as soon as you are signed in.">
      <${SignedOut} />
      <div class="columns"><${SignInForm} />
        <section class="card plain"><h2>No key yet?</h2><p class="muted">Register a company to get its first key.</p>
          <div><a class="button" href=${href('start')}>Register a company</a></div></section></div>
    <//>`;
}
