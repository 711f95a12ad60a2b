// Live: the stream as it happens, and a pulse that says what was checked here. What the server says stands beside it.
import { html, useState } from '../vendor/preact-htm.js';
import { count, localTime, plural, short } from '../core/format.js';
import { dismissMissed, live, toneOfLive } from '../core/live.js';
import { href } from '../core/router.js';
import { session } from '../core/session.js';
import { useStore } from '../core/store.js';
import { toneOf } from '../core/trust.js';
import { Badge, Field, Notice, Page } from '../parts/basic.js';
import { Drawer } from '../parts/dialogs.js';
import { KeyBadge, KeyHint, useStanding } from '../parts/key_trust.js';
import { RecordView } from '../parts/record_view.js';

const CONNECTION = { off: 'not connected', connecting: 'connecting …', open: 'connected', retrying: 'connection lost; trying again …' };

function pulseWords({ connection, checked, length, failure, server }, tone) {
  if (failure) return [`fails at ${failure.failedAt}`, 'found here'];
  if (connection !== 'open') return ['offline', `${count(checked)} checked here`];
  if (server && !server.valid) return [`fails at ${server.failedAt}`, 'says the server'];
  if (tone === 'bad') return ['another key', 'than you confirmed'];
  return checked ? [count(checked), `of ${plural(length, 'record')} checked here`] : ['listening', 'nothing checked yet'];
}

function Pulse({ state, companyKey }) {
  const tone = toneOfLive(state, useStanding(companyKey));
  const [word, sub] = pulseWords(state, tone);
  const { connection, failure, server, beats } = state;
  return html`
    <section class="pulse-card" aria-label="State of the chain">
      <div class="pulse ${tone} ${connection === 'open' ? '' : 'off'}" data-tone=${tone}>
        <span class="pulse-ring" key=${beats}></span>
        <div role="status"><strong class="pulse-word ${/^[0-9,]{1,6}$/.test(word) ? 'number' : ''}">${word}</strong><span class="pulse-sub">${sub}</span></div>
      </div>
      <div class="pulse-facts">
        <section class="stack tight" aria-label="Checked here"><h2>Checked here</h2>
          <dl class="facts">
            <dt>records</dt><dd>${plural(state.checked, 'record')} since you opened the console: hash, signature and index</dd>
            ${failure && html`<dt>first failure</dt><dd><a href=${href('chain', failure.failedAt)}>record ${failure.failedAt}</a>: ${failure.reason}</dd>`}
            <dt>key</dt><dd><${KeyBadge} keyOf=${companyKey} /></dd>
          </dl>
          <${KeyHint} keyOf=${companyKey} />
        </section>
        <section class="stack tight" aria-label="The server says" data-server=${server ? (server.valid ? 'valid' : 'failed') : 'unknown'}><h2>The server says</h2>
          <dl class="facts">
            <dt>stream</dt><dd data-connection=${connection}>${CONNECTION[connection]}</dd>
            <dt>chain</dt><dd>${server ? html`<${Badge} tone=${server.valid ? '' : 'bad'}>${server.valid ? 'valid' : `fails at ${server.failedAt}`}<//> ${plural(state.length, 'record')}` : 'nothing yet'}</dd>
            ${server && !server.valid && html`<dt>first failure</dt><dd><a href=${href('chain', server.failedAt)}>record ${server.failedAt}</a>${server.reason && `: ${server.reason}`}</dd>`}
            ${server?.root && html`<dt>root</dt><dd><code title=${server.root}>${short(server.root, 12, 12)}</code></dd>`}
          </dl>
          <p class="small muted">Its word, not checked here. <a href=${href('verify')}>Verify</a> recomputes the whole chain.</p>
        </section>
      </div>
    </section>`;
}

function Entry({ entry, keyStanding, onOpen }) {
  const { record, check, late } = entry;
  const tone = check ? toneOf(check.ok, keyStanding) : '';
  return html`
    <li class="entry ${tone}" data-index=${record.index} data-check=${tone}>
      <button type="button" class="entry-button" onClick=${() => onOpen(record)}>
        <span class="entry-index">${record.index}</span>
        <span class="entry-what"><strong>${record.actionType}</strong><span class="muted">${record.agentId}</span></span>
        <span class="entry-time muted"><span title=${record.timestamp}>${localTime(record.timestamp, false)}</span>${late && ' · caught up'}</span>
        <code class="entry-hash muted">${short(record.hash)}</code>
        <${Badge} tone=${tone}>${!check ? 'not checked' : !check.ok ? 'fails' : tone === 'bad' ? 'another key' : 'checked'}<//>
      </button>
    </li>`;
}

export function Live() {
  const state = useStore(live);
  const { key } = useStore(session);
  const keyStanding = useStanding(key);
  const [agent, setAgent] = useState('');
  const [action, setAction] = useState('');
  const [frozen, setFrozen] = useState(null);
  const [open, setOpen] = useState(null);

  const entries = frozen ?? state.entries;
  const matches = (e) => e.record.agentId.includes(agent) && e.record.actionType.includes(action);
  const shown = entries.filter(matches).slice(0, 100);
  const held = frozen ? state.entries.findIndex((e) => e.record.index === (frozen[0]?.record.index ?? -1)) : 0;
  const heldCount = held < 0 ? state.entries.length : held;
  return html`
    <${Page} title="Live" lead="Each record is checked on arrival, in this page: its hash from its content, its signature with the company’s key.">
      <${Pulse} state=${state} companyKey=${key} />
      ${state.problem && html`<${Notice} kind="bad">${state.problem}<//>`}
      ${state.missed && html`
        <${Notice} actions=${html`<button type="button" class="button quiet small" onClick=${dismissMissed}>Dismiss</button>`}>
          Missed while the connection was away, fetched and checked since: ${state.missed.from === state.missed.to ? `record ${state.missed.from}` : `records ${state.missed.from} to ${state.missed.to}`}.
          ${state.missed.more && html` There may be more; <a href=${href('chain')}>the chain</a> has them all.`}
        <//>`}
      ${state.unchecked > 0 && html`<${Notice}>${count(state.unchecked)} records came faster than they could be checked here. <a href=${href('verify')}>Verify</a> checks them all.<//>`}
      <section class="stack" aria-label="Records">
        <div class="filters">
          <${Field} label="Agent contains">${(p) => html`<input ...${p} class="input" value=${agent} onInput=${(e) => setAgent(e.target.value)} />`}<//>
          <${Field} label="Action contains">${(p) => html`<input ...${p} class="input" value=${action} onInput=${(e) => setAction(e.target.value)} />`}<//>
          <button type="button" class="button" aria-pressed=${frozen ? 'true' : 'false'} onClick=${() => setFrozen(frozen ? null : state.entries)}>
            ${frozen ? `Resume${heldCount ? ` (${count(heldCount)} new)` : ''}` : 'Pause'}</button>
        </div>
        ${shown.length
          ? html`<ol class="entries">${shown.map((e) => html`<${Entry} key=${e.record.index} entry=${e} keyStanding=${keyStanding} onOpen=${setOpen} />`)}</ol>`
          : html`<p class="empty">${entries.length ? 'No record matches.' : 'Nothing attested yet. Records appear here the moment they are written.'}</p>`}
      </section>
      ${open && html`<${Drawer} title="Record ${open.index}" onClose=${() => setOpen(null)}><${RecordView} record=${open} companyKey=${key} /><//>`}
    <//>`;
}
