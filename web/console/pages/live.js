// Live: the stream as it happens, and a pulse that says whether the chain holds.
import { html, useState } from '../vendor/preact-htm.js';
import { count, localTime, plural, short } from '../core/format.js';
import { dismissMissed, live } from '../core/live.js';
import { href } from '../core/router.js';
import { session } from '../core/session.js';
import { useStore } from '../core/store.js';
import { Badge, Field, Notice, Page } from '../parts/basic.js';
import { Drawer } from '../parts/dialogs.js';
import { RecordView } from '../parts/record_view.js';

const CONNECTION = { off: 'not connected', connecting: 'connecting …', open: 'connected', retrying: 'connection lost; trying again …' };

function Pulse({ state }) {
  const { verdict, connection, length, beats } = state;
  const kind = verdict.state === 'failed' ? 'bad' : verdict.state === 'valid' ? 'ok' : '';
  const word = { failed: `fails at ${verdict.failedAt}`, valid: 'valid', unknown: 'listening' }[verdict.state];
  return html`
    <section class="pulse-card" aria-label="State of the chain">
      <div class="pulse ${kind} ${connection === 'open' ? '' : 'off'}" data-verdict=${verdict.state}>
        <span class="pulse-ring" key=${beats}></span>
        <div role="status"><strong class="pulse-word">${word}</strong><span class="pulse-sub">${plural(length, 'record')}</span></div>
      </div>
      <dl class="facts pulse-facts">
        <dt>stream</dt><dd data-connection=${connection}>${CONNECTION[connection]}</dd>
        <dt>checked here</dt><dd>${plural(state.checked, 'record')} since you opened the console</dd>
        ${state.entries[0] && html`<dt>last record</dt><dd>${localTime(state.entries[0].record.timestamp)}</dd>`}
        ${verdict.root && html`<dt>root</dt><dd><code title=${verdict.root}>${short(verdict.root, 12, 12)}</code></dd>`}
        ${verdict.state === 'failed' && html`
          <dt>first failure</dt><dd><a href=${href('chain', verdict.failedAt)}>record ${verdict.failedAt}</a></dd>
          <dt>reason</dt><dd>${verdict.reason}</dd>`}
      </dl>
    </section>`;
}

function Entry({ entry, onOpen }) {
  const { record, check, late } = entry;
  const state = check ? (check.ok ? 'ok' : 'bad') : '';
  return html`
    <li class="entry ${state}" data-index=${record.index} data-check=${state}>
      <button type="button" class="entry-button" onClick=${() => onOpen(record)}>
        <span class="entry-index">${record.index}</span>
        <span class="entry-what"><strong>${record.actionType}</strong><span class="muted">${record.agentId}</span></span>
        <span class="entry-time muted"><span title=${record.timestamp}>${localTime(record.timestamp, false)}</span>${late && ' · caught up'}</span>
        <code class="entry-hash muted">${short(record.hash)}</code>
        ${check ? html`<${Badge} ok=${check.ok}>${check.ok ? 'checked' : 'fails'}<//>` : html`<${Badge}>not checked<//>`}
      </button>
    </li>`;
}

export function Live() {
  const state = useStore(live);
  const { key } = useStore(session);
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
      <${Pulse} state=${state} />
      ${state.problem && html`<${Notice} kind="bad">${state.problem}<//>`}
      ${state.missed && html`
        <${Notice} kind="ok" actions=${html`<button type="button" class="button quiet small" onClick=${dismissMissed}>Dismiss</button>`}>
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
          ? html`<ol class="entries">${shown.map((e) => html`<${Entry} key=${e.record.index} entry=${e} onOpen=${setOpen} />`)}</ol>`
          : html`<p class="empty">${entries.length ? 'No record matches.' : 'Nothing attested yet. Records appear here the moment they are written.'}</p>`}
      </section>
      ${open && html`<${Drawer} title="Record ${open.index}" onClose=${() => setOpen(null)}><${RecordView} record=${open} companyKey=${key} /><//>`}
    <//>`;
}
