// @ts-check
// Webhooks: where the service sends the company's records, and how each delivery goes.
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { plural, timeText } from '../core/format.js';
import { live } from '../core/live_state.js';
import { href } from '../core/router.js';
import { useStore } from '../core/store.js';
import {
  createWebhook,
  deleteWebhook,
  listedWebhook,
  names,
  readWebhooks,
  rotateSecret,
  switchWebhook,
  testWebhook,
} from '../core/webhooks.js';
import { Badge, Failure, Field, Notice, Page, Value, useTask } from '../parts/basic.js';
import { Confirm } from '../parts/dialogs.js';
import { Listed, useListed } from '../parts/listed.js';
import { Text } from '../parts/text.js';
import { table } from '../lib/table.js';

/** @type {Record<string, string>} */
const REASONS = table({
  requested: 'disabled on request',
  gone: 'the endpoint answered 410 Gone',
  failing: 'all attempts failed',
});

/** @param {{of: Webhook}} props */
function State({ of }) {
  if (of.disabledAt)
    return html`<${Badge}>disabled<//>
      <div class="small muted">${timeText(of.disabledAt, 16)}: ${of.disabledReason
        && html`<${Text} of=${REASONS[of.disabledReason] ?? of.disabledReason} />`}</div>`;
  if (of.failedAttempts === 0) return html`<${Badge}>delivering<//>`;
  return html`<${Badge}>${plural(of.failedAttempts, 'failed attempt')}<//>
    ${of.nextAttemptAt && html`<div class="small muted">next attempt ${timeText(of.nextAttemptAt, 19)}</div>`}`;
}

/** @param {{of: Webhook}} props */
function Progress({ of }) {
  const length = useStore(live).server?.length;
  const waiting = length === undefined ? 0 : length - of.nextIndex;
  return html`${of.nextIndex === 0 ? 'none yet'
    : html`up to <a href=${href('records', of.nextIndex - 1)}>record ${of.nextIndex - 1}</a>`}
    ${waiting > 0 && html`<div class="small muted" data-waiting=${waiting}>${plural(waiting, 'later record')}</div>`}`;
}

/** @param {{names?: string[], all: string}} props */
const Names = ({ names: only, all }) =>
  (only?.length ? only.map((name, i) => html`${i > 0 && ', '}<code><${Text} of=${name} /></code>`) : all);

/**
 * @param {{of: Webhook, load: () => unknown, onDelete: (of: Webhook) => void,
 *   onRotate: (of: Webhook) => void}} props
 */
function One({ of, load, onDelete, onRotate }) {
  const [said, say] = useState(/** @type {Awaited<ReturnType<typeof testWebhook>> | null} */ (null));
  const [run, busy, error] = useTask();
  const test = () => run(async () => {
    say(null);
    say(await testWebhook(of.webhookId));
    await load();
  });
  const change = () => run(async () => {
    await switchWebhook(of.webhookId, of.disabledAt ? 'enable' : 'disable');
    await load();
  });
  return html`
    <section class="card" aria-label="Webhook ${of.webhookId}" data-webhook=${of.webhookId}>
      <div class="card-head"><h2 class="break"><${Text} of=${of.description || of.url} /></h2>
        <div class="buttons">
          <button type="button" class="button small" disabled=${busy} onClick=${test}>Send a test</button>
          <button type="button" class="button small" disabled=${busy} onClick=${change}>
            ${of.disabledAt ? 'Enable' : 'Disable'}</button>
          <button type="button" class="button small" disabled=${busy} onClick=${() => onRotate(of)}>
            Rotate secret</button>
          <button type="button" class="button small danger" aria-label="Delete webhook ${of.webhookId}"
            onClick=${() => onDelete(of)}>Delete</button></div></div>
      <${Failure} error=${error} />
      ${said && html`<${Notice} kind=${said.delivered ? '' : 'bad'}>
        ${said.delivered ? `The endpoint accepted the test (status ${said.status}).`
          : html`The test was not delivered: <${Text} of=${said.failure ?? `status ${said.status}`} />.`}<//>`}
      <table class="table">
        <thead><tr><th>Endpoint</th><th>Agents</th><th>Actions</th><th>Delivered</th><th>State</th></tr></thead>
        <tbody><tr>
          <td data-label="Endpoint"><div><${Text} of=${of.url} />
            <div class="small muted">created ${timeText(of.createdAt, 16)}</div></div></td>
          <td data-label="Agents"><div><${Names} names=${of.agents} all="all" /></div></td>
          <td data-label="Actions"><div><${Names} names=${of.actions} all="all" /></div></td>
          <td data-label="Delivered"><div><${Progress} of=${of} /></div></td>
          <td data-label="State"><div><${State} of=${of} /></div></td>
        </tr></tbody>
      </table>
      <details><summary>Public key of its signatures</summary>
        <${Value} value=${of.publicKey} what="public key" /></details>
    </section>`;
}

/** @param {{secret: string, what: string}} props */
const Secret = ({ secret, what }) => html`
  <${Notice}>${what} The secret is shown only once.<//><${Value} value=${secret} what="webhook secret" />`;

/** @param {{load: () => unknown}} props */
function New({ load }) {
  const empty = { url: '', description: '', agents: '', actions: '' };
  const [form, setForm] = useState(empty);
  const [secret, setSecret] = useState('');
  const [run, busy, error] = useTask();
  /** @param {Event} event */
  const create = (event) => {
    event.preventDefault();
    run(async () => {
      const [agents, actions] = [names(form.agents), names(form.actions)];
      const made = await createWebhook({
        url: form.url.trim(),
        ...(agents.length && { agents }),
        ...(actions.length && { actions }),
        ...(form.description.trim() && { description: form.description.trim() }),
      });
      setSecret(made.secret);
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
      ${(p) => html`<input ...${p} class="input" name=${name} required=${name === 'url'} autocomplete="off"
        spellcheck="false" value=${form[name]} onInput=${(e) => setForm({ ...form, [name]: e.target.value })} />`}<//>`;
  return html`
    <section class="card no-print" aria-label="New webhook">
      <h2>New webhook</h2>
      <p class="muted small">The service sends it each record once that is stored, signed with a secret of this webhook,
        and tries again until the endpoint answers with a status of 2xx.</p>
      <form class="stack" onSubmit=${create}>
        ${input('url', 'URL', 'An https endpoint with a public address.')}
        ${input('description', 'Description (optional)', 'What it is for.')}
        ${input('agents', 'Agents (optional)', 'Only the records of these agents, separated by commas.')}
        ${input('actions', 'Actions (optional)', 'Only these actions, separated by commas; deploy.* matches a prefix.')}
        <${Failure} error=${error} />
        <div><button class="button primary" disabled=${busy}>Create webhook</button></div>
      </form>
      ${secret && html`<${Secret} secret=${secret} what="The webhook was created." />`}
    </section>`;
}

export function Webhooks() {
  const [deleting, setDeleting] = useState(/** @type {Webhook | null} */ (null));
  const [rotating, setRotating] = useState(/** @type {Webhook | null} */ (null));
  const [secret, setSecret] = useState('');
  const [all, compared, load, error] = useListed(['webhook'], readWebhooks, listedWebhook);
  useEffect(() => { load(); }, []);
  return html`
    <${Page} title="Webhooks"
      lead="Endpoints to which the service sends the records of the company, and how much each has received.">
      ${error?.code === 'FORBIDDEN_ROLE' ? html`<${Notice}>${error.message}.<//>`
        : html`<${Failure} error=${error} retry=${load} />`}
      ${secret && html`<${Secret} secret=${secret}
        what="The former secret signs for another day, together with the new one." />`}
      ${all && html`
        <${Listed} of=${compared} />
        ${all.length === 0 && html`<p class="empty" data-webhooks="0">The company has no webhook.</p>`}
        ${all.length > 0 && html`
          <div><button type="button" class="button small" onClick=${load}>Refresh</button></div>`}
        ${all.map((of) => html`<${One} key=${of.webhookId} of=${of} load=${load} onDelete=${setDeleting}
          onRotate=${setRotating} />`)}
        <${New} load=${load} />`}
      ${deleting && html`
        <${Confirm} title="Delete this webhook?" action="Delete webhook"
          act=${async () => {
            await deleteWebhook(deleting.webhookId);
            await load();
          }} onClose=${() => setDeleting(null)}>
          <p>Nothing more is sent to <strong><${Text} of=${deleting.url} /></strong>, and how far it has come is
            forgotten. Records stay.</p><//>`}
      ${rotating && html`
        <${Confirm} title="Rotate the secret of this webhook?" action="Rotate"
          act=${async () => {
            setSecret((await rotateSecret(rotating.webhookId)).secret);
            await load();
          }} onClose=${() => setRotating(null)}>
          <p>Messages to <strong><${Text} of=${rotating.url} /></strong> are signed with both secrets for a day. Enter
            the new one there within that time.</p><//>`}
    <//>`;
}
