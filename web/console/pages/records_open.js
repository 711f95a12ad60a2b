// @ts-check
// One record of the page Records, opened over the list: checked at once, with a way to the one
// before and the one after it.
import { html, useEffect, useLayoutEffect, useState } from '../vendor/preact-htm.js';
import { records } from '../core/api.js';
import { count } from '../core/format.js';
import { useSignedIn } from '../core/session.js';
import { Failure, useTask } from '../parts/basic.js';
import { Drawer } from '../parts/dialogs.js';
import { RecordView } from '../parts/record_view.js';
import { table } from '../lib/table.js';

/** @type {Record<string, number>} */
const KEYS = table({ ArrowLeft: 0, k: 0, ArrowRight: 1, j: 1 });

/**
 * The records before and after one, as the list has them; where it does not stand in the list, by
 * index.
 * @param {ListedRows | null} rows
 * @param {number} index
 */
function neighbours(rows, index) {
  const place = rows?.place(index) ?? -1;
  if (!rows || place < 0)
    return {
      around: [index > 0 ? index - 1 : null, rows && rows.size > index + 1 ? index + 1 : null],
      where: rows?.done ? 'not in this list; by index' : 'by index',
    };
  /** @param {number} i */
  const at = (i) => (i < 0 || i >= rows.count ? null : rows.indexAt(i));
  return {
    place,
    around: [at(place - 1), at(place + 1)],
    where: `${count(place + 1)} of ${count(rows.count)}${rows.done ? '' : ' so far'}`,
  };
}

/**
 * rows: of the list, as in core/rows.js. onMove(index) shows another record.
 * @param {{index: number, rows: ListedRows | null, onMove: (index: number) => void, onClose: () =>
 *   void}} props
 */
export function OpenRecord({ index, rows, onMove, onClose }) {
  const { key } = useSignedIn();
  const [record, setRecord] = useState(/** @type {LogRecord | null} */ (null));
  const [run, , error, retry] = useTask();
  const { place, around, where } = neighbours(rows, index);
  useEffect(() => {
    run(async () => {
      const [found] = await records(index, 1);
      if (!found) throw new Error(`There is no record ${index}.`);
      setRecord(found);
    });
  }, [index]);
  useEffect(() => {
    if (place !== undefined) rows?.want(place, place + 1);
  }, [place]); // what comes next may not be here yet
  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    const to = around[KEYS[event.key]];
    if (
      to === undefined ||
      to === null ||
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      event.shiftKey ||
      /^(INPUT|TEXTAREA|SELECT)$/.test(/** @type {Element | null} */ (event.target)?.tagName ?? '')
    )
      return;
    event.preventDefault();
    onMove(to);
  };
  // Before the next paint: a key pressed then is for this record.
  useLayoutEffect(() => {
    addEventListener('keydown', onKeyDown);
    return () => removeEventListener('keydown', onKeyDown);
  });
  /**
   * @param {number} i
   * @param {string} name
   * @param {string} keys
   */
  const step = (
    i,
    name,
    keys,
  ) => html`<button type="button" class="button small" aria-keyshortcuts=${keys}
    title="${name} in the list (${keys.replace(' ', ' or ')})"
    disabled=${around[i] === null} onClick=${() => onMove(around[i] ?? index)}>${name}</button>`;
  return html`
    <${Drawer} title="Record ${index}" onClose=${onClose}>
      <div class="buttons steps-between">${step(0, 'Previous', 'ArrowLeft K')}${step(1, 'Next', 'ArrowRight J')}
        <span class="small muted">${where}</span></div>
      <${Failure} error=${error} retry=${retry} />
      ${!error && (record?.index === index ? html`<${RecordView} record=${record} companyKey=${key} />`
        : html`<p class="muted" role="status">Loading …</p>`)}
    <//>`;
}
