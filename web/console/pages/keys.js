// Keys and OAuth clients: what opens the company's doors. And the key with which it signs.
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import * as answers from '../core/answers.js';
import { call, getCredential } from '../core/api.js';
import { localTime } from '../core/format.js';
import { signOut } from '../core/session.js';
import { sha256hex } from '../lib/sha256.js';
import { visible } from '../lib/visible.js';
import { Badge, CopyButton, Failure, Field, Notice, Page, Value, useTask } from '../parts/basic.js';
import { Confirm } from '../parts/dialogs.js';
import { Grant, grants, useGrant } from '../parts/grant.js';
import { Text, withText } from '../parts/text.js';
import { RotateKey } from './rotate_key.js';

/** The keys and the clients of the company, each with what it was made for. */
async function readAll() {
  const [{ keys }, { clients }, given] = await Promise.all([
    call(answers.keyList, 'GET', '/v1/keys'),
    call(answers.clientList, 'GET', '/v1/oauth/clients'),
    grants(),
  ]);
  return {
    keys: await Promise.all(keys.map(async (k) => ({ ...k, grant: given.get((await sha256hex(k.key)).slice(0, 16)) }))),
    clients: clients.map((c) => ({ ...c, grant: given.get(c.clientId) })),
  };
}

/** Whether a key opens every door for ever: a company always has one that does. */
const lasting = (k) => k.grant?.role === 'admin' && !k.grant.expiresAt;

const masked = (key) => `${key.slice(0, key.indexOf('_') + 1)}${'•'.repeat(12)}${key.slice(-4)}`;

function KeyRow({ entry, last, onDelete }) {
  const [shown, setShown] = useState(false);
  const own = entry.key === getCredential();
  const name = visible(entry.label ?? 'without a label');
  return html`
    <tr data-key-label=${visible(entry.label ?? '')}>
      <td data-label="Label">${withText(entry.label) ?? html`<span class="muted">no label</span>`} ${own && html`<${Badge}>in use here<//>`}</td>
      <td data-label="Key"><code><${Text} of=${shown ? entry.key : masked(entry.key)} /></code></td>
      <td data-label="Role"><${Grant} of=${entry.grant} /></td>
      <td data-label="Created" class="nowrap">${localTime(entry.createdAt)}</td>
      <td><div class="buttons">
        <button type="button" class="button small quiet" aria-pressed=${shown ? 'true' : 'false'} aria-label="${shown ? 'Hide' : 'Reveal'} key ${name}" onClick=${() => setShown(!shown)}>${shown ? 'Hide' : 'Reveal'}</button>
        <${CopyButton} text=${entry.key} what="key ${name}" />
        <button type="button" class="button small danger" disabled=${last} aria-label="Delete key ${name}" onClick=${() => onDelete(entry)}>Delete</button>
      </div></td>
    </tr>`;
}

function APIKeys({ keys, load }) {
  const [label, setLabel] = useState('');
  const [made, setMade] = useState('');
  const [deleting, setDeleting] = useState(null);
  const [run, busy, error] = useTask();
  const [grantFields, grantMembers] = useGrant();
  const create = (event) => {
    event.preventDefault();
    run(async () => {
      setMade((await call(answers.keyCreated, 'POST', '/v1/keys', { body: { label: label.trim() || null, ...grantMembers() } })).key);
      setLabel('');
      await load();
    });
  };
  const remove = async () => {
    const own = deleting.key === getCredential();
    await call(answers.nothing, 'DELETE', `/v1/keys/${encodeURIComponent(deleting.key)}`);
    if (own) signOut('You deleted the key that you were signed in with.');
    else await load();
  };
  const onlyOne = keys?.filter(lasting).length === 1;
  return html`
    <section class="card" aria-label="API keys">
      <div class="card-head"><h2>API keys</h2></div>
      ${keys && html`
        <table class="table">
          <thead><tr><th>Label</th><th>Key</th><th>Role</th><th>Created</th><th><span class="visually-hidden">Actions</span></th></tr></thead>
          <tbody>${keys.map((k) => html`<${KeyRow} key=${k.key} entry=${k} last=${onlyOne && lasting(k)} onDelete=${setDeleting} />`)}</tbody>
        </table>
        ${onlyOne && html`<p class="small muted">The last admin key that does not expire cannot be deleted: nobody could get in any more. Create another one first.</p>`}`}
      <form class="filters" onSubmit=${create}>
        <${Field} label="Label of a new key">${(p) => html`<input ...${p} class="input" name="label" value=${label} onInput=${(e) => setLabel(e.target.value)} />`}<//>
        ${grantFields}
        <button class="button primary" disabled=${busy}>Create key</button>
      </form>
      <${Failure} error=${error} />
      ${made && html`<${Notice}>The new key:<//><${Value} value=${made} what="new key" />`}
      ${deleting && html`
        <${Confirm} title="Delete this key?" action="Delete key" act=${remove} onClose=${() => setDeleting(null)}>
          <p>Key <strong><${Text} of=${deleting.label ?? masked(deleting.key)} /></strong> stops working at once, wherever it is used. This cannot be taken back.
            ${deleting.key === getCredential() && html` <strong>You are signed in with it, and will be signed out.</strong>`}</p>
        <//>`}
    </section>`;
}

function OAuthClients({ clients, load }) {
  const [made, setMade] = useState(null);
  const [run, busy, error] = useTask();
  const [grantFields, grantMembers] = useGrant();
  const create = (event) => {
    event.preventDefault();
    run(async () => {
      setMade(await call(answers.clientCreated, 'POST', '/v1/oauth/clients', { body: grantMembers() }));
      await load();
    });
  };
  return html`
    <section class="card" aria-label="OAuth clients">
      <div class="card-head"><h2>OAuth clients</h2></div>
      <p class="muted small">A client exchanges its ID and secret at <code>/v1/oauth/token</code> for a token that lasts an hour and opens what an API key of the client’s role opens.</p>
      <form class="filters" onSubmit=${create}>
        ${grantFields}
        <button class="button primary" disabled=${busy}>Create client</button>
      </form>
      <${Failure} error=${error} />
      ${made && html`
        <${Notice}>The secret is shown only now.<//>
        <div class="stack tight"><h3>Client ID</h3><${Value} value=${made.clientId} what="client ID" /></div>
        <div class="stack tight"><h3>Client secret</h3><${Value} value=${made.clientSecret} what="client secret" /></div>`}
      ${clients?.length === 0 && html`<p class="empty">No client yet.</p>`}
      ${clients?.length > 0 && html`
        <table class="table"><thead><tr><th>Client ID</th><th>Role</th><th>Created</th></tr></thead>
          <tbody>${clients.map((c) => html`<tr key=${c.clientId}><td data-label="Client ID"><code><${Text} of=${c.clientId} /></code></td><td data-label="Role"><${Grant} of=${c.grant} /></td><td data-label="Created" class="nowrap">${localTime(c.createdAt)}</td></tr>`)}</tbody></table>`}
    </section>`;
}

export function Keys() {
  const [all, setAll] = useState(null); // null for who may not read them: they are an admin's
  const [run, , error] = useTask();
  const load = () => run(async () => setAll(await readAll()));
  useEffect(() => { load(); }, []);
  return html`
    <${Page} title="Keys" lead="Any admin key of the company may create and delete its keys. What is deleted is refused from the next request on.">
      <${Failure} error=${error} />
      <${APIKeys} keys=${all?.keys} load=${load} /><${OAuthClients} clients=${all?.clients} load=${load} />
      ${all && html`<${RotateKey} />`}
    <//>`;
}
