// @ts-check
// Start: get in; then an overview, and the first steps as lines to type.
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { companyCreated } from '../core/answers.js';
import { PERSON, call, getCredential } from '../core/api.js';
import { href } from '../core/router.js';
import { session, signIn } from '../core/session.js';
import { useStore } from '../core/store.js';
import { CopyButton, Failure, Field, Notice, Page, Value, useTask } from '../parts/basic.js';
import { lazy } from '../parts/lazy.js';
import { StaySignedIn, SignInForm, SignedOut } from '../parts/sign_in.js';

const Welcome = lazy('', () => import('../parts/welcome.js').then((m) => m.Welcome));
const Overview = lazy('', () => import('../parts/overview.js').then((m) => m.Overview));

/** @param {{onKey: (key: string) => void}} props */
function Register({ onKey }) {
  const [companyId, setCompanyId] = useState('');
  const [stay, setStay] = useState(false);
  const [run, busy, error] = useTask();
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    run(async () => {
      const made = await call(companyCreated, 'POST', '/v1/companies', { asked: { companyId }, body: { companyId } });
      onKey(made.apiKey);
      await signIn(made.apiKey, stay);
    });
  };
  return html`
    <form class="card" onSubmit=${submit}>
      <h2>Register a company</h2>
      <p class="muted">Creates a signing key, an empty log and an API key.</p>
      <${Field} label="Company ID" hint="Letters, digits, dot, hyphen and underscore; it is permanent.">
        ${(
          props,
        ) => html`<input ...${props} class="input" name="companyId" required autocomplete="off" spellcheck="false"
          placeholder="acme"
          value=${companyId} onInput=${(e) => setCompanyId(e.target.value)} />`}
      <//>
      <${StaySignedIn} stay=${stay} setStay=${setStay} />
      <${Failure} error=${error} />
      <div><button class="button primary" disabled=${busy}>Register</button></div>
    </form>`;
}

/**
 * Lines for a shell. None of them has the key itself, so that they can be shown and shared.
 * @param {string} base
 */
function steps(base) {
  const auth = `-H "Authorization: Bearer $KEY"`;
  return [
    {
      title: 'Register an agent',
      to: 'agents',
      line: `curl -s ${base}/v1/agents/register ${auth} \\\n  -d '{"agentId":"agent-1"}'`,
    },
    {
      title: 'Attest what it does',
      to: 'live',
      line: `curl -s ${base}/v1/attest ${auth} \\\n  -d ` +
        `'{"agentId":"agent-1","actionType":"hello","payload":{"to":"world"}}'`,
    },
    { title: 'Verify the whole chain', to: 'verify', line: `curl -s ${base}/v1/verify ${auth}` },
    { title: 'Prove one record', to: 'proof', line: `curl -s ${base}/v1/proof/0 ${auth}` },
  ];
}

function FirstRun() {
  return html`
    <section class="stack aside">
      <h2>First steps</h2>
      <p class="muted">Set the key in your shell once, then run these commands. Each shows up in the linked page.</p>
      <ol class="stack guide">
        <li class="guide-step">
          <div class="card-head"><h3>Set the key</h3>
            ${getCredential() === PERSON ? html`<a class="button quiet small" href=${href('keys')}>Create a key</a>`
              : html`<${CopyButton} text=${`export KEY='${getCredential()}'`} what="the line with your key"
                label="Copy with key" />`}</div>
          <pre class="code" tabindex="0" aria-label="Command that sets the key">export KEY='…'</pre>
        </li>
        ${steps(location.origin).map((s) => html`
          <li class="guide-step">
            <div class="card-head"><h3>${s.title}</h3>
              <span class="buttons"><a class="button quiet small" href=${href(s.to)}>Open ${s.to}</a>
                <${CopyButton} text=${s.line} what="the command: ${s.title}" /></span></div>
            <pre class="code" tabindex="0" aria-label="Command: ${s.title}">${s.line}</pre>
          </li>`)}
      </ol>
    </section>`;
}

// Over plain HTTP from another machine, an attacker on the way reads the key and can change this
// very page.
const Insecure = () => !isSecureContext && html`
  <div data-insecure><${Notice} kind="warn">
    <strong>This page came over plain HTTP.</strong> Anyone on the network path can read a key that you enter here, and
      can change what this page shows. Use HTTPS, or a tunnel to this machine.<//></div>`;

const STAYS = 'You stay signed in after reloads and in new tabs, until the last tab closes or you sign out.';
const STAYS_NOT = 'The key is only in this page’s memory; a reload signs you out.';

export function Start() {
  const { company, key, staySignedIn } = useStore(session);
  const [newKey, setNewKey] = useState('');
  if (!company || !key) {
    return html`
      <${Page} title="Tamper-evident logs of what your AI agents do"
        lead="Every record here is signed and linked into a Merkle tree. This console recomputes hashes, signatures and
          proofs in your browser, so you don’t have to trust the server.">
        <${SignedOut} /><${Insecure} />
        <${Welcome} onKey=${setNewKey} />
        <div class="columns"><${Register} onKey=${setNewKey} /><${SignInForm} /></div>
        <p class="small muted without-key"><span>Without a key:</span>
          <a href=${href('proof')}>check an evidence file</a><a href=${href('passports')}>inspect a token</a>
            <a href=${href('reference')}>read the API’s reference</a></p>
      <//>`;
  }
  return html`
    ${newKey && html`
      <section class="card">
        <h2>Your first API key</h2>
        <p class="muted">Anyone who has it can act for the company. It is also under
          ${' '}<a href=${href('keys')}>API keys</a>, for those who are signed in as an admin.</p>
        <${Value} value=${newKey} what="API key" />
        <div><button type="button" class="button" onClick=${() => setNewKey('')}>I’ve saved it</button></div>
      </section>`}
    <${Insecure} />
    <${Overview} companyKey=${key}><${FirstRun} /><//>
    <p class="small muted">${staySignedIn ? STAYS : STAYS_NOT}</p>`;
}
