// @ts-check
// Keys and OAuth clients: what opens the company's doors, who made it and when it was last used.
// And the keys with which the company signs.
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { clientCreated, keyCreated, nothing } from '../core/answers.js';
import { call, getCredential } from '../core/api.js';
import { NOTHING } from '../core/asked.js';
import {
  chosen,
  fingerprintOf,
  lasting,
  listedCredential,
  madeBy,
  readCredentials,
  secretOf,
  sizeOf,
} from '../core/credentials.js';
import { timeText, plural } from '../core/format.js';
import { href, replace, route } from '../core/router.js';
import { signOut } from '../core/session.js';
import { useStore } from '../core/store.js';
import { visible } from '../lib/visible.js';
import { Badge, Failure, Field, Notice, Page, Value, useReturn, useTask } from '../parts/basic.js';
import { CredentialLink, Day, State, nameOf } from '../parts/credential.js';
import { Confirm } from '../parts/dialogs.js';
import { Choice, useGrant } from '../parts/grant.js';
import { Listed, useListed } from '../parts/listed.js';
import { Credential } from './credential.js';
import { RotateKey } from './rotate_key.js';
import { TokenKeys } from './token_keys.js';

/** @type {[string, string][]} */
const SORTS = [
  ['', 'creation'],
  ['use', 'last use, oldest first'],
  ['expiry', 'expiry'],
  ['role', 'role'],
  ['maker', 'creator'],
];
/** @type {[string, string][]} */
const KINDS = [
  ['', 'all'],
  ['apiKey', 'API keys'],
  ['oauthClient', 'OAuth clients'],
];
/** @type {[string, string][]} */
const ROLES = [
  ['', 'any'],
  ['admin', 'admin'],
  ['writer', 'writer'],
  ['reader', 'reader'],
];
/** @type {[string, string][]} */
const STATES = [
  ['', 'any'],
  ['inuse', 'in use'],
  ['never', 'never used'],
  ['unused', 'long unused'],
  ['expired', 'expired'],
];

/**
 * @param {[string, string][]} options
 * @param {string} [value]
 */
const one = (options, value) => (options.some(([option]) => option === value) ? value : '');

/**
 * @param {{of: KeyOrClient, all: KeyOrClient[], own: boolean, last: boolean, now: number,
 *   onDelete: (of: KeyOrClient) => void}} props
 */
function Row({ of, all, own, last, now, onDelete }) {
  const opened = sizeOf(madeBy(all, of.fingerprint));
  const isKey = of.kind === 'apiKey';
  const [secret, setSecret] = useState(''); // of a key, fetched when it is asked for; that of a client is not stored
  const [run, busy, error] = useTask();
  const reveal = () => (secret ? setSecret('') : run(async () => setSecret(await secretOf(of.fingerprint))));
  return html`
    <tr data-key-label=${isKey ? visible(of.label ?? '') : undefined} data-fingerprint=${of.fingerprint}
      data-kind=${of.kind}>
      <td data-label="Name"><div>
        <${CredentialLink} fingerprint=${of.fingerprint} of=${of} /> ${own && html`<${Badge}>in use here<//>`}
        <div class="small muted">${isKey ? 'key' : 'client'} <code>${of.fingerprint}</code></div>
        ${secret && html`<${Value} value=${secret} what="key ${nameOf(of)}" />`}<${Failure} error=${error} /></div></td>
      <td data-label="Role" class="nowrap">${of.role}</td>
      <td data-label="Expires"><${Day} of=${of.expiresAt} none="never" /></td>
      <td data-label="Created"><div><${Day} of=${of.createdAt} />
        <div class="small muted">${of.madeBy
          ? html`by <${CredentialLink} fingerprint=${of.madeBy} of=${all.find((c) => c.fingerprint === of.madeBy)} />`
            : 'with the company'}</div></div></td>
      <td data-label="Last used"><div>
        ${of.lastUsedAt && html`<span title=${of.lastUsedAt}>${timeText(of.lastUsedAt, 16)}</span> `}
        <${State} of=${of} now=${now} /></div></td>
      <td data-label="Derived">${opened ? html`<a href=${href('keys', of.fingerprint)}>${opened}</a>`
        : html`<span class="muted">0</span>`}</td>
      <td><div class="buttons">
        ${isKey && html`<button type="button" class="button small quiet" disabled=${busy}
          aria-pressed=${secret ? 'true' : 'false'} aria-label="${secret ? 'Hide' : 'Reveal'} key ${nameOf(of)}"
            onClick=${reveal}>${secret ? 'Hide' : 'Reveal'}</button>`}
        <button type="button" class="button small danger" disabled=${last}
          aria-label="Delete ${isKey ? 'key' : 'client'} ${nameOf(of)}" onClick=${() => onDelete(of)}>Delete</button>
      </div></td>
    </tr>`;
}

/**
 * The question before a key or client is deleted. A key's secret names it in the API, so it is
 * fetched then.
 * @param {{of: KeyOrClient, own: boolean, load: () => unknown, onClose: () => void}} props
 */
function Delete({ of, own, load, onClose }) {
  const isKey = of.kind === 'apiKey';
  const act = async () => {
    const path = isKey
      ? `/v1/keys/${encodeURIComponent(await secretOf(of.fingerprint))}`
      : `/v1/oauth/clients/${encodeURIComponent(of.clientId ?? '')}`;
    await call(nothing, 'DELETE', path, { asked: NOTHING });
    if (own) signOut('You deleted the key that you were signed in with.');
    else await load();
  };
  return html`
    <${Confirm} title=${isKey ? 'Delete this key?' : 'Delete this client?'}
      action=${isKey ? 'Delete key' : 'Delete client'} act=${act} onClose=${onClose}>
      <p><strong>${nameOf(of)}</strong> (<code>${of.fingerprint}</code>) stops working at once, wherever it is used
        ${isKey ? '' : ', and so do its tokens'}. What it created stays. This can’t be undone.
        ${own && html` <strong>You are signed in with it, and will be signed out.</strong>`}</p>
    <//>`;
}

/** @param {{all: KeyOrClient[], own: string, load: () => unknown}} props */
function Credentials({ all, own, load }) {
  const { query } = useStore(route);
  const [deleting, setDeleting] = useState(/** @type {KeyOrClient | null} */ (null));
  const now = Date.now();
  /**
   * @param {string} name
   * @returns {(value: string) => void}
   */
  const set = (name) => (value) => replace({ ...query, [name]: value });
  const asked = {
    kind: one(KINDS, query.kind),
    role: one(ROLES, query.role),
    state: one(STATES, query.state),
    sort: one(SORTS, query.sort),
    maker: query.maker ?? '',
  };
  const shown = chosen(all, asked, now);
  const onlyOne = all.filter(lasting).length === 1;
  const makers = [
    ['', 'anyone'],
    ...[...new Set(all.flatMap((c) => c.madeBy || []))].map((f) => {
      const maker = all.find((c) => c.fingerprint === f);
      return [f, maker ? nameOf(maker) : f];
    }),
  ];
  return html`
    <section class="card" aria-label="Keys and clients">
      <div class="card-head"><h2>Keys and clients</h2>
        <span class="small muted" role="status" data-shown=${shown.length}>
          ${shown.length === all.length ? plural(all.length, 'credential')
            : `${shown.length} of ${plural(all.length, 'credential')}`}</span></div>
      <div class="filters credential-filters">
        <${Choice} name="kind" label="Kind" options=${KINDS} value=${asked.kind} set=${set('kind')} />
        <${Choice} name="byRole" label="Role" options=${ROLES} value=${asked.role} set=${set('role')} />
        <${Choice} name="state" label="Use" options=${STATES} value=${asked.state} set=${set('state')} />
        <${Choice} name="maker" label="Created by" options=${makers} value=${asked.maker} set=${set('maker')} />
        <${Choice} name="sort" label="Order" options=${SORTS} value=${asked.sort} set=${set('sort')} />
      </div>
      ${shown.length === 0 && html`<p class="empty">No key or client matches.</p>`}
      ${shown.length > 0 && html`
        <table class="table credentials">
          <thead><tr><th>Name</th><th>Role</th><th>Expires</th><th>Created</th><th>Last used</th>
            <th title="Keys and clients created with it, directly or indirectly">Derived</th>
              <th><span class="visually-hidden">Actions</span></th></tr></thead>
          <tbody>${shown.map((c) => html`<${Row} key=${c.fingerprint} of=${c} all=${all} own=${c.fingerprint === own}
            last=${onlyOne && lasting(c)} now=${now} onDelete=${setDeleting} />`)}</tbody>
        </table>`}
      <p class="small muted">The service records last use to the hour.
        ${onlyOne
          ? ' The last admin key that does not expire can’t be deleted, or no one could sign in any more. Create ' +
            'another one first.' : ''}</p>
      ${deleting
        && html`<${Delete} of=${deleting} own=${deleting.fingerprint === own} load=${load}
          onClose=${() => setDeleting(null)} />`}
    </section>`;
}

/** @param {{load: () => unknown}} props */
function NewKey({ load }) {
  const [label, setLabel] = useState('');
  const [made, setMade] = useState('');
  const [run, busy, error] = useTask();
  const [grantFields, grantMembers] = useGrant();
  /** @param {Event} event */
  const create = (event) => {
    event.preventDefault();
    run(async () => {
      setMade(
        (
          await call(keyCreated, 'POST', '/v1/keys', {
            asked: NOTHING,
            body: { label: label.trim() || null, ...grantMembers() },
          })
        ).key,
      );
      setLabel('');
      await load();
    });
  };
  return html`
    <section class="card" aria-label="New API key">
      <h2>New API key</h2>
      <form class="filters" onSubmit=${create}>
        <${Field} label="Label">
          ${(p) => html`<input ...${p} class="input" name="label" value=${label}
            onInput=${(e) => setLabel(e.target.value)} />`}<//>
        ${grantFields}
        <button class="button primary" disabled=${busy}>Create key</button>
      </form>
      <${Failure} error=${error} />
      ${made && html`<${Notice}>The new key. It can be revealed above, too.<//>
        <${Value} value=${made} what="new key" />`}
    </section>`;
}

/** @param {{load: () => unknown}} props */
function NewClient({ load }) {
  const [made, setMade] = useState(/** @type {ReturnType<typeof clientCreated> | null} */ (null));
  const [run, busy, error] = useTask();
  const [grantFields, grantMembers] = useGrant();
  /** @param {Event} event */
  const create = (event) => {
    event.preventDefault();
    run(async () => {
      setMade(await call(clientCreated, 'POST', '/v1/oauth/clients', { asked: NOTHING, body: grantMembers() }));
      await load();
    });
  };
  return html`
    <section class="card" aria-label="New OAuth client">
      <h2>New OAuth client</h2>
      <p class="muted small">A client exchanges its ID and secret at <code>/v1/oauth/token</code> for a token that is
        valid for an hour and has the client’s role.</p>
      <form class="filters" onSubmit=${create}>
        ${grantFields}
        <button class="button primary" disabled=${busy}>Create client</button>
      </form>
      <${Failure} error=${error} />
      ${made && html`
        <${Notice}>The secret is shown only once.<//>
        <div class="stack tight"><h3>Client ID</h3><${Value} value=${made.clientId} what="client ID" /></div>
        <div class="stack tight"><h3>Client secret</h3>
          <${Value} value=${made.clientSecret} what="client secret" /></div>`
      }
    </section>`;
}

/** @param {{argument: string}} props */
export function Keys({ argument }) {
  const [own, setOwn] = useState('');
  // The list is null for who may not read it: it is an admin's.
  const [all, compared, load, error] = useListed(['api-key', 'oauth-client'], async () => {
    setOwn(await fingerprintOf(getCredential()));
    return readCredentials();
  }, listedCredential);
  useEffect(() => { load(); }, []);
  useReturn(argument);
  if (argument && all)
    return html`<${Credential} key=${argument} fingerprint=${argument} all=${all} own=${own} />
      <${Listed} of=${compared} />`;
  return html`
    <${Page} title="Keys"
      lead="Any admin key of the company can create and delete its keys. A deleted key is rejected from the next request
        on.">
      ${error?.code === 'FORBIDDEN_ROLE' ? html`<${Notice}>${error.message}.<//>`
        : html`<${Failure} error=${error} retry=${load} />`}
      ${all && html`
        <${Listed} of=${compared} />
        <${Credentials} all=${all} own=${own} load=${load} />
        <div class="columns"><${NewKey} load=${load} /><${NewClient} load=${load} /></div>
        <${RotateKey} /><${TokenKeys} />`}
    <//>`;
}
