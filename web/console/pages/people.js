// @ts-check
// People: who may sign in to the console, with which passkeys, and where oneself is signed in.
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { timeText } from '../core/format.js';
import {
  addPasskey,
  changePerson,
  createPerson,
  endAll,
  endOne,
  invite,
  isPerson,
  readMe,
  readPeople,
  readPerson,
  readSessions,
  revokePasskey,
} from '../core/people.js';
import { signOut } from '../core/session.js';
import { Badge, Failure, Field, Notice, Page, Value, useTask } from '../parts/basic.js';
import { Confirm } from '../parts/dialogs.js';
import { Listed, useListed } from '../parts/listed.js';
import { Text } from '../parts/text.js';

const ROLES = ['admin', 'approver', 'reader'];

/**
 * @param {Person} person
 * @returns {ListedItem}
 */
const listedPerson = ({ disabledAt, ...lists }) =>
  ({ subject: `person:${lists.personId}`, lists: { ...lists, disabledAt } });

/** @param {string} text */
const names = (text) => text.split(',').map((s) => s.trim()).filter(Boolean);

/** @param {{credentialId: string}} passkey */
const short = ({ credentialId }) => credentialId.slice(0, 12);

/**
 * Passkeys of a person.
 * @param {{of: Person, change: () => unknown}} props
 */
function Passkeys({ of, change }) {
  const [going, setGoing] = useState('');
  const held = (of.passkeys ?? []).filter((k) => !k.revokedAt);
  if (!of.passkeys) return null;
  return html`
    ${held.length === 0 && html`<p class="muted small">No passkey yet: invite this person to make one.</p>`}
    ${held.length > 0 && html`
      <table class="table"><thead><tr><th>Passkey</th><th>Since</th><th>Synced</th><th></th></tr></thead>
        <tbody>${held.map((k) => html`<tr data-passkey=${k.credentialId}>
          <td data-label="Passkey"><code class="break" title=${k.fingerprint}>
            <${Text} of=${short(k)} />…</code></td>
          <td data-label="Since">${timeText(k.createdAt, 16)}</td>
          <td data-label="Synced">${k.backupEligible ? 'can be' : 'stays on its device'}</td>
          <td><button type="button" class="button small danger" aria-label="Revoke passkey ${short(k)}"
            onClick=${() => setGoing(k.credentialId)}>Revoke</button></td></tr>`)}</tbody></table>`}
    ${going && html`
      <${Confirm} title="Revoke this passkey?" action="Revoke" onClose=${() => setGoing('')}
        act=${async () => { await revokePasskey(of.personId, going); await change(); }}>
        <p>Nobody can sign in with it again, and the sessions that it began end.</p><//>`}`;
}

/** @param {{of: Person, load: () => unknown}} props */
function One({ of, load }) {
  const [whole, setWhole] = useState(/** @type {Person | null} */ (null));
  const [link, setLink] = useState(/** @type {{url: string, expiresAt: string} | null} */ (null));
  const [run, busy, error] = useTask();
  const read = async () => setWhole(await readPerson(of.personId));
  const ask = () => run(async () => setLink(await invite(of.personId)));
  const change = () => run(async () => {
    await changePerson(of.personId, { disabled: !of.disabledAt });
    await load();
  });
  return html`
    <section class="card" aria-label="Person ${of.personId}" data-person=${of.personId}>
      <div class="card-head"><h2 class="break"><${Text} of=${of.name} /></h2>
        <div class="buttons">
          <button type="button" class="button small" disabled=${busy} onClick=${ask}>Invite</button>
          <button type="button" class="button small" disabled=${busy} onClick=${change}>
            ${of.disabledAt ? 'Enable' : 'Disable'}</button></div></div>
      <p class="small"><code><${Text} of=${of.personId} /></code>
        ${' '}${of.disabledAt && html`<${Badge}>disabled<//>`}
        ${' '}${of.roles.join(', ')}${of.groups.length > 0 && html` · in <${Text} of=${of.groups.join(', ')} />`}
        ${of.email && html` · <${Text} of=${of.email} />`}</p>
      <${Failure} error=${error} />
      ${link && html`
        <${Notice}>Send this link to <${Text} of=${of.name} /> over a channel that nobody else reads. It works once,
          until ${timeText(link.expiresAt, 16)}.<//><${Value} value=${link.url} what="invitation" />`}
      <details onToggle=${() => whole ?? run(read)}><summary>Passkeys</summary>
        ${whole && html`<${Passkeys} of=${whole} change=${read} />`}</details>
    </section>`;
}

/** @param {{load: () => unknown}} props */
function New({ load }) {
  const empty = { personId: '', name: '', email: '', groups: '', role: 'reader' };
  const [form, setForm] = useState(empty);
  const [run, busy, error] = useTask();
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    run(async () => {
      await createPerson({
        personId: form.personId.trim(), name: form.name.trim(), roles: [form.role], groups: names(form.groups),
        ...(form.email.trim() && { email: form.email.trim() }),
      });
      setForm(empty);
      await load();
    });
  };
  /**
   * @param {keyof typeof empty} name
   * @param {string} label
   * @param {string} hint
   */
  const input = (name, label, hint) => html`
    <${Field} label=${label} hint=${hint}>
      ${(p) => html`<input ...${p} class="input" name=${name} required=${name === 'personId' || name === 'name'}
        autocomplete="off" spellcheck="false" value=${form[name]}
        onInput=${(e) => setForm({ ...form, [name]: e.target.value })} />`}<//>`;
  return html`
    <section class="card no-print" aria-label="New person">
      <h2>New person</h2>
      <form class="stack" onSubmit=${submit}>
        ${input('personId', 'ID', 'As records will name this person, such as alice.')}
        ${input('name', 'Name', '')}
        ${input('email', 'E-mail (optional)', '')}
        ${input('groups', 'Groups (optional)', 'Separated by commas; policies name them as approvers.')}
        <${Field} label="Role" hint="An admin changes everything; an approver and a reader read.">
          ${(p) => html`<select ...${p} class="input" name="role" value=${form.role}
            onChange=${(e) => setForm({ ...form, role: e.target.value })}>
            ${ROLES.map((role) => html`
              <option value=${role} selected=${role === form.role}>${role}</option>`)}</select>`}<//>
        <${Failure} error=${error} />
        <div><button class="button primary" disabled=${busy}>Create</button></div>
      </form>
    </section>`;
}

/** The person who is signed in: passkeys and sessions. */
function Me() {
  const [me, setMe] = useState(/** @type {Person | null} */ (null));
  const [sessions, setSessions] = useState(/** @type {PersonSession[]} */ ([]));
  const [run, busy, error] = useTask();
  const load = async () => {
    setMe(await readMe());
    setSessions(await readSessions());
  };
  useEffect(() => { run(load); }, []);
  const add = () => run(async () => {
    await addPasskey();
    await load();
  });
  /** @param {PersonSession} one */
  const end = (one) => run(async () => {
    if (one.present) return signOut();
    await endOne(one.sessionId);
    return load();
  });
  const everywhere = () => run(async () => {
    await endAll();
    signOut('You signed out everywhere.');
  });
  return html`
    <section class="card" aria-label="You" data-me>
      <div class="card-head"><h2>You${me && html`: <${Text} of=${me.name} />`}</h2>
        <div class="buttons">
          <button type="button" class="button small" disabled=${busy} onClick=${add}>Add a passkey</button>
          <button type="button" class="button small" disabled=${busy} onClick=${everywhere}>
            Sign out everywhere</button></div></div>
      <${Failure} error=${error} />
      ${me && html`<${Passkeys} of=${me} change=${load} />`}
      <h3>Where you are signed in</h3>
      <table class="table"><thead><tr><th>Since</th><th>Last used</th><th>Ends</th><th></th></tr></thead>
        <tbody>${sessions.map((one) => html`<tr data-session=${one.sessionId}>
          <td data-label="Since">${timeText(one.createdAt, 16)}${one.signedIn === 'oidc' && ' by account'}
            ${one.present && ' (here)'}</td>
          <td data-label="Last used">${timeText(one.lastUsedAt, 16)}</td>
          <td data-label="Ends">${timeText(one.expiresAt, 16)}</td>
          <td><button type="button" class="button small" disabled=${busy} onClick=${() => end(one)}
            aria-label="End the session of ${timeText(one.createdAt, 16)}">End</button></td></tr>`)}</tbody></table>
    </section>`;
}

export function People() {
  const [all, compared, load, error] = useListed(['person'], readPeople, listedPerson);
  useEffect(() => { load(); }, []);
  return html`
    <${Page} title="People"
      lead="Who may sign in to this console with a passkey. Each of their changes is recorded with their name.">
      ${isPerson() && html`<${Me} />`}
      ${error?.code === 'FORBIDDEN_ROLE' ? html`<${Notice}>${error.message}.<//>`
        : html`
          <${Failure} error=${error} />
          <${Listed} of=${compared} />
          <div class="stack">${(all ?? []).map((one) => html`
            <${One} key=${one.personId} of=${one} load=${load} />`)}</div>
          ${all?.length === 0 && html`<p class="empty">No people yet.</p>`}
          <${New} load=${load} />`}
    <//>`;
}
