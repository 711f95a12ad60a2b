// @ts-check
// What a search finds, and what of it fails.
import { FormError, json, read } from '../lib/form.js';
import { jsonLines } from './api.js';
import { passedOver } from './archives.js';
import { mustFit } from './asked.js';
import { provenSize } from './heads.js';
import { PIECE, Rows, brokenRow, fails, logSize } from './rows.js';
import { foundRecord, matches, narrows, pageOf, pathOf, readsAll, streamOf } from './search.js';
import { mustReach } from './search_pages.js';
import { signedIn } from './session.js';

const PAGE = 500; // records of a page that is searched for
const MOST = 200000; // rows of a search
const AHEAD = 4; // pieces that are checked at a time
const OFTEN = 150; // ms between two looks at what a search has found

class ListedRows extends Rows {
  /** @type {Row[]} */
  rows = [];

  /** @type {number | undefined} */
  last; // index of the record that came last

  /**
   * @param {Search} search
   * @param {() => void} changed
   */
  constructor(search, changed) {
    super(search, changed);
    this.newest = search.order === 'newest';
    this.whole = false; // whether all records of the log must come
  }

  get count() { return this.rows.length; }
  /** @param {number} i */
  at(i) { return this.rows[i]; }
  /** @param {number} i */
  indexAt(i) { return this.rows[i].index; }
  /** @param {number} index */
  place(index) { return this.rows.findIndex((row) => row.index === index); }
  /**
   * @param {number} [first]
   * @param {number} [last]
   */
  want(first, last) {}

  /**
   * Records come in their order, each once, and only such as were asked for; of the whole log none
   * is left out.
   * @param {() => JSONText} given
   */
  found(given) {
    const due = this.last === undefined ? 0 : this.last + 1;
    let record;
    try {
      record = foundRecord(given(), this.search);
    } catch (err) {
      if (this.whole) this.last = due;
      throw err;
    }
    const follows = this.last === undefined || (this.newest ? record.index < this.last : record.index > this.last);
    const before = this.last;
    if (follows) this.last = record.index;
    if (this.whole ? record.index !== due : !follows)
      throw new FormError(
        before === undefined ? `it is record ${record.index}` : `record ${record.index} comes after record ${before}`,
      );
    return record;
  }
}

/** What a search finds, as far as the list was scrolled. */
export class FoundRows extends ListedRows {
  cursor = ''; // behind what was streamed last

  /** @type {SearchPage | null} */
  before = null; // the page that was read last

  pruned = 0; // records that could not be searched

  /**
   * @param {number} first
   * @param {number} last
   */
  want(first, last) {
    if (!this.error && last >= this.count - 50) this.more();
  }

  async more() {
    if (!this.done) await this.run((options) => (readsAll(this.search) ? this.stream(options) : this.page(options)));
  }

  /**
   * @param {JSONText[]} given
   * @param {string} [next]
   */
  add(given, next) {
    this.rows.push(...this.rowsOf(given, (one) => this.found(() => one)).rows);
    if (next === undefined) return;
    this.done = !next || this.count >= MOST;
  }

  /**
   * What comes is the newest: in a list that begins with the oldest it has a place once all is
   * read.
   * @param {CheckedEntry[]} entries
   */
  addNew(entries) {
    if (this.busy || !(this.done || this.newest) || this.count >= MOST) return false;
    const rows = entries.filter(({ record }) => matches(record, this.search)).map((entry) => this.came(entry));
    if (this.newest) this.rows.unshift(...rows.reverse());
    else this.rows.push(...rows);
    this.size = entries[entries.length - 1].record.index + 1;
    if (this.done) this.read = this.size;
    this.changed();
    return true;
  }

  /** @param {CallOptions} options */
  async page(options) {
    const page = await pageOf(this.search, this.before, PAGE, {
      ...options,
      proven: provenSize(signedIn().key, 'actions'),
    });
    const passed = await passedOver(page.pruned, page.read);
    this.before = page;
    this.size = page.size;
    this.pruned += passed;
    this.add(page.records, page.next);
  }

  /** @param {CallOptions} options */
  async stream(options) {
    /** @type {JSONText[]} */
    let given = [];
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    const before = this.read;
    const { since, until, hash } = this.search;
    const proven = provenSize(signedIn().key, 'actions');
    /** @param {string} [next] */
    const show = (next) => {
      clearTimeout(timer);
      timer = undefined;
      if (!this.stopped) this.add(given, next);
      given = [];
    };
    for await (const { text, progress, end } of streamOf(this.search, this.cursor, PAGE, options)) {
      if (text !== undefined) given.push(read(json, text, 'record'));
      if (progress) {
        this.size = progress.size;
        mustReach(this.size, proven);
      }
      const said = progress ?? end;
      if (said) this.read = before + said.read;
      if (end) {
        // The record with a hash is one: nothing need be read after it.
        mustFit(
          end.next || since || until || hash || this.read === this.size,
          `it has read ${this.read} of ${this.size} records`,
        );
        const passed = await passedOver(end.pruned, { from: 0, to: Infinity });
        this.cursor = end.next;
        this.pruned += passed;
        show(end.next);
      } else timer ??= setTimeout(show, OFTEN);
    }
  }
}

/**
 * Of what a search finds, what fails. A search ends at a record that is damaged on disk. So where
 * no less than all records are asked for, the log itself is read, from its beginning, and what is
 * missing fails too.
 */
export class FailedRows extends ListedRows {
  /**
   * @param {Search} search
   * @param {() => void} changed
   */
  constructor(search, changed) {
    super(search, changed);
    this.whole = !narrows(search);
    this.newest = search.order === 'newest' && !this.whole;
  }

  more() {
    return this.run(async (options) => {
      Object.assign(this, { rows: [], failed: [], checked: 0, read: 0, last: undefined });
      this.size = await logSize();
      /** @type {Promise<Row[]>[]} */
      const under = []; // pieces that are being checked, in their order
      /** @param {string[]} texts */
      const begin = (texts) => under.push(this.piece(texts));
      const show = async () => {
        this.list((await under.shift()) ?? []);
      };
      /** @type {string[]} */
      let texts = [];
      for await (const text of jsonLines(
        this.whole ? '/v1/chain' : pathOf(this.search, { order: this.search.order }),
        options,
      )) {
        texts.push(text);
        if (texts.length < PIECE) continue;
        begin(texts);
        texts = [];
        if (under.length === AHEAD) await show();
      }
      begin(texts);
      while (under.length) await show();
      const missing = this.whole ? this.size - 1 - (this.last ?? -1) : 0;
      if (missing > 0)
        this.list([brokenRow(null, `the server has ${this.size} records, but returned none of the last ${missing}`)]);
      this.done = true;
    });
  }

  /** @param {Row[]} rows */
  list(rows) {
    if (this.whole && this.search.order === 'newest') this.rows.unshift(...rows.reverse());
    else this.rows.push(...rows);
    this.changed();
  }

  /**
   * @param {string[]} texts
   * @returns {Promise<Row[]>}
   */
  async piece(texts) {
    this.read += texts.length;
    const { rows, checked } = this.rowsOf(
      texts,
      (text) => this.found(() => read(json, text, 'record')),
      () => (this.whole ? this.last ?? null : null),
    );
    await checked;
    return rows.filter(fails);
  }
}
