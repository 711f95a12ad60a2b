// @ts-check
// What the page Records asks for and follows: the rows of a search, their histogram, and what has
// come since.
import { useEffect, useReducer, useRef, useState } from '../vendor/preact-htm.js';
import { FailedRows, FoundRows } from '../core/found_rows.js';
import { LogRows } from '../core/log_rows.js';
import { hasFailed } from '../core/pruned.js';
import { histogramOf, matches, narrows } from '../core/search.js';

const BAR = 11; // px that a bar of the histogram takes

/**
 * The rows of a search. Until the first of them are here, the rows of the search before stay.
 * @param {Search} search
 * @returns {ListedRows | null}
 */
export function useRows(search) {
  const shown = useRef(/** @type {ListedRows | null} */ (null));
  const [, rerender] = useReducer((n) => n + 1, 0);
  useEffect(() => {
    const Source = search.failures ? FailedRows : narrows(search) ? FoundRows : LogRows;
    let left = false; // for another search: what arrives late is not shown in its place
    const rows = new Source(search, () => {
      if (left) return;
      if (!rows.busy || rows.count || rows.read) shown.current = rows;
      rerender();
    });
    rows.more();
    return () => {
      left = true;
      rows.stop();
    };
  }, [search]);
  return shown.current;
}

/**
 * {histogram, error} of a search, as many bars as the width has room for; it is read again with
 * each new turn.
 * @param {Search} search
 * @param {number} width
 * @param {number} turn
 */
export function useHistogram(search, width, turn) {
  /** @type {{histogram: Buckets | null, error: Error | null}} */
  const nothing = { histogram: null, error: null };
  const [found, setFound] = useState(nothing);
  const buckets = Math.max(12, Math.min(160, Math.floor(width / BAR)));
  useEffect(() => {
    if (!width) return;
    const abort = new AbortController();
    histogramOf(search, buckets, { signal: abort.signal }).then(
      (histogram) => setFound({ histogram, error: null }),
      (error) => abort.signal.aborted || setFound({ histogram: null, error }));
    return () => abort.abort();
  }, [search, buckets, turn]);
  return found;
}

/**
 * The width of an element when it is first shown.
 * @param {{current: HTMLElement | null}} ref
 */
export function useWidth(ref) {
  const [width, setWidth] = useState(0);
  useEffect(() => setWidth(ref.current?.clientWidth ?? 0), []);
  return width;
}

/**
 * How many records have come since the rows were read that belong to them; more: there may be
 * others that are not cached here.
 * @param {Search} search
 * @param {ListedRows | null} rows
 * @param {{entries: LiveEntry[]}} state
 * @returns {{fresh: number, more?: boolean}}
 */
export function newOf(search, rows, { entries }) {
  if (!rows || !(rows.size || rows.done)) return { fresh: 0 };
  const length = (entries[0]?.record.index ?? -1) + 1;
  if (!narrows(search) && !search.failures) return { fresh: Math.max(0, length - rows.size) };
  const since = entries.filter(({ record }) => record.index >= rows.size);
  const fresh = since.filter(
    ({ record, check }) => matches(record, search) && (!search.failures || (check && hasFailed(check))),
  ).length;
  return { fresh, more: since.length === entries.length && length - rows.size > entries.length };
}

/**
 * Takes up what comes while the newest row is in view and the reader is not at work in the list;
 * what was missed is read again.
 * @param {boolean} on
 * @param {ListedRows | null} rows
 * @param {{entries: LiveEntry[]}} state
 * @param {{atNewest: () => boolean, rerender: () => void, onAdded: () => void}} how
 */
export function useFollowing(on, rows, { entries }, { atNewest, rerender, onAdded }) {
  useEffect(() => {
    if (!on || !(rows?.size || rows?.done)) return;
    const came = entries.filter(({ record }) => record.index >= rows.size).reverse();
    if (!came.length || came.some(({ check }) => !check) || !atNewest()) return;
    if (came.some(({ record }, i) => record.index !== rows.size + i)) rerender();
    else if (rows.addNew(came.flatMap(({ record, check }) => (check ? [{ record, check }] : [])))) onAdded();
  });
}
