// @ts-check
// Records: the log as an explorer. What is searched for is in the URL and is searched by the
// server; each row that is shown is checked here.
import { html, useEffect, useMemo, useRef, useState } from '../vendor/preact-htm.js';
import { sentenceOf } from '../core/call_words.js';
import { bare, count, plural, short, timeText } from '../core/format.js';
import { titleOf } from '../core/finding_words.js';
import { live } from '../core/live_state.js';
import { verdictOn } from '../core/pruned.js';
import { go, href, route } from '../core/router.js';
import { narrows, needsPayload, readsAll, searchOf } from '../core/search.js';
import { clock, useSignedIn } from '../core/session.js';
import { useStore } from '../core/store.js';
import { zoneOf } from '../core/times.js';
import { isPlain } from '../core/verdict.js';
import { visible } from '../lib/visible.js';
import { Icon, Notice, Page } from '../parts/basic.js';
import { CallLine } from '../parts/call_line.js';
import { Histogram, HistogramPlace } from '../parts/histogram.js';
import { KeyHint, useAssess } from '../parts/key_trust.js';
import { useMedia } from '../parts/media.js';
import { Unsearched } from '../parts/pruned.js';
import { SavedSearches } from '../parts/saved_searches.js';
import { withText } from '../parts/text.js';
import { VirtualList } from '../parts/virtual_list.js';
import { WordIcon, useAgentTrust } from '../parts/word.js';
import { Export } from './records_export.js';
import { Filters } from './records_filters.js';
import { OpenRecord } from './records_open.js';
import { newOf, useFollowing, useHistogram, useRows, useWidth } from './records_rows.js';

const HASH = /^[0-9a-f]{64}$/i;
const BEFORE = 12; // characters of a payload before what was searched for
const AFRESH = 10000; // ms between two histograms while records come
const NARROW = matchMedia('(max-width: 48rem)');

/**
 * The verdict on a row. plain: that there is nothing to be marked.
 * @param {Row | undefined} row
 * @param {Assess} assess
 */
function verdictOf(row, assess) {
  if (!row?.check) return { tone: '', says: 'not verified yet', plain: false };
  const verdict = verdictOn(assess, row.index, row.check);
  return { tone: verdict.tone, plain: isPlain(verdict), says: wordsOf(verdict, row.check) };
}

/**
 * @param {Verdict} verdict
 * @param {{ok: boolean, reason: string}} check
 */
function wordsOf({ tone, is, against }, { ok, reason }) {
  if (!ok) return visible(reason);
  if (is === 'another key') return 'signed by another key than the confirmed one';
  return against ? `checked, but ${titleOf(against)}` : `checked${tone === 'warn' ? ', with a key not confirmed' : ''}`;
}

/**
 * What a record says in words or, where the text that was searched for is in none of them, the
 * beginning of its payload, with that text marked where it is as written.
 * @param {{row: Row, q: string}} props
 */
function Said({ row, q }) {
  if (!q && row.words) return html`<${CallLine} words=${row.words} action=${row.actionType} />`;
  const said = row.words ? sentenceOf(row.words) : '';
  const text = said.toLowerCase().includes(q.toLowerCase()) ? said : row.text;
  const at = q ? text.toLowerCase().indexOf(q.toLowerCase()) : -1;
  return at < 0
    ? withText(text)
    : html`${at > BEFORE ? '…' : ''}${withText(text.slice(Math.max(0, at - BEFORE), at))}
    <mark>${withText(text.slice(at, at + q.length))}</mark>${withText(text.slice(at + q.length))}`;
}

const LEAD = html`The server selects the results, and this browser verifies each record shown.
Only <a href=${href('verify')}>Verify</a> shows that none is missing.`;

const heads = () =>
  ['', '', 'Index', `Time (${zoneOf()})`, 'Action', 'Agent', 'Asked', 'Hash'].map(
    (name, i) => html`
  <span role="columnheader">${name || html`<span class="visually-hidden">${i ? 'Verdict' : 'Selected'}</span>`}</span>`,
  );

/**
 * @param {{row: Row | undefined, index: number | null, link?: string, tab: number, assess: Assess,
 *   judge: JudgeWord, selected: boolean, onSelect: () => void, q: string}} of
 */
function cells({ row, index, link, tab, assess, judge, selected, onSelect, q }) {
  const { tone, says, plain } = verdictOf(row, assess);
  /**
   * @param {string} name
   * @param {Child} content
   * @param {string} [title]
   */
  const cell = (name, content, title) =>
    html`<span role="gridcell" class="row-${name}" title=${title}>${content}</span>`;
  return html`
    <span role="gridcell" class="row-pick">
      ${index !== null
        && html`<input type="checkbox" tabindex="-1" aria-label="Select record ${index}" checked=${selected}
          onChange=${onSelect} />`}</span>
    <span role="gridcell" class="row-verdict ${tone}" title=${says}>
      ${plain ? '' : tone ? html`<${Icon} name=${tone} />` : html`<span class="dot"></span>`}
      <span class="visually-hidden">${says}</span></span>
    <span role="gridcell" class="row-index">
      <a class="row-link" href=${link} tabindex=${tab} aria-label=${index === null ? 'no record' : `Record ${index}`}>
        ${index ?? '?'}</a></span>
    ${!row ? cell('time', '…') : html`
      ${cell('time', row.timestamp && html`<span class="row-date">${bare(row.timestamp, 10)} </span>
      ${bare(row.timestamp, 23).slice(11)}`, row.timestamp
        && `${timeText(row.timestamp, 23)}, recorded as ${row.timestamp}`)}
      ${cell('action', withText(row.actionType))}
      ${cell('agent', html`${row.word
        && html`<${WordIcon} word=${row.word} record=${verdictOn(assess, row.index, { ok: true })}
          judge=${judge} /> `}${withText(row.agentId)}
      ${row.delegated
        && html` <span class="muted" title="by delegation"><span aria-hidden="true">↪</span>
        <span class="visually-hidden">delegated</span></span>`}`)}
      ${tone === 'bad' ? cell('text bad-text', says) : row.pruned ? cell('text muted', 'payload pruned')
        : cell('text', html`<${Said} row=${row} q=${q} />`,
          row.words && visible(sentenceOf(row.words)))}
      ${cell('hash', short(row.hash), row.hash)}`}`;
}

/**
 * What is known of the rows, in words. Only what is final is read out.
 * @param {{search: Search, rows: ListedRows | null, total: number | null, follows: boolean}} props
 */
function Status({ search, rows, total, follows }) {
  if (!rows) return html`<p class="records-count" data-done="no"><span class="muted">Loading …</span></p>`;
  const { failures } = search;
  const isLong = readsAll(search);
  if (rows.error && !rows.count)
    return html`<p class="records-count" data-done="no"><span class="muted">Nothing was loaded.</span></p>`;
  const failed = rows.failed.length;
  const read = `${count(rows.read)}${rows.size && (isLong || !narrows(search)) ? ` of ${count(rows.size)}` : ''}`;
  const found = failures
    ? rows.count
      ? `${plural(rows.count, 'record')} fail${rows.count === 1 ? 's' : ''}`
      : 'None fails'
    : !narrows(search)
      ? plural(rows.count, 'record')
      : rows.done || isLong || total === null
        ? `${plural(rows.count, 'record')} found${rows.done ? '' : ' so far'}`
        : `${count(rows.count)} of ${plural(total, 'record')} found`;
  const state = rows.stopped ? 'stopped: ' : rows.busy && (isLong || failures) ? 'searching: ' : '';
  const shown = html`${count(rows.checked)} checked
  here, <span class=${failed ? 'bad-text' : ''}>
  ${failed ? `${count(failed)} of them fail${failed === 1 ? 's' : ''}` : 'none fails'}</span>`;
  return html`
    <p class="records-count" data-done=${rows.done ? 'yes' : 'no'} data-failed=${failed}>
      <strong role=${follows ? undefined : 'status'}>
        ${rows.done || rows.stopped || !(isLong || failures) ? found : 'Searching …'}</strong>
      <span class="muted small">${state}${isLong || failures ? `${read} read · ` : ''}${shown}</span>
    </p>`;
}

/**
 * @param {{rows: ListedRows, onJump: (place: number) => void, onHash: (hash: string) =>
 *   void}} props
 */
function Jump({ rows, onJump, onHash }) {
  const input = useRef(null);
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    const typed = input.current.value.trim();
    if (HASH.test(typed)) return onHash(typed);
    const place = rows.place(Math.min(Number(typed || 0), rows.size - 1));
    if (place >= 0) onJump(place);
  };
  return html`<form class="jump" onSubmit=${submit}>
  <input ref=${input} class="input" aria-label="Go to index or hash" placeholder="Index or hash"
    pattern=" *([0-9]{0,15}|[0-9a-fA-F]{64}) *" title="The index of a record, or the 64 digits of its hash" size="12" />
    <button class="button small">Go</button></form>`;
}

/** @param {{argument: string}} props */
export function Records({ argument }) {
  const { query } = useStore(route);
  const { key } = useSignedIn();
  const state = useStore(live);
  const assess = useAssess(key);
  const judge = useAgentTrust();
  const [turn, setTurn] = useState(0); // counts readings of the same search
  const [target, setTarget] = useState(/** @type {{row: number, focus: boolean, of: string} | null} */ (null));
  const [selected, setSelected] = useState(() => /** @type {Set<number>} */ (new Set()));
  const [exporting, setExporting] = useState(false);
  const [moment, setMoment] = useState(0); // changes now and then while something comes
  const box = useRef(null);
  const narrow = useMedia(NARROW);

  const asked = JSON.stringify(query);
  const search = useMemo(() => searchOf(query, Date.now() + clock.get().offset * 1000), [asked, turn]);
  const rows = useRows(search);
  const { histogram, error: histogramError } = useHistogram(search, useWidth(box), moment);
  const stale = rows?.search !== search;
  const { fresh, more } = newOf(search, stale ? null : rows, state);

  /** @param {Query} next */
  const searchFor = (next) => go('records', '', next);
  /**
   * @param {string} since
   * @param {string} until
   */
  const searchPeriod = (since, until) => searchFor({ ...query, last: '', since, until });
  /**
   * @param {number} row
   * @param {number} [of]
   * @param {boolean} [focus]
   */
  const showRow = (row, of = turn, focus = true) =>
    setTarget({ row, focus,
      of: `${of} ${asked}` }); // in the list of this search alone: the next one leaves the focus where it is
  /** @param {number | null} index */
  const toggle = (index) => {
    if (index === null) return;
    setSelected((before) => {
      const next = new Set(before);
      if (!next.delete(index)) next.add(index);
      return next;
    });
  };
  const opened = /^[0-9]{1,15}$/.test(argument) ? Number(argument) : null;
  const follows = query.follow === '1' && !search.failures;
  const atNewest = () => {
    const list = box.current.querySelector('.vlist');
    if (!list || opened !== null) return !list;
    if (list.contains(document.activeElement)) return false;
    return search.order === 'newest'
      ? list.scrollTop === 0
      : list.scrollTop + list.clientHeight > list.scrollHeight - 2;
  };
  useFollowing(follows, stale ? null : rows, state, {
    atNewest,
    rerender: () => setTurn(turn + 1),
    onAdded() {
      setMoment(Math.floor(Date.now() / AFRESH));
      if (search.order === 'oldest') showRow(Infinity, turn, false);
    },
  });
  const showNew = () => {
    setTurn(turn + 1);
    showRow(search.order === 'newest' ? 0 : Infinity, turn + 1);
  };
  const left = useRef(/** @type {number | null} */ (null)); // the record that was open last
  useEffect(() => {
    const place = opened === null && left.current !== null && rows && !stale ? rows.place(left.current) : -1;
    if (place >= 0) showRow(place);
    left.current = opened;
  }, [opened]);
  const narrowed = JSON.stringify({ ...query, order: '', follow: '' });
  useEffect(() => setSelected((before) => (before.size ? new Set() : before)),
    [narrowed]); // what was selected is not in view any more
  /** @param {number} i */
  const indexAt = (i) => rows?.indexAt(i) ?? null;
  const chosen = selected.size
    ? [...selected].sort((a, b) => a - b)
    : rows && rows.done && narrows(search)
      ? ('rows' in rows ? rows.rows.flatMap(({ index }) => index ?? []) : [])
      : [];
  // Failures come as lines, which do not say how many records were passed over.
  const unsearched = rows && 'pruned' in rows ? rows.pruned : search.failures && needsPayload(search) ? null : 0;
  const streams = rows?.busy && (readsAll(search) || search.failures);
  return html`
    <${Page} title="Records" lead=${LEAD}>
      <div class="records" ref=${box}>
        <${Filters} query=${query} onSearch=${searchFor} />
        <${SavedSearches} query=${query} />
        ${!histogram && !histogramError && html`<${HistogramPlace} />`}
        ${histogram && histogram.buckets.length > 0
          && html`<${Histogram} of=${histogram} bad=${rows?.failed ?? []}
            caption=${search.hash ? 'counts ignore the hash'
              : search.q || search.payload ? 'counts ignore the payload' : ''}
              onPeriod=${searchPeriod} />`}
        ${histogramError
          && html`<p class="small bad-text" role="alert">
          The histogram could not be loaded: ${histogramError.message} <button type="button" class="button small retry"
            onClick=${() => setTurn(turn + 1)}>Retry</button></p>`}
        <${KeyHint} keyOf=${key} />
        <p class="row-zone small muted">Times are in ${zoneOf()}.</p>
        <div class="records-bar">
          <${Status} search=${search} rows=${stale ? null : rows}
            total=${histogram && Math.max(histogram.total, rows?.count ?? 0)} follows=${follows} />
          <div class="buttons">
            ${streams && html`<button type="button" class="button small" onClick=${() => rows.stop()}>Stop</button>`}
            ${!stale && rows?.stopped
              && html`<button type="button" class="button small" onClick=${() => setTurn(turn + 1)}>
              Search again</button>`}
            ${fresh > 0
              && html`<button type="button" class="button small primary" onClick=${showNew}>${count(fresh)}
              ${more ? '+' : ''} new</button>`}
            <button type="button" class="button small"
              onClick=${() => searchFor({ ...query, order: search.order === 'newest' ? 'oldest' : '' })}>
              ${search.order === 'newest' ? 'Newest first' : 'Oldest first'}</button>
            ${!search.failures
              && html`<button type="button" class="button small" aria-pressed=${follows ? 'true' : 'false'}
                title="Adds new records while the newest record is in view"
                  onClick=${() => searchFor({ ...query, follow: follows ? '' : '1' })}>Follow</button>`}
            <button type="button" class="button small" aria-pressed=${search.failures ? 'true' : 'false'}
              onClick=${() => searchFor({ ...query, failures: search.failures ? '' : '1' })}>
              Failed verification</button>
            ${rows && !narrows(search) && !search.failures
              && html`<${Jump} rows=${rows} onJump=${showRow}
                onHash=${(/** @type {string} */ hash) => searchFor({ order: query.order, hash })} />`}
            <button type="button" class="button small" onClick=${() => setExporting(true)}>Export
              ${selected.size ? ` (${count(selected.size)})` : ''}</button>
          </div>
        </div>
        ${rows?.error
          && html`<${Notice} kind="bad"
            actions=${html`<button type="button" class="button small" onClick=${() => rows.more()}>Retry</button>`}>
            ${rows.error.message}<//>`}
        ${rows && html`<${Unsearched} count=${unsearched} />`}
        ${
          rows?.count
            ? html`<${VirtualList} key=${rows} label="Records" head=${heads()} count=${rows.count}
              rowHeight=${narrow ? 72 : 36} scrollTo=${!stale && target?.of === `${turn} ${asked}` ? target : null}
                busy=${stale}
              row=${(/** @type {number} */ i, /** @type {number} */ tab) => {
                const index = indexAt(i);
                return cells({
                  row: rows.at(i),
                  index,
                  tab,
                  assess,
                  judge,
                  q: search.q,
                  selected: index !== null && selected.has(index),
                  onSelect: () => toggle(index),
                  link: index === null ? undefined : href('records', index, query),
                });
              }}
              propsOf=${(/** @type {number} */ i) => {
                const index = indexAt(i);
                return {
                  class: `vlist-row ${verdictOf(rows.at(i), assess).tone === 'bad' ? 'bad' : ''}`,
                  'aria-selected': index !== null && selected.has(index) ? 'true' : 'false',
                  'data-index': index,
                  'data-check': rows.at(i)?.check ? verdictOf(rows.at(i), assess).tone : undefined,
                };
              }}
              onView=${(/** @type {number} */ first, /** @type {number} */ last) => rows.want(first, last)}
               onSelect=${(/** @type {number} */ i) => toggle(indexAt(i))} />`
            : rows?.done &&
              !rows.error &&
              html`<p class="empty">${search.failures ? 'No record failed verification.'
                : narrows(search)
                  ? `${unsearched ? 'No record that could be searched matches' : 'No matching records'}.${
                    search.agent || search.action
                    ? ' Agents match exactly, and so do actions that don’t end in *.' : ''}` : 'No records yet.'}</p>`
        }
      </div>
      ${exporting
        && html`<${Export} search=${search} companyId=${key.companyId} chosen=${chosen} selected=${selected.size > 0}
          onClose=${() => setExporting(false)} />`}
      ${opened !== null
        && html`<${OpenRecord} index=${opened} rows=${stale ? null : rows}
          onMove=${(/** @type {number} */ index) => location.replace(href('records', index, query))}
            onClose=${() => go('records', '', query)} />`}
    <//>`;
}
