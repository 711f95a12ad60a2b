// @ts-check
// Control log: what was issued and changed, and by which credential.
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { searchChanges } from '../core/control.js';
import { checkControl } from '../core/control_log.js';
import { count, timeText, plural } from '../core/format.js';
import { go, href, replace, route } from '../core/router.js';
import { useSignedIn } from '../core/session.js';
import { useStore } from '../core/store.js';
import { Failure, Field, Notice, Page, useTask } from '../parts/basic.js';
import { By, NOBODY } from '../parts/by.js';
import { ControlWords, aboutOf, kinds } from '../parts/control_words.js';
import { RowMark } from '../parts/row_mark.js';
import { KeyHint, useAssess, useKeyState } from '../parts/key_trust.js';
import { PeriodFields } from '../parts/period.js';
import { OpenChange } from './control_record.js';

/**
 * What a record is about, where it says so; a record that does not matches no filter of it.
 * @param {LogRecord} record
 * @returns {ReturnType<typeof aboutOf>}
 */
function about(record) {
  try {
    return aboutOf(record);
  } catch {
    return { subject: '', kind: '', name: '', agentId: '', by: null };
  }
}

/**
 * Whether a control record is what the filters of the URL ask for.
 * @param {Query} filters
 * @returns {(record: LogRecord) => boolean}
 */
export function matcher({ kind = '', subject = '', by = '', since = '', until = '' }) {
  /**
   * @param {string} text
   * @param {string} part
   */
  const has = (text, part) => text.toLowerCase().includes(part.toLowerCase());
  return (record) => {
    const of = about(record);
    return (
      (!kind ||
        record.actionType === kind ||
        (kind.endsWith('*') && record.actionType.startsWith(kind.slice(0, -1)))) &&
      (!subject || has(of.subject, subject) || has(of.agentId, subject)) &&
      (!by || (by === NOBODY ? of.by === null : has(of.by ?? '', by))) &&
      (!since || record.timestamp >= since) &&
      (!until || record.timestamp < until)
    );
  };
}

/**
 * What the server is asked for: of what a record is about and of who made it, one as a text that
 * is in the record.
 * @param {Query} filters
 */
const askedOf = ({ kind = '', subject = '', by = '', since = '', until = '' }) => ({
  action: kind,
  since,
  until,
  q: by && by !== NOBODY ? by : subject,
});

/**
 * The records that match, as far as they were asked for, each with its check.
 * @param {Query} filters
 * @param {NamedKey} companyKey
 */
function useChanges(filters, companyKey) {
  /** @type {{entries: ShownChange[], page: ControlPage | null}} */
  const nothing = { entries: [], page: null };
  const [state, setState] = useState(nothing);
  const [run, busy, error] = useTask();
  /**
   * @param {ControlPage | null} before
   * @param {ShownChange[]} entries
   */
  const load = async (before, entries) => {
    const page = await run(async () => {
      const { found, page: last } = await searchChanges(askedOf(filters), matcher(filters), before);
      const { results } = await checkControl(found);
      return {
        page: last,
        entries: [...entries, ...found.map((record, i) => ({ record, about: about(record), check: results[i] }))],
      };
    });
    if (page) setState(page);
  };
  const wanted = JSON.stringify([filters.kind, filters.subject, filters.by, filters.since, filters.until]);
  useEffect(() => {
    setState(nothing);
    load(null, []);
  }, [wanted, companyKey]);
  return { ...state, busy, error, more: () => load(state.page, state.entries) };
}

/** @param {{query: Query}} props */
function Filters({ query }) {
  /** @param {Query} patch */
  const set = (patch) => replace({ ...query, ...patch });
  /**
   * @param {string} label
   * @param {string} name
   * @param {string} placeholder
   */
  const input = (label, name, placeholder) => html`
    <${Field} label=${label}>
      ${(p) => html`<input ...${p} class="input" type="search" name=${name} placeholder=${placeholder}
        value=${query[name] ?? ''} onChange=${(e) => set({ [name]: e.target.value.trim() })} />`}<//>`;
  const groups = [...new Set(kinds.map(([kind]) => kind.split('.')[0]))];
  return html`
    <form class="filters" onSubmit=${(e) => e.preventDefault()}>
      <${Field} label="Kind">${(p) => html`
        <select ...${p} class="input" name="kind" value=${query.kind ?? ''}
          onChange=${(e) => set({ kind: e.target.value })}>
          <option value="">all kinds</option>
          ${groups.map((group) => {
            const own = kinds.filter(([kind]) => kind.startsWith(`${group}.`));
            return html`${own.length > 1 && html`<option value="${group}.*">${group}: all</option>`}
            ${own.map(([kind, name]) => html`<option value=${kind}>${name}</option>`)}`;
          })}</select>`}<//>
      ${input('Subject', 'subject', 'agent, key …')}
      ${input('Changed by', 'by', 'fingerprint')}
      <${PeriodFields} since=${query.since} until=${query.until} set=${set} />
      ${Object.values(query).some(Boolean) && html`<a class="button" href=${href('control')}>Clear</a>`}
    </form>`;
}

/** @param {{entry: ShownChange, assess: Assess, query: Query}} props */
function Change({ entry: { record, about: { by }, check }, assess, query }) {
  const verdict = assess(check.ok, { log: 'control', index: record.index });
  return html`
    <li class="change ${check.ok ? '' : 'bad'}" data-index=${record.index} data-check=${verdict.tone}>
      <a class="change-index" href=${href('control', record.index, query)} aria-label="Control record ${record.index}">
        ${record.index}</a>
      <span class="change-time muted" title=${record.timestamp}>${timeText(record.timestamp)}</span>
      <div class="change-what" data-kind=${record.actionType}>
        <${ControlWords} change=${{ action: record.actionType, ...record }} /></div>
      <span class="change-by small"><span class="muted">by </span><${By} by=${by} query=${query} /></span>
      <${RowMark} of=${verdict} />
    </li>`;
}

/**
 * @param {{entries: ShownChange[], page: ControlPage | null, busy: boolean, error: Error | null,
 *   keyState: KeyState}} props
 */
function Summary({ entries, page, busy, error, keyState }) {
  const failed = entries.filter(({ check }) => !check.ok).length;
  const words = !page ? (busy || !error ? 'Loading …' : 'Nothing was loaded: see the error below')
    : `${plural(entries.length, 'record')} shown of ` +
      `${count(page.size)}${page.next ? `; loaded back to record ${count(page.read.from)}`
        : ', loaded to the beginning'}${error ? '; earlier records were not loaded: see the error below' : ''}`;
  return html`
    <p class="small muted" role="status" data-read=${page ? (page.next ? page.read.from : 0) : ''}>${words}
      . ${entries.length > 0
        && html`<span data-failed=${failed}>
        ${failed ? html`<strong class="bad-text">${plural(failed, 'record')} failed verification.</strong>`
          : keyState === 'other' ? '' : 'This browser verified the hash and signature of each.'}</span>`}</p>`;
}

/** @param {{argument: string}} props */
export function Control({ argument }) {
  const { key } = useSignedIn();
  const { query } = useStore(route);
  const keyState = useKeyState(key);
  const assess = useAssess(key);
  const { entries, page, busy, error, more } = useChanges(query, key);
  const opened = /^[0-9]{1,15}$/.test(argument) ? Number(argument) : null;
  return html`
    <${Page} title="Control log"
      lead="What was issued and changed in the service, and by which credential. Each change is committed together with
        its control record.">
      <${Filters} query=${query} />
      <div class="stack tight">
        <${Summary} ...${{ entries, page, busy, error, keyState }} />
        <${KeyHint} keyOf=${key} />
      </div>
      <${Failure} error=${error} retry=${more} />
      ${entries.length > 0
        && html`<ol class="changes" aria-label="Changes">
        ${entries.map((entry) => html`<${Change} key=${entry.record.index} ...${{ entry, assess, query }} />`)}</ol>`}
      ${!busy && !error && !entries.length
        && html`<p class="empty">${page?.size ? 'No matching changes.' : 'No changes yet.'}</p>`}
      ${page?.next
        && html`<div class="buttons"><button type="button" class="button" disabled=${busy} onClick=${more}>
        ${busy ? 'Loading …' : 'Show earlier changes'}</button></div>`}
      <${Notice}>A list can’t show what the server left out. A <a href=${href('report')}>report</a> proves that nothing
        is missing from a period, and <a href=${href('checkpoints')}>checkpoints</a> that history was not rewritten.<//>
      ${opened !== null
        && html`<${OpenChange} key=${opened} index=${opened} onClose=${() => go('control', '', query)} />`}
    <//>`;
}
