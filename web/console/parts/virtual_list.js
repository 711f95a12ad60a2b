// @ts-check
// A log of any length of which only the visible rows exist. To a keyboard and a screen reader it is
// a grid whose rows are links: arrows, Page Up and Down, Home and End move, Enter opens, Space
// selects. Only one link of it is a stop of the Tab key.
import { html, useEffect, useLayoutEffect, useReducer, useRef, useState } from '../vendor/preact-htm.js';

const OVERSCAN = 8;
/** How many rows a print has, from the one at the top on. */
export const PRINTED = 500;
const PAPER = matchMedia('print');
// Px; browsers lay out nothing much taller. A longer log moves by more than a pixel for each that
// is scrolled.
const TALLEST = 8e6;

/**
 * @param {number} page
 * @param {number} count
 * @returns {Record<string, number>}
 */
const MOVES = (page, count) => ({ ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -count, End: count });

/**
 * count rows of rowHeight pixels below a head; row(i) gives the cells of one, and propsOf(i) more
 * attributes of its row. onView(first, last) says what is shown, last not included; onSelect(i) is
 * called on Space. Each new scrollTo, {row, focus}, brings a row into view.
 * @param {VirtualListProps} props
 */
export function VirtualList({ label, head, count, rowHeight, row, propsOf, onView, onSelect, scrollTo, busy }) {
  const box = useRef(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const [active, setActive] = useState(0);
  // What top is where scrollTop is at: where a pixel is more than one, it says too little.
  const exact = useRef(/** @type {{at?: number, top?: number}} */ ({}));
  const held = useRef(''); // 'here': the focus is in the list; 'due': it is to be there
  const [, rerender] = useReducer((n) => n + 1, 0);
  const [printed, setPrinted] = useState(false);
  useEffect(() => {
    /**
     * What is printed is laid out right after beforeprint, before a change of the medium is heard
     * of.
     * @param {Event} event
     */
    const print = ({ type }) => setPrinted(type === 'change' ? PAPER.matches : type === 'beforeprint');
    /** @type {[EventTarget, string][]} */
    const of = [[window, 'beforeprint'], [window, 'afterprint'], [PAPER, 'change']];
    for (const [target, type] of of) target.addEventListener(type, print);
    return () => { for (const [target, type] of of) target.removeEventListener(type, print); };
  }, []);

  const whole = count * rowHeight;
  const tall = Math.min(whole, TALLEST);
  const scale = tall > view.height ? (whole - view.height) / (tall - view.height) : 1;
  const top = exact.current.at === view.top ? (exact.current.top ?? 0) : view.top * scale;

  useLayoutEffect(() => {
    const element = box.current;
    const measure = () => setView({ top: element.scrollTop, height: element.clientHeight });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    element.addEventListener('scroll', measure, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener('scroll', measure);
    };
  }, []);

  /**
   * @param {number} i
   * @param {boolean} [focus]
   */
  const move = (i, focus) => {
    const element = box.current;
    const above = i * rowHeight;
    const below = above + rowHeight - element.clientHeight;
    if (above < top || below > top) {
      const wanted = above < top ? above : below;
      element.scrollTop = wanted / scale;
      exact.current = { at: element.scrollTop, top: wanted };
    }
    setActive(i);
    if (focus) held.current = 'due';
    rerender();
  };

  useEffect(() => { if (scrollTo) move(Math.max(0, Math.min(count - 1, scrollTo.row)), scrollTo.focus); }, [scrollTo]);

  const current = Math.min(active, Math.max(0, count - 1));
  const first = Math.max(0, Math.floor(top / rowHeight) - OVERSCAN);
  const last = Math.min(count, printed ? first + PRINTED : Math.ceil((top + view.height) / rowHeight) + OVERSCAN);
  const shown = [];
  for (let i = first; i < last; i++) shown.push(i);
  if (count && (current < first || current >= last)) shown.push(current); // the stop of the Tab key must exist

  useEffect(() => { onView?.(first, last); }, [first, last, count, onView]);
  // A row that is put elsewhere among its neighbours loses the focus, and one that was moved to may
  // exist only now.
  useLayoutEffect(() => {
    const { activeElement } = document;
    const link = held.current && box.current.querySelector(`#row-${current} a`);
    if (!link || activeElement === link) return;
    if (held.current === 'due' || activeElement === document.body) link.focus({ preventScroll: true });
  });

  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    const moves = MOVES(Math.max(1, Math.floor(view.height / rowHeight) - 1), count);
    if (!count || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === ' ') onSelect?.(current);
    else if (Object.hasOwn(moves, event.key)) move(Math.max(0, Math.min(count - 1, current + moves[event.key])), true);
    else return;
    event.preventDefault();
  };

  return html`
    <div class="log" role="grid" aria-label=${label} aria-rowcount=${count + 1} aria-multiselectable="true"
      aria-busy=${busy ? 'true' : undefined} onKeyDown=${onKeyDown}
         onBlurCapture=${(event) => {
           if (event.relatedTarget && !box.current.contains(event.relatedTarget)) held.current = '';
         }}>
      <div class="log-head" role="rowgroup"><div class="log-columns" role="row" aria-rowindex="1">${head}</div></div>
      <div class="vlist" role="rowgroup" ref=${box}>
        <div class="vlist-space" role="presentation" style=${{ height: `${tall}px` }}>
          ${shown.map((i) => html`
            <div key=${i} id="row-${i}" role="row" aria-rowindex=${i + 2} ...${propsOf(i)}
                 style=${{ height: `${rowHeight}px`, transform: `translateY(${i * rowHeight - top + view.top}px)` }}
                 onFocusCapture=${() => {
                   held.current = 'here';
                   setActive(i);
                 }}>${row(i, i === current ? 0 : -1)}</div>`,
          )}
        </div>
      </div>
    </div>`;
}
