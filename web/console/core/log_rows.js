// @ts-check
// The whole log, of which any place can be shown at once: rows are fetched for what is in view.
import { FormError, having, json, list } from '../lib/form.js';
import { recordForm } from '../lib/record.js';
import { call } from './api.js';
import { NOTHING } from './asked.js';
import { PIECE, Rows, logSize } from './rows.js';

const NEAR = 32; // pieces of the whole log in memory on each side of what is shown
const SOON = 60; // ms that a list must rest before something is fetched for it

/**
 * The whole log. A row is known by its index, so a record that is missing or is elsewhere is seen.
 */
export class LogRows extends Rows {
  /** @type {Map<number, Row[] | null>} */
  pieces = new Map(); // of the log; null while one is on its way
  count = 0;

  /** @type {ReturnType<typeof setTimeout> | undefined} */
  timer;

  /** @type {[number, number] | undefined} */
  view;

  /** @param {number} i */
  order = (i) => (this.search.order === 'newest' ? this.size - 1 - i : i);
  indexAt = this.order;
  /** @param {number} index */
  place = (index) => (index < this.size ? this.order(index) : -1);

  /** @param {number} i */
  at(i) {
    const index = this.order(i);
    return this.pieces.get(Math.floor(index / PIECE))?.[index % PIECE];
  }

  more() {
    return this.run(async () => {
      const size = await logSize();
      Object.assign(this, { size, count: size, read: size, done: true });
    });
  }

  /** @param {CheckedEntry[]} entries */
  addNew(entries) {
    const { index: last } = entries[entries.length - 1].record;
    if (!this.done || this.pieces.get(Math.floor(this.size / PIECE)) === null) return false;
    for (const entry of entries) {
      const { index } = entry.record;
      if (index % PIECE === 0) this.cachePiece(index / PIECE, []);
      this.pieces.get(Math.floor(index / PIECE))?.push(this.came(entry));
    }
    Object.assign(this, { size: last + 1, count: last + 1, read: last + 1 });
    this.changed();
    return true;
  }

  /**
   * Keeps a piece, and forgets what is far from it.
   * @param {number} piece
   * @param {Row[]} rows
   */
  cachePiece(piece, rows) {
    for (const other of this.pieces.keys()) if (Math.abs(other - piece) > NEAR) this.pieces.delete(other);
    this.pieces.set(piece, rows);
  }

  /**
   * @param {number} first
   * @param {number} last
   */
  want(first, last) {
    this.view = [first, last];
    this.timer ??= setTimeout(
      () => {
        this.timer = undefined;
        const [top, end] = this.view ?? [0, 0];
        const [a, b] = [this.order(top), this.order(end - 1)]
          .map((index) => Math.floor(index / PIECE))
          .sort((x, y) => x - y);
        for (let piece = a; piece <= b; piece++) this.fetch(piece);
      },
      this.pieces.size ? SOON : 0,
    );
  }

  /** @param {number} piece */
  async fetch(piece) {
    const from = piece * PIECE;
    const limit = Math.min(PIECE, this.size - from);
    if (this.stopped || from < 0 || limit < 1 || this.pieces.has(piece)) return;
    this.pieces.set(piece, null);
    try {
      const { records } = await call(
        having({ records: list(json, limit) }),
        'GET',
        `/v1/chain?from=${from}&limit=${limit}`,
        { signal: this.abort.signal, asked: NOTHING },
      );
      let next = 0;
      /**
       * @param {unknown} _
       * @param {number} i
       */
      const recordAt = (_, i) => {
        const record = records[next] && recordForm(records[next++].node, records[next - 1].source, 'it');
        if (record?.index === from + i) return record;
        if (record && record.index < from + i) throw new FormError(`record ${record.index} is in its place`);
        if (record) next--; // it belongs to a place that comes
        throw new FormError('the server returned no such record');
      };
      this.cachePiece(piece, this.rowsOf(Array.from({ length: limit }), recordAt, (i) => from + i).rows);
      this.error = null;
    } catch (err) {
      this.pieces.delete(piece);
      this.fail(err);
    }
    this.changed();
  }
}
