// @ts-check
// How people sign in here: with a passkey, or with an account at the identity provider of the
// server, where that has one.
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { readWays, signInHere } from '../core/people.js';
import { Failure, useTask } from './basic.js';

export function Ways() {
  const [run, busy, error] = useTask();
  const [hasAccounts, setAccounts] = useState(false);
  useEffect(() => { readWays().then(({ oidc }) => setAccounts(oidc), () => {}); }, []);
  return html`
    <div class="buttons"><button type="button" class="button primary" disabled=${busy} onClick=${() => run(signInHere)}>
        Sign in with a passkey</button>
      ${hasAccounts && html`<a class="button" href=${'/v1/people/oidc'}>Sign in with your company’s account</a>`}</div>
    <${Failure} error=${error} />`;
}
