// @ts-check
// One key or client, and what it opened: the keys and clients that it made, and all that was
// changed with it, as far as the control log says.
import { html, useEffect, useRef, useState } from '../vendor/preact-htm.js';
import { changesWith } from '../core/control_log.js';
import { madeBy, sizeOf } from '../core/credentials.js';
import { count, timeText, plural } from '../core/format.js';
import { href } from '../core/router.js';
import { useSignedIn } from '../core/session.js';
import { visible } from '../lib/visible.js';
import { Badge, Failure, useTask } from '../parts/basic.js';
import { Change } from '../parts/change.js';
import { kindName } from '../parts/control_words.js';
import { CredentialLink, Day, State, nameOf } from '../parts/credential.js';
import { useAssess } from '../parts/key_trust.js';

const PAGE = 100;

/** @param {{tree: CredentialTree, now: number}} props */
function Tree({ tree, now }) {
  return html`<ul class="made">${tree.map(({ credential: c, made }) => html`
    <li key=${c.fingerprint} data-made=${c.fingerprint}>
      <${CredentialLink} fingerprint=${c.fingerprint} of=${c} /> <span class="muted small">
        ${c.kind === 'apiKey' ? 'key' : 'client'}, ${c.role}
        , <${Day} of=${c.createdAt} /></span> <${State} of=${c} now=${now} />
      ${made.length > 0 && html`<${Tree} tree=${made} now=${now} />`}</li>`)}</ul>`;
}

/**
 * What a credential did, by the control log: how often each kind of change, and each change.
 * @param {{fingerprint: string, companyKey: NamedKey}} props
 */
function Opened({ fingerprint, companyKey }) {
  const assess = useAssess(companyKey);
  const [state, setState] = useState(/** @type {{found: ControlChange[], page: ControlPage} | null} */ (null));
  const [run, busy, error] = useTask();
  /**
   * @param {ControlPage | null} after
   * @param {ControlChange[]} before
   */
  const load = (after, before) => run(async () => {
    const { found: fresh, page } = await changesWith(fingerprint, after, PAGE);
    setState({ page, found: [...before, ...fresh.filter(({ by }) => by === fingerprint)] });
  });
  useEffect(() => { load(null, []); }, []);
  const { found = [] } = state ?? {};
  /** @type {Map<string, number>} */
  const kinds = new Map();
  for (const { record: { actionType } } of found) kinds.set(actionType, (kinds.get(actionType) ?? 0) + 1);
  return html`
    <section class="card" aria-label="Changes with this credential" data-opened=${state ? found.length : ''}>
      <div class="card-head"><h2>Changes made with it</h2>
        <a href=${href('control', '', { by: fingerprint })}>Control log</a></div>
      <${Failure} error=${error} retry=${() => load(state?.page ?? null, found)} />
      ${state && !found.length && !state.page.next && html`<p class="empty">No changes yet.</p>`}
      ${found.length > 0 && html`
        <div class="chips">
          ${[...kinds].map(([action, n]) => html`<span class="badge" key=${action} data-kind=${visible(action)}>
          ${kindName(action)} ${n}</span>`)}</div>
        <ul class="change-list">
          ${found.map((change) => html`<${Change} key=${change.record.index} change=${change} assess=${assess}
            withBy=${false} />`)}</ul>`
      }
      ${
        state?.page.next &&
        html`<div class="buttons"><button type="button" class="button" disabled=${busy}
          onClick=${() => load(state.page, found)}>Search further back</button>
        <span class="small muted">searched back to control record ${count(state.page.read.from)}</span></div>`
      }
      <p class="small muted">The server selects these records, and this browser verifies each. Reads, attestations,
        SVIDs and tokens leave no control record.</p>
    </section>`;
}

/** @param {{fingerprint: string, all: KeyOrClient[], own: string}} props */
export function Credential({ fingerprint, all, own }) {
  const { key } = useSignedIn();
  const heading = useRef(null);
  useEffect(() => { scrollTo(0, 0); heading.current.focus(); }, []);
  const now = Date.now();
  const of = all.find((c) => c.fingerprint === fingerprint);
  const tree = madeBy(all, fingerprint);
  const maker = of?.madeBy && all.find((c) => c.fingerprint === of.madeBy);
  return html`
    <div class="page-head">
      <p class="small"><a href=${href('keys')}>Keys</a></p>
      <div class="card-head"><h1 tabindex="-1" ref=${heading}>
        ${of ? nameOf(of)
          : html`Credential <code>${/^[0-9a-f]{16}$/.test(fingerprint) ? fingerprint : 'unknown'}</code>`}</h1>
        <div class="buttons">${fingerprint === own && html`<${Badge}>in use here<//>`} ${of
          && html`<${State} of=${of} now=${now} />`}</div></div>
    </div>
    <div class="agent-page">
      <${Opened} fingerprint=${fingerprint} companyKey=${key} />
      <div class="stack wide-gap">
        <section class="card" aria-label="Details">
          ${of ? html`
            <dl class="facts">
              <dt>kind</dt><dd>${of.kind === 'apiKey' ? 'API key' : 'OAuth client'}</dd>
              <dt>fingerprint</dt><dd><code>${of.fingerprint}</code></dd>
              ${of.clientId && html`<dt>client ID</dt><dd><code>${visible(of.clientId)}</code></dd>`}
              <dt>role</dt><dd>${of.role}</dd>
              <dt>expires</dt><dd>${of.expiresAt ? timeText(of.expiresAt) : 'never'}</dd>
              <dt>created</dt><dd>${timeText(of.createdAt)}
                ${of.madeBy ? html` by <${CredentialLink} fingerprint=${of.madeBy} of=${maker} />`
                  : ', with the company'}</dd>
              <dt>last used</dt><dd>${of.lastUsedAt ? `in the hour from ${timeText(of.lastUsedAt)}` : 'never'}</dd>
            </dl>`
              : html`<p>No key or client has this fingerprint. If it was deleted, what it created may still exist.</p>`
          }
        </section>
        <section class="card" aria-label="Keys and clients created with it" data-tree=${sizeOf(tree)}>
          <div class="card-head"><h2>Keys and clients created with it</h2></div>
          ${tree.length
            ? html`<p class="small muted">${plural(sizeOf(tree), 'existing credential')}
            , including those created indirectly.</p><${Tree} tree=${tree} now=${now} />`
              : html`<p class="empty">None.</p>`}
        </section>
      </div>
    </div>`;
}
