// @ts-check
// How many records there were when. A bar narrows the period to its own; so does a stretch of bars,
// dragged over or chosen with Shift and the arrows.
import { html, useRef, useState } from '../vendor/preact-htm.js';
import { bare, count, plural } from '../core/format.js';
import { zoneOf } from '../core/times.js';
import { VERDICTS } from './decision.js';

/**
 * @param {string} timestamp
 * @param {boolean} exact
 */
const clock = (timestamp, exact) => bare(timestamp, exact ? 23 : 19);

/**
 * How exactly a period is written: to the millisecond where its parts are shorter than a second.
 * @param {string} since
 * @param {string} until
 * @param {number} parts
 */
const fine = (since, until, parts) => (Date.parse(until) - Date.parse(since)) / parts < 1000;

/**
 * Keeps the place of a histogram that is on its way, so that nothing below it moves under the
 * pointer.
 */
export const HistogramPlace = () =>
  html`<figure class="histogram" aria-hidden="true"><div class="histogram-bars"></div>
  <figcaption class="histogram-axis small">\u00a0</figcaption></figure>`;

/**
 * of: as histogramOf gives it. bad: times of records that fail; note is shown below the bars.
 * onPeriod(since, until) is called when a period is chosen.
 * @param {{of: Buckets, bad: string[], caption: Child, onPeriod: (since: string, until: string) =>
 *   void}} props
 */
export function Histogram({ of: { since, until, buckets, verdicts = [] }, bad, caption, onPeriod }) {
  const box = useRef(null);
  const [active, setActive] = useState(0);
  // The bars [from, to] that are being chosen.
  const [range, setRange] = useState(/** @type {[number, number] | null} */ (null));
  const [hover, setHover] = useState(/** @type {number | null} */ (null));
  const last = buckets.length - 1;
  if (last < 0) return null;
  const most = Math.max(1, ...buckets.map((b) => b.count));
  const exact = fine(since, until, buckets.length);
  /** @param {number} i */
  const endOf = (i) => buckets[i + 1]?.since ?? until;
  const fails = new Set(bad.map((time) => buckets.findLastIndex((b) => b.since <= time && time < until)));
  // Other bars may have come since: there may be fewer of them.
  /** @type {[number, number] | null} */
  const ends = range && [Math.min(...range, last), Math.min(Math.max(...range), last)];
  const current = Math.min(active, last);
  /**
   * @param {number} from
   * @param {number} to
   */
  const words = (from, to) =>
    `${clock(buckets[from].since, exact)} to ${clock(endOf(to), exact)} ${zoneOf(new Date(endOf(to)))}: ${plural(
      buckets.slice(from, to + 1).reduce((n, b) => n + b.count, 0),
      'record',
    )}${verdicts.map(({ verdict, counts }) => {
      const n = counts.slice(from, to + 1).reduce((sum, one) => sum + one, 0);
      return n ? `, ${count(n)} ${VERDICTS[verdict]}` : '';
    }).join('')}`;
  /** @param {number} i */
  const refused = (i) => verdicts.reduce((n, { verdict, counts }) => n + (verdict === 'allow' ? 0 : counts[i]), 0);
  /**
   * @param {number} from
   * @param {number} to
   */
  const choose = (from, to) => {
    setRange(null);
    onPeriod(buckets[from].since, endOf(to));
  };

  /** @param {PointerEvent} event */
  const barAt = (event) => {
    const { left, width } = box.current.getBoundingClientRect();
    return Math.max(0, Math.min(last, Math.floor((event.clientX - left) / width * buckets.length)));
  };
  /** @param {PointerEvent} event */
  const onPointerDown = (event) => {
    if (event.button !== 0) return;
    box.current.setPointerCapture(event.pointerId);
    setRange([barAt(event), barAt(event)]);
  };
  /** @param {PointerEvent} event */
  const onPointerMove = (event) => {
    setHover(barAt(event));
    if (range && box.current.hasPointerCapture(event.pointerId)) setRange([range[0], barAt(event)]);
  };
  /** @param {PointerEvent} event */
  const onPointerUp = (event) => {
    if (ends && box.current.hasPointerCapture(event.pointerId)) choose(...ends);
  };
  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    /** @type {Record<string, number>} */
    const moves = { ArrowRight: 1, ArrowLeft: -1, Home: -last, End: last };
    if (event.key === 'Escape' && range) setRange(null);
    else if (event.key === 'Enter' || event.key === ' ') choose(...(ends ?? [current, current]));
    else if (Object.hasOwn(moves, event.key)) {
      const next = Math.max(0, Math.min(last, active + moves[event.key]));
      setRange(event.shiftKey ? [range?.[0] ?? active, next] : null);
      setActive(next);
      box.current.children[next].focus();
    } else return;
    event.preventDefault();
  };

  /** @type {[number, number] | null} */
  const said = ends ?? (hover === null || hover > last ? null : [hover, hover]);
  return html`
    <figure class="histogram">
      <div class="histogram-bars" ref=${box} role="group" aria-label="Records over time" onKeyDown=${onKeyDown}
        onPointerDown=${onPointerDown} onPointerMove=${onPointerMove}
           onPointerUp=${onPointerUp} onPointerCancel=${() => setRange(null)} onPointerLeave=${() => setHover(null)}>
        ${buckets.map((b, i) => html`
          <button key=${i} type="button" tabindex=${i === current ? 0 : -1}
            class="${fails.has(i) ? 'bad' : ''} ${ends && i >= ends[0] && i <= ends[1] ? 'chosen' : ''}"
            aria-label="${words(i, i)}${fails.has(i) ? ', some failed verification' : ''}" onFocus=${() => {
              setActive(i);
              setHover(i);
            }} onBlur=${() => setHover(null)}>
            <span style=${{ height: b.count ? `${Math.max(3, (b.count / most) * 100)}%` : 0 }}>
              ${refused(i) > 0 && html`<span class="refused"
                style=${{ height: `${Math.max(6, (refused(i) / b.count) * 100)}%` }}></span>`}</span></button>`,
        )}
      </div>
      <figcaption class="histogram-axis small muted"><span>${clock(since, exact)} ${zoneOf(new Date(since))}</span>
        <span class="histogram-said">${said ? words(...said) : caption}</span>
          <span>${bare(until, 10) === bare(since, 10) ? clock(until, exact).slice(11)
            : clock(until, exact)} ${zoneOf(new Date(until))}</span></figcaption>
    </figure>`;
}
