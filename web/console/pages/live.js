// @ts-check
// Live: the stream as it happens, and a pulse that says what was checked here. What the server says
// is shown with it.
import { html, useMemo, useState } from '../vendor/preact-htm.js';
import { callWords } from '../core/call_words.js';
import { count, timeText, plural, short } from '../core/format.js';
import { shownPlace } from '../core/findings.js';
import { reconnect } from '../core/live.js';
import { dismissMissed, live, toneOfLive } from '../core/live_state.js';
import { verdictOn } from '../core/pruned.js';
import { href } from '../core/router.js';
import { useSignedIn } from '../core/session.js';
import { useStore } from '../core/store.js';
import { isGreen } from '../core/verdict.js';
import { verification } from '../core/verification.js';
import { Badge, Failure, Field, Notice, Page } from '../parts/basic.js';
import { Drawer } from '../parts/dialogs.js';
import { KeyBadge, KeyHint, useAssess } from '../parts/key_trust.js';
import { Unsearched } from '../parts/pruned.js';
import { RecordView } from '../parts/record_view.js';
import { WordOf } from '../parts/word.js';
import { verifyAll } from './verify.js';
import { CallLine } from '../parts/call_line.js';
import { RowMark } from '../parts/row_mark.js';
import { Text } from '../parts/text.js';
import { table } from '../lib/table.js';

const CONNECTION = table({
  off: 'not connected',
  connecting: 'connecting …',
  open: 'connected',
  retrying: 'connection lost; trying again …',
});

/**
 * What the range is called: its first and last record.
 * @param {{from: number, to: number}} range
 */
const rangeWords = ({ from, to }) =>
  to === from ? 'nothing yet' : to - from === 1 ? `record ${count(from)}` : `${count(from)}–${count(to - 1)}`;

/** @param {string} timestamp */
const clock = (timestamp) => timestamp && timeText(timestamp).slice(11);

/**
 * @param {LiveState} state
 * @param {Tone} tone
 * @param {Verdict} verdict
 */
function pulseWords({ connection, since, range, whole, agreed, failure, server }, tone, { against, is }) {
  if (against?.kind === 'rewritten') return ['rewritten', 'differs from what was seen'];
  if (failure)
    return [
      `fails at ${shownPlace(failure.failedAt)}`,
      failure.by === 'server' ? 'claimed by the server' : 'found by this browser',
    ];
  if (against) return ['finding', against.kind === 'key' ? 'key replaced' : 'in the control log'];
  if (connection === 'connecting' || !range) return ['…', 'connecting'];
  if (connection !== 'open') return ['offline', `as of ${clock(since)}`];
  if (server && !server.valid) return [`fails at ${server.failedAt}`, 'claimed by the server'];
  if (is === 'another key') return ['another key', 'not the confirmed one'];
  if (whole && range.to === 0) return ['empty', 'no records yet'];
  if (whole && agreed)
    return [
      isGreen(tone) ? 'valid' : 'complete',
      `${plural(range.to, 'record')} checked here${isGreen(tone) ? '' : ', key unconfirmed'}`,
    ];
  return [rangeWords(range), range.to > range.from ? 'checked here' : 'listening'];
}

/** @param {string} hash */
const short12 = (hash) => html`<code title=${hash}>${short(hash, 12, 12)}</code>`;

/** @param {{state: LiveState, companyKey: NamedKey}} props */
function CheckedHere({ state, companyKey }) {
  const { range, whole, agreed, behind, failure, root, unchecked } = state;
  const { phase, done, total } = useStore(verification);
  return html`
    <section class="stack tight" aria-label="Checked by this browser"
      data-checked=${range ? `${range.from}-${range.to}` : ''}><h2>Checked by this browser</h2>
      <dl class="facts">
        <dt>records</dt><dd>
          ${!range ? 'nothing yet' : whole && agreed
            ? html`all ${plural(range.to, 'record')}: hash, signature, position and chain root`
              : html`${rangeWords(range)}: hash, signature and position`}</dd>
        ${range && whole && agreed && range.to > 0 && html`<dt>chain root</dt><dd>${short12(root)}</dd>`}
        ${
          failure &&
          html`<dt>first failure</dt><dd>
          ${failure.failedAt === 'the root' ? shownPlace(failure.failedAt)
            : html`<a href=${href('records', failure.failedAt)}>record ${failure.failedAt}</a>`}
            : <${Text} of=${failure.reason} />
          <span class="muted"> (${failure.by === 'server' ? 'claimed by the server'
            : 'found by this browser'} at ${timeText(failure.found)})</span></dd>`
        }
        ${behind > 0 && html`<dt>pending</dt>
        <dd data-behind=${behind}>${plural(behind, 'record')} that arrived too fast; ${behind === 1 ? 'it is'
          : 'they are'} being fetched and verified</dd>`}
        ${unchecked > 0 && html`<dt>not verified</dt><dd>${plural(unchecked, 'record')} that arrived too fast</dd>`}
        <dt>key</dt><dd><${KeyBadge} keyOf=${companyKey} /></dd>
      </dl>
      <${KeyHint} keyOf=${companyKey} />
      ${!whole && range && html`<div class="buttons">
        <button type="button" class="button small" disabled=${phase === 'running'} onClick=${verifyAll}>
          Verify all</button>
        ${phase === 'running'
          && html`<span class="small muted">${count(done)}
          ${total ? ` of ${count(Math.max(total, done))}` : ''} …</span>`}</div>`
      }
    </section>`;
}

/** @param {{state: LiveState}} props */
function ServerSays({ state }) {
  const { connection, since, server } = state;
  return html`
    <section class="stack tight" aria-label="Claimed by the server"
      data-server=${server ? (server.valid ? 'valid' : 'failed') : 'unknown'}><h2>Claimed by the server</h2>
      <dl class="facts">
        <dt>stream</dt><dd data-connection=${connection}>${CONNECTION[connection]}${
          connection === 'retrying' &&
          html` since ${clock(since)}
          <button type="button" class="button small" onClick=${reconnect}>Reconnect now</button>`
        }</dd>
        <dt>chain</dt><dd>
          ${server ? html`<${Badge} tone=${server.valid ? '' : 'bad'}>
          ${server.valid ? 'valid' : `fails at ${server.failedAt}`}<//> ${plural(server.length, 'record')}
          , at ${clock(server.at)}` : 'nothing yet'}</dd>
        ${server && !server.valid && html`<dt>first failure</dt>
        <dd><a href=${href('records', server.failedAt)}>record ${server.failedAt}</a>
          ${server.reason && html`: <${Text} of=${server.reason} />`}</dd>`}
        ${server?.root && html`<dt>chain root</dt><dd>${short12(server.root)}</dd>`}
      </dl>
      <p class="small muted">Claimed by the server, not verified.${' '}
        <a href=${href('verify')}>Verify</a> recomputes the whole chain.</p>
    </section>`;
}

/** @param {{state: LiveState, companyKey: NamedKey}} props */
function Pulse({ state, companyKey }) {
  const assess = useAssess(companyKey);
  const tone = toneOfLive(state, assess);
  const [word, sub] = pulseWords(state, tone, assess(true));
  return html`
    <section class="pulse-card" aria-label="State of the chain">
      <div class="pulse ${tone} ${state.connection === 'open' ? '' : 'off'}" data-tone=${tone}>
        <span class="pulse-ring" key=${state.beats}></span>
        <div><strong class="pulse-word ${/^[0-9,–]{1,6}$/.test(word) ? 'number' : ''}">${word}</strong>
          <span class="pulse-sub">${sub}</span></div>
        <span class="visually-hidden" role="status">
          ${tone === 'bad' || state.connection !== 'open' ? `${word}, ${sub}` : ''}</span>
      </div>
      <div class="pulse-facts"><${CheckedHere} state=${state} companyKey=${companyKey} />
        <${ServerSays} state=${state} /></div>
    </section>`;
}

/** @param {{entry: LiveEntry, assess: Assess, onOpen: (record: LogRecord) => void}} props */
function Entry({ entry, assess, onOpen }) {
  const { record, check, late } = entry;
  const verdict = check && verdictOn(assess, record.index, check);
  const tone = verdict?.tone ?? '';
  const words = useMemo(() => callWords(record), [record]);
  return html`
    <li class="entry ${tone}" data-index=${record.index} data-check=${tone}>
      <button type="button" class="entry-button" onClick=${() => onOpen(record)}>
        <span class="entry-index">${record.index}</span>
        <span class="entry-what"><strong>${record.pruned ? 'payload pruned'
          : html`<${Text} of=${record.actionType} />`}</strong>
          <span class="muted">${check?.ok && html`<${WordOf} of=${record} record=${verdict} /> `}
            <${Text} of=${record.agentId} /></span>
          ${!record.pruned && html`<${CallLine}
            words=${words.tool === record.actionType ? { ...words, tool: '' } : words} />`}</span>
        <span class="entry-time muted">
          <span title=${record.timestamp}>${timeText(record.timestamp, 23).slice(11)}</span>
            ${late && ' · caught up'}</span>
        <code class="entry-hash muted">${short(record.hash)}</code>
        ${verdict ? html`<${RowMark} of=${verdict} />` : html`<${Badge}>not checked<//>`}
      </button>
    </li>`;
}

/** @param {Missed} missed */
const Missed = ({ from, to, fetched, away }) => html`
  <div>${away ? 'Missed while disconnected' : 'Missing from the live stream'}
    : ${to - from === 1 ? `record ${from}` : `records ${from} to ${to - 1}`}.
    ${fetched === to - from ? ' Fetched since.'
      : html` Of these, ${plural(fetched, 'record')} were fetched since; <a href=${href('verify')}>Verify</a> reads them
      all.`}</div>`;

export function Live() {
  const state = useStore(live);
  const { key } = useSignedIn();
  const assess = useAssess(key);
  const [agent, setAgent] = useState('');
  const [action, setAction] = useState('');
  const [frozen, setFrozen] = useState(/** @type {LiveEntry[] | null} */ (null));
  const [open, setOpen] = useState(/** @type {LogRecord | null} */ (null));

  const entries = frozen ?? state.entries;
  /** @param {LiveEntry} e */
  const matches = (e) => e.record.agentId.includes(agent) && e.record.actionType.includes(action);
  const shown = entries.filter(matches).slice(0, 100);
  const nameless = agent || action ? entries.filter(({ record }) => record.pruned).length : 0;
  const held = frozen ? state.entries.findIndex((e) => e.record.index === (frozen[0]?.record.index ?? -1)) : 0;
  const heldCount = held < 0 ? state.entries.length : held;
  return html`
    <${Page} title="Live"
      lead="This browser checks each record as it arrives: its hash from its content, its signature with the company’s
        key.">
      <div class="beside">
        <${Pulse} state=${state} companyKey=${key} />
        ${state.problem && html`<${Failure} error=${{ message: state.problem }} retry=${reconnect} />`}
        ${
          state.missed.length > 0 &&
          html`
          <${Notice}
            actions=${html`<button type="button" class="button quiet small" onClick=${dismissMissed}>Dismiss</button>`}>
            ${state.missed.map(Missed)}<//>`
        }
        <section class="stack aside" aria-label="Records">
          <div class="filters">
            <${Field} label="Agent contains">
              ${(p) => html`<input ...${p} class="input" value=${agent} onInput=${(e) => setAgent(e.target.value)} />`}
              <//>
            <${Field} label="Action contains">
              ${(p) => html`<input ...${p} class="input" value=${action}
                onInput=${(e) => setAction(e.target.value)} />`}<//>
            <button type="button" class="button" aria-pressed=${frozen ? 'true' : 'false'}
              onClick=${() => setFrozen(frozen ? null : state.entries)}>
              ${frozen ? `Resume${heldCount ? ` (${count(heldCount)} new)` : ''}` : 'Pause'}</button>
          </div>
          <${Unsearched} count=${nameless} />
          ${
            shown.length
              ? html`<ol class="entries">
              ${shown.map((e) => html`<${Entry} key=${e.record.index} entry=${e} assess=${assess}
                onOpen=${setOpen} />`)}
              </ol>`
              : html`<p class="empty">${entries.length ? nameless ? 'No record that could be searched matches.'
                : 'No record matches.'
                : state.connection !== 'open' ? 'The stream is not connected.'
                  : state.server?.length === 0 ? 'No records yet. They appear here as soon as they are written.'
                    : 'Loading …'}</p>`
          }
        </section>
      </div>
      ${open && html`<${Drawer} title="Record ${open.index}" onClose=${() => setOpen(null)}>
      <${RecordView} record=${open} companyKey=${key} /><//>`}
    <//>`;
}
