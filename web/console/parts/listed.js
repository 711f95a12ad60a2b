// @ts-check
// A list of the server, and whether it has what the control log says that there is.
import { html, useEffect, useRef, useState } from '../vendor/preact-htm.js';
import { count, timeText } from '../core/format.js';
import { comparePage, compareWithLog } from '../core/listed.js';
import { href } from '../core/router.js';
import { FormError } from '../lib/form.js';
import { visible } from '../lib/visible.js';
import { Notice, useTask } from './basic.js';

/**
 * @typedef {{is: 'due'} | {is: 'unread', error: TaskError} | {is: 'read', check:
 *   ListedCheck}} Compared
 */

/**
 * [list, compared, load, error]: a list as read() gives it, null before, and whether the control
 * log has the same. itemOf gives the subject of an item's control records, of one of some kinds,
 * and its members. Where the two differ both are read once more, for a change may have come
 * between.
 * @template T
 * @param {string[]} kinds
 * @param {() => Promise<T[]>} read
 * @param {(item: T) => ListedItem | Promise<ListedItem>} itemOf
 * @returns {[T[] | null, Compared, () => Promise<void>, TaskError | null]}
 */
export function useListed(kinds, read, itemOf) {
  const [list, setList] = useState(/** @type {T[] | null} */ (null));
  const [compared, setCompared] = useState(/** @type {Compared} */ ({ is: 'due' }));
  const turn = useRef(0);
  const [run, , error] = useTask();
  /** @param {T[]} first */
  const compareAll = async (first) => {
    const mine = ++turn.current;
    /** @param {Compared} next */
    const show = (next) => { if (turn.current === mine) setCompared(next); };
    show({ is: 'due' });
    try {
      let check = await compareWithLog(kinds, await Promise.all(first.map(itemOf)));
      if (check.differences.length && turn.current === mine) {
        const again = await read();
        if (turn.current === mine) setList(again);
        check = await compareWithLog(kinds, await Promise.all(again.map(itemOf)));
      }
      show({ is: 'read', check });
    } catch (err) {
      show({ is: 'unread', error: err });
    }
  };
  const load = async () => {
    await run(async () => {
      const found = await read();
      setList(found);
      compareAll(found); // nothing waits for it: it says so when it is done
    });
  };
  return [list, compared, load, error];
}

/**
 * Whether a page of agents or passports is what the control log says: as useListed gives it. Where
 * the two differ the page is read once more, for a change may have come between.
 * @template T
 * @param {'agent' | 'passport'} kind
 * @param {Paged<T>} paged
 * @param {(item: T) => ListedItem} itemOf
 * @param {(items: T[]) => {q?: string, since?: string}} asked which records are of all of them
 */
export function useListedPage(kind, { items, reload }, itemOf, asked) {
  const [compared, setCompared] = useState(/** @type {Compared} */ ({ is: 'due' }));
  const again = useRef(false);
  useEffect(() => {
    if (!items?.length) return setCompared({ is: 'due' });
    let left = false;
    /** @param {Compared} next */
    const show = (next) => {
      if (left) return;
      const differs = next.is === 'read' && next.check.differences.length > 0;
      const retry = differs && !again.current;
      again.current = retry;
      if (retry) reload();
      else setCompared(next);
    };
    comparePage(kind, items.map(itemOf), asked(items))
      .then((check) => show({ is: 'read', check }), (error) => show({ is: 'unread', error }));
    return () => { left = true; };
  }, [items]);
  return compared;
}

/** @param {{of: ListedDifference}} props */
function Difference({ of: { is, what, name, record, altered } }) {
  const thing = html`${what} <code>${visible(name)}</code>`;
  const at = record && html`<a href=${href('control', record.index)}>control record ${record.index}</a>
    ${' '}of ${timeText(record.timestamp)}`;
  if (altered)
    return html`<li data-differs=${`altered ${visible(name)} ${altered.member}`}>Of the ${thing} the list has
      ${' '}${altered.member} <code>${visible(altered.lists)}</code>, and ${at} has
      ${' '}<code>${visible(altered.says)}</code>.</li>`;
  return html`<li data-differs=${`${is} ${visible(name)}`}>${is === 'lacking'
    ? html`The control log has the ${thing}, created by ${at}, and the list lacks it.`
    : is === 'ended' ? html`The list has the ${thing}, and ${at} says that it was deleted.`
      : html`The list has the ${thing}, and no control record says that it was created.`}</li>`;
}

/**
 * page: it is one of many, of which only its own items are compared.
 * @param {{of: Compared, page?: boolean}} props
 */
export function Listed({ of, page }) {
  if (of.is === 'due') return null;
  if (of.is === 'unread')
    return html`<div data-listed="unread"><${Notice} kind=${of.error instanceof FormError ? 'bad' : ''}>
      The list was not compared with the control log: ${of.error.message}<//></div>`;
  const { differences, created, ended } = of.check;
  if (differences.length)
    return html`<div data-listed="differs"><${Notice} kind="bad">
      This list is not what the control log says: <ul>${differences.map((one) => html`
        <${Difference} key=${`${one.kind} ${one.name} ${one.altered?.member}`} of=${one} />`)}</ul><//></div>`;
  if (page) return html`<span hidden data-listed="same"></span>`;
  return html`<p class="small muted" data-listed="same">The control log says the same (${count(created)} created,
    ${' '}${count(ended)} deleted), by records that the server finds and this browser checks. A
    ${' '}<a href=${href('report')}>report</a> proves that none was left out.</p>`;
}
