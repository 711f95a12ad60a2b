// @ts-check
// What the page Records searches for: fields whose values stand in the URL.
import { html, useEffect, useRef, useState } from '../vendor/preact-htm.js';
import { bare } from '../core/format.js';
import { LAST, timeOf } from '../core/search.js';
import { useStore } from '../core/store.js';
import { times, zoneOf } from '../core/times.js';
import { membersOf } from '../lib/members.js';
import { visible } from '../lib/visible.js';
import { Field } from '../parts/basic.js';
import { Completion } from '../parts/completion.js';
import { table } from '../lib/table.js';

/** @type {Record<string, string>} */
const PERIODS = {
  '': 'all time',
  '15m': 'last 15 minutes',
  '1h': 'last hour',
  '24h': 'last day',
  '7d': 'last 7 days',
  '30d': 'last 30 days',
  exact: 'custom range',
};
const TEXTS = ['q', 'payload', 'agent', 'action', 'delegatedBy', 'decision', 'policy', 'hash'];
/** @type {Record<string, [string, string]>} */
const PLACES = table({
  q: ['Payload text', 'contains'],
  payload: ['Payload members', 'tool=Bash a.b="x y"'],
  agent: ['Agent', 'exact agent ID'],
  action: ['Action', 'exact, or prefix: tool.*'],
  delegatedBy: ['Delegated by', 'spiffe://… or *'],
  decision: ['Decision', ''],
  policy: ['Decided by policy', 'exact policy ID'],
  hash: ['Hash', 'exact record hash'],
});

/**
 * What is wrong with a condition on members, or ''.
 * @param {string} typed
 */
function flawOf(typed) {
  try {
    if (typed) membersOf(typed);
    return '';
  } catch (err) {
    return visible(err.message);
  }
}

/** @type {[string, string][]} */
const DECISIONS = [['', 'any'], ['allow', 'allowed'], ['deny', 'denied'], ['ask', 'approval needed']];

/** @type {['agent', 'action']} */
const COMPLETED = ['agent', 'action'];

/** @param {string} timestamp */
const readable = (timestamp) => timestamp && bare(timestamp, 23).replace(/(:00)?\.000$/, '');

/** @param {{label: string, name: string, value: string, wrong?: string}} props */
function Time({ label, name, value, wrong }) {
  return html`
    <${Field} label=${label} hint=${wrong}>
      ${(p) => html`<input ...${p} class="input mono" name=${name} defaultValue=${readable(value)}
        aria-invalid=${wrong ? 'true' : undefined} autocomplete="off" spellcheck="false"
          placeholder="2026-03-02 09:05" />`}<//>`;
}

/**
 * query: that of the URL. onSearch(query) is called with another one.
 * @param {{query: Query, onSearch: (query: Query) => void}} props
 */
export function Filters({ query, onSearch }) {
  const form = useRef(null);
  const chosen = Object.hasOwn(LAST, query.last ?? '') ? query.last : query.since || query.until ? 'exact' : '';
  const [period, setPeriod] = useState(chosen);
  const [wrong, setWrong] = useState(/** @type {Record<string, string>} */ ({}));
  const [open, setOpen] = useState(false);
  const { zone } = useStore(times);
  const fields = TEXTS.filter((name) => name !== 'hash' || query.hash); // who looks for one comes with it
  const asked = TEXTS.filter((name) => query[name]).length + (chosen ? 1 : 0);

  // The URL may change by itself: a step back, or a bar of the histogram.
  useEffect(() => {
    for (const name of fields) form.current.elements[name].value = query[name] ?? '';
    setPeriod(chosen);
    setWrong({});
  }, [JSON.stringify(query)]);
  useEffect(() => {
    for (const name of ['since', 'until'])
      if (form.current.elements[name]) form.current.elements[name].value = readable(query[name] ?? '');
  }, [period, query.since, query.until, zone]);

  /** @param {Event} [event] */
  const search = (event) => {
    event?.preventDefault();
    const typed = Object.fromEntries([...new FormData(form.current)].map(([name, value]) =>
      [name, String(value).trim()]));
    /** @type {Query} */
    const next = {
      ...query,
      last: '',
      since: '',
      until: '',
      ...Object.fromEntries(TEXTS.map((name) => [name, typed[name] ?? ''])),
    };
    /** @type {Record<string, string>} */
    const bad = {};
    const flaw = flawOf(next.payload ?? '');
    if (flaw) bad.payload = flaw;
    if (typed.period === 'exact') {
      const [since, until] = ['since', 'until'].map((name) => {
        const time = typed[name] && timeOf(typed[name]);
        if (time === null) bad[name] = `A time like 2026-03-02 09:05:04.218, in ${zoneOf()}`;
        return time ?? '';
      });
      if (since && until && since >= until) bad.until = 'Must be later than the start.';
      Object.assign(next, { since, until });
    } else next.last = typed.period;
    setWrong(bad);
    const [first] = Object.keys(bad);
    if (first) return form.current.elements[first].focus();
    onSearch(next);
  };
  /** @param {Happening} event */
  const choosePeriod = (event) => {
    setPeriod(event.target.value);
    if (event.target.value !== 'exact') search();
  };
  return html`
    <form class="records-filters ${open ? 'open' : ''}" role="search" aria-label="Records" ref=${form}
      onSubmit=${search}>
      ${fields.map(
        (name) => html`
        <${Field} label=${PLACES[name][0]} hint=${wrong[name]}>
          ${(p) => (name === 'decision' ? html`<select ...${p} class="input" name=${name} onChange=${search}>
            ${DECISIONS.map(([value, says]) => html`<option value=${value}
              selected=${value === (query.decision ?? '')}>${says}</option>`)}</select>`
            : html`<input ...${p} class="input" type=${name === 'q' ? 'search' : 'text'} name=${name}
            ...${COMPLETED.some((one) => one === name) ? { list: `records-${name}` } : { autocomplete: 'off' }}
            aria-invalid=${wrong[name] ? 'true' : undefined} spellcheck="false"
              ...${name === 'policy' ? { pattern: '[A-Za-z0-9._\\-]{1,64}' } : {}}
              placeholder=${PLACES[name][1]} />`)}<//>`,
      )}
      ${COMPLETED.map((kind) => html`<${Completion} id="records-${kind}" kind=${kind} />`)}
      <${Field} label="Time">
        ${(p) => html`<select ...${p} class="input" name="period" value=${period} onChange=${choosePeriod}>
          ${Object.entries(PERIODS).map(([value, name]) => html`<option value=${value} selected=${value === period}>
          ${name}</option>`)}</select>`}<//>
      ${period === 'exact'
        && html`<div class="records-period">
        <${Time} label="From (${zoneOf()})" name="since" value=${query.since ?? ''} wrong=${wrong.since} />
          <${Time} label="To, exclusive (${zoneOf()})" name="until" value=${query.until ?? ''}
            wrong=${wrong.until} /></div>`}
      <div class="buttons">
        <button class="button primary">Search</button>
        <button type="button" class="button more-filters" aria-expanded=${open ? 'true' : 'false'}
          onClick=${() => setOpen(!open)}>Filters${asked ? ` (${asked})` : ''}</button>
        ${asked > 0
          && html`<button type="button" class="button quiet"
            onClick=${() => onSearch({ order: query.order, failures: query.failures })}>Clear</button>`}
      </div>
    </form>`;
}
