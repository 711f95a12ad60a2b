// @ts-check
// Federation: the issuers whose workloads become agents without a key, and by which rules.
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import {
  EXAMPLES,
  createFederation,
  deleteFederation,
  listedFederation,
  readFederations,
  typed,
} from '../core/federations.js';
import { plural, timeText } from '../core/format.js';
import { session } from '../core/session.js';
import { useStore } from '../core/store.js';
import { Badge, Failure, Field, Notice, Page, useTask } from '../parts/basic.js';
import { Confirm } from '../parts/dialogs.js';
import { JSONView } from '../parts/json_view.js';
import { Listed, useListed } from '../parts/listed.js';
import { Text } from '../parts/text.js';

/** @param {{of: Federation}} props */
function Keys({ of }) {
  const { count, fetchedAt, failure } = of.keys;
  return html`
    ${count ? plural(count, 'key') : html`<${Badge}>no keys yet<//>`}
    <div class="small muted">
      ${of.jwks ? 'pinned' : fetchedAt ? html`fetched ${timeText(fetchedAt, 16)}` : 'not fetched yet'}</div>
    ${failure && html`<div class="small">Last attempt: <${Text} of=${failure} /></div>`}`;
}

/** @param {{of: Federation, onDelete: (of: Federation) => void}} props */
function One({ of, onDelete }) {
  return html`
    <section class="card" aria-label="Federation ${of.name}" data-federation=${of.name}>
      <div class="card-head"><h2><${Text} of=${of.name} /></h2>
        <button type="button" class="button small danger" aria-label="Delete federation ${of.name}"
          onClick=${() => onDelete(of)}>Delete</button></div>
      <table class="table">
        <thead><tr><th>Issuer</th><th>Audience</th><th>Keys</th><th>Created</th></tr></thead>
        <tbody><tr>
          <td data-label="Issuer"><div><${Text} of=${of.issuer} />
            ${of.jwksUri && html`<div class="small muted">keys at <${Text} of=${of.jwksUri} /></div>`}</div></td>
          <td data-label="Audience"><${Text} of=${of.audience} /></td>
          <td data-label="Keys"><div><${Keys} of=${of} /></div></td>
          <td data-label="Created" class="nowrap">${timeText(of.createdAt, 16)}</td>
        </tr></tbody>
      </table>
      <table class="table">
        <thead><tr><th>Claims that must match</th><th>Agent</th><th>Token</th></tr></thead>
        <tbody>${of.rules.map(
          (rule, i) => html`
          <tr key=${i} data-rule=${i}>
            <td data-label="Claims"><${JSONView} ...${rule.match} what="claims" /></td>
            <td data-label="Agent"><div><code><${Text} of=${rule.agentId} /></code>
              <div class="small muted">${rule.register ? 'registered at its first use' : 'must be registered'}
                ${rule.person && ', for persons'}</div>
            </div></td>
            <td data-label="Token" class="nowrap">${rule.ttl} s at most</td>
          </tr>`,
        )}</tbody>
      </table>
    </section>`;
}

/** @param {{load: () => unknown}} props */
function New({ load }) {
  const { company } = useStore(session);
  const [form, setForm] = useState({ name: '', issuer: '', audience: '', jwks: '', rules: '' });
  const [made, setMade] = useState('');
  const [run, busy, error] = useTask();
  /** @param {Partial<typeof form>} more */
  const set = (more) => setForm({ ...form, ...more });
  /** @param {typeof EXAMPLES[number]} example */
  const begin = (example) =>
    set({
      name: example.name,
      issuer: `https://${example.host}`,
      audience: form.audience || `${location.origin}/o/${company?.companyId ?? ''}`,
      rules: JSON.stringify(example.rules, null, 2),
    });
  /** @param {Event} event */
  const create = (event) => {
    event.preventDefault();
    run(async () => {
      const { name, issuer, audience } = form;
      const keys = form.jwks.trim();
      await createFederation({
        name,
        issuer,
        audience,
        rules: typed(form.rules, 'Rules'),
        ...(/^https?:/.test(keys) ? { jwksUri: keys } : keys ? { jwks: typed(keys, 'Keys') } : {}),
      });
      setMade(name);
      await load();
    });
  };
  /**
   * @param {'name' | 'issuer' | 'audience'} name
   * @param {string} label
   * @param {string} hint
   */
  const input = (name, label, hint) => html`
    <${Field} label=${label} hint=${hint}>
      ${(p) => html`<input ...${p} class="input" name=${name} required autocomplete="off" spellcheck="false"
        value=${form[name]} onInput=${(e) => set({ [name]: e.target.value })} />`}<//>`;
  /**
   * @param {'jwks' | 'rules'} name
   * @param {string} label
   * @param {string} hint
   */
  const area = (name, label, hint) => html`
    <${Field} label=${label} hint=${hint}>
      ${(p) => html`<textarea ...${p} class="input" name=${name} required=${name === 'rules'} spellcheck="false"
        rows=${name === 'rules' ? 8 : 2} value=${form[name]}
          onInput=${(e) => set({ [name]: e.target.value })}></textarea>`}<//>`;
  return html`
    <section class="card" aria-label="New federation">
      <h2>New federation</h2>
      <p class="muted small">Start from an example, and replace what is in capitals. A rule must name the owner of its
        workloads in full, or everybody with an account at the issuer would match.</p>
      <div class="buttons">${EXAMPLES.map(
        (example) => html`<button type="button" class="button small" onClick=${() => begin(example)}>
          ${example.title}</button>`,
      )}</div>
      <form class="stack" onSubmit=${create}>
        ${input('name', 'Name', 'Letters, digits, dot, hyphen and underscore.')}
        ${input('issuer', 'Issuer', 'iss of the tokens, to the last slash.')}
        ${input('audience', 'Audience', 'aud of the tokens: best the issuer of your company.')}
        ${area('jwks', 'Keys (optional)', 'A JWK set, or the URL of one. Without, the issuer’s metadata name it.')}
        ${area('rules', 'Rules', 'A JSON list. The first rule that matches gives the agent.')}
        <${Failure} error=${error} />
        ${made && html`<${Notice}>Federation <${Text} of=${made} /> was created.<//>`}
        <div><button class="button primary" disabled=${busy}>Create federation</button></div>
      </form>
    </section>`;
}

export function Federations() {
  const [deleting, setDeleting] = useState(/** @type {Federation | null} */ (null));
  const [all, compared, load, error] = useListed(['federation'], readFederations, listedFederation);
  useEffect(() => { load(); }, []);
  return html`
    <${Page} title="Federation"
      lead="Workloads with an identity from another issuer, such as a CI system or a cluster, become agents without a
        key of their own.">
      ${error?.code === 'FORBIDDEN_ROLE' ? html`<${Notice}>${error.message}.<//>`
        : html`<${Failure} error=${error} retry=${load} />`}
      ${all && html`
        <${Listed} of=${compared} />
        ${all.length === 0 && html`<p class="empty" data-federations="0">The company trusts no other issuer.</p>`}
        ${all.map((of) => html`<${One} key=${of.name} of=${of} onDelete=${setDeleting} />`)}
        <${New} load=${load} />`}
      ${deleting && html`
        <${Confirm} title="Delete this federation?" action="Delete federation"
          act=${async () => {
            await deleteFederation(deleting.name);
            await load();
          }} onClose=${() => setDeleting(null)}>
          <p>No token of <strong><${Text} of=${deleting.issuer} /></strong> is accepted by it from then on, and the
            access tokens of its workloads end at once. Agents and records stay.</p><//>`}
    <//>`;
}
