// A list of any length of which only the visible rows exist. To a keyboard and a screen reader it is a listbox:
// arrows, Page Up and Down, Home and End move; Enter opens.
import { html, useEffect, useLayoutEffect, useRef, useState } from '../vendor/preact-htm.js';

const OVERSCAN = 8;

/**
 * count rows of rowHeight pixels; row(i) renders one; onOpen(i) is called on Enter or a click. Each new scrollTo, {row}, brings a row into view.
 */
export function VirtualList({ label, count, rowHeight, row, onOpen, scrollTo }) {
  const box = useRef(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const [active, setActive] = useState(0);

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

  const reveal = (i) => {
    const element = box.current;
    const top = i * rowHeight;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + rowHeight > element.scrollTop + element.clientHeight) element.scrollTop = top + rowHeight - element.clientHeight;
  };

  useEffect(() => {
    if (!scrollTo) return;
    setActive(scrollTo.row);
    reveal(scrollTo.row);
  }, [scrollTo]);

  const onKeyDown = (event) => {
    const page = Math.max(1, Math.floor(view.height / rowHeight) - 1);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -count, End: count };
    if (event.key === 'Enter' && count) onOpen(current);
    else if (event.key in moves) {
      const next = Math.max(0, Math.min(count - 1, current + moves[event.key]));
      setActive(next);
      reveal(next);
    } else return;
    event.preventDefault();
  };

  const current = Math.min(active, Math.max(0, count - 1));
  const first = Math.max(0, Math.floor(view.top / rowHeight) - OVERSCAN);
  const last = Math.min(count, Math.ceil((view.top + view.height) / rowHeight) + OVERSCAN);
  const shown = [];
  for (let i = first; i < last; i++) shown.push(i);
  if (count && (current < first || current >= last)) shown.push(current); // what aria-activedescendant names must exist

  return html`
    <div class="vlist" ref=${box} role="listbox" tabindex="0" aria-label=${label} onKeyDown=${onKeyDown}
         aria-activedescendant=${count ? `row-${current}` : undefined}>
      <div class="vlist-space" role="presentation" style=${{ height: `${count * rowHeight}px` }}>
        ${shown.map((i) => html`
          <div key=${i} id="row-${i}" class="vlist-row" role="option" aria-selected=${i === current ? 'true' : 'false'}
               aria-setsize=${count} aria-posinset=${i + 1}
               style=${{ height: `${rowHeight}px`, transform: `translateY(${i * rowHeight}px)` }}
               onClick=${() => { setActive(i); onOpen(i); }}>${row(i)}</div>`)}
      </div>
    </div>`;
}
