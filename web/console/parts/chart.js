// @ts-check
// Charts in SVG, for a fill is printed and a background is not. A bar has a colour where it says a
// verdict, and is grey where it only counts.
import { html, useState } from '../vendor/preact-htm.js';
import { count } from '../core/format.js';
import { table } from '../lib/table.js';

const TALL = 100; // height of the picture in its own units; one bar is one unit wide
const WIDEST = 5; // rem that one bar may take
const LEAST = 2; // height of the smallest bar that is not nothing
/** @type {Record<string, number>} */
const MOVES = table({ ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity });

/**
 * Bars that do something are one stop of the Tab key; the arrows go from one to the next.
 * @param {number} length
 * @returns {[number, (i: number) => void, (event: KeyboardEvent) => void]}
 */
function useRoving(length) {
  const [at, setAt] = useState(0);
  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    if (!(event.key in MOVES)) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(length - 1, at + MOVES[event.key]));
    setAt(next);
    /** @type {NodeListOf<HTMLElement>} */
    const stops = /** @type {Element} */ (event.currentTarget).querySelectorAll('[tabindex]');
    stops[next].focus();
  };
  return [Math.min(at, length - 1), setAt, onKeyDown];
}

/**
 * @param {() => void} act
 * @returns {(event: KeyboardEvent) => void}
 */
const enter = (act) => (event) => {
  if (event.key !== 'Enter' && event.key !== ' ') return;
  event.preventDefault();
  act();
};

/**
 * Values side by side, over time perhaps. bars are [{label, value, tone?, href?}]; tone is one of
 * Badge; a bar with href is a link, and onPick(i) makes each a button, of which selected (an index)
 * is pressed. label says what the values are.
 * @param {{label: string, bars: Bar[], onPick?: (i: number) => void, selected?: number}} props
 */
export function Bars({ label, bars, onPick, selected }) {
  const [at, setAt, onKeyDown] = useRoving(bars.length);
  if (!bars.length) return null;
  const most = Math.max(...bars.map(({ value }) => value));
  const live = Boolean(onPick) || bars.some(({ href }) => href);
  const top = bars.find(({ value }) => value === most);
  const summary = `${label}: ${bars.length} bars from ${bars[0].label} to ${bars[bars.length - 1].label}; ` +
    `${most ? `the maximum is ${count(most)}, at ${top?.label}` : 'all are zero'}`;
  return html`
    <figure class="bars">
      <figcaption class="bars-head"><span>${label}</span><span class="muted">maximum ${count(most)}</span></figcaption>
      <svg viewBox="0 0 ${bars.length} ${TALL}" preserveAspectRatio="none"
        style=${{ maxWidth: `${bars.length * WIDEST}rem` }} role=${live ? 'group' : 'img'} aria-label=${summary}
          onKeyDown=${live ? onKeyDown : undefined}>
        ${bars.map((bar, i) => {
          const height = bar.value ? Math.max(LEAST, (bar.value / most) * TALL) : 0;
          const says = `${bar.label}: ${count(bar.value)}`;
          const shapes = html`<title>${says}</title><rect class="bar-room" x=${i} y="0" width="1" height=${TALL} />
            <rect class="bar-value ${bar.tone ?? ''}" x=${i + 0.08} y=${TALL - height} width="0.84"
              height=${height} />`;
          const stop = {
            key: i,
            class: 'bar',
            'aria-label': says,
            tabindex: i === at ? 0 : -1,
            onFocus: () => setAt(i),
          };
          if (bar.href)
            return html`<a ...${stop} href=${bar.href} aria-current=${selected === i ? 'true' : undefined}>
            ${shapes}</a>`;
          if (!onPick) return html`<g key=${i} class="bar">${shapes}</g>`;
          return html`<g ...${stop} role="button" aria-pressed=${selected === i ? 'true' : 'false'}
            onClick=${() => onPick(i)} onKeyDown=${enter(() => onPick(i))}>${shapes}</g>`;
        })}
      </svg>
      <div class="bars-axis muted" aria-hidden="true" style=${{ maxWidth: `max(12rem, ${bars.length * WIDEST}rem)` }}>
        <span>${bars[0].label}</span>${bars.length > 1 && html`<span>${bars[bars.length - 1].label}</span>`}</div>
    </figure>`;
}

/**
 * Names with their values, the greatest first, as bars that lie: for what has no order of its own.
 * bars as of Bars.
 * @param {{label: string, bars: Bar[], most?: number}} props
 */
export function Ranks({ label, bars, most = Math.max(1, ...bars.map(({ value }) => value)) }) {
  return html`
    <figure class="ranks">
      <figcaption>${label}</figcaption>
      <ol>${bars.map((bar) => html`
        <li key=${bar.label}>
          <span class="rank-name">${bar.href ? html`<a href=${bar.href}>${bar.label}</a>` : bar.label}</span>
          <svg viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">
            <rect class="bar-value ${bar.tone ?? ''}" width=${bar.value ? Math.max(1, (bar.value / most) * 100) : 0}
              height="1" /></svg>
          <span class="rank-value">${count(bar.value)}</span>
        </li>`)}</ol>
    </figure>`;
}
