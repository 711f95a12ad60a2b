// The rows that the page Records shows, each with its verdict. Three sources have the same members: the whole log, of which any place can
// be shown at once; what a search finds, page after page; and what fails, for which all that matches is read and checked.
//
// count: rows that there are. at(i): a row, or undefined while it is on its way. indexAt(i): of which record, null where it is none. place(index): where a record is, or -1. want(first, last):
// these rows are shown. size: records in the log. read: how many of them the server has looked at. checked: records that were checked here.
// failed: the times of those that fail. busy, done, stopped, error; more() goes on.
import { FormError, having, json, list, read } from '../lib/form.js';
import { recordForm } from '../lib/record.js';
import { call, jsonTexts } from './api.js';
import { checkRecords } from './checker.js';
import { readLogs } from './heads.js';
import { fail as failsHere } from './live.js';
import { foundRecord, narrows, pageOf, pathOf, streamOf } from './search.js';
import { refreshKey, session } from './session.js';

const PIECE = 256; // records fetched or checked at a time
const KEPT = 32; // pieces of the whole log kept in memory on each side of what is shown
const PAGE = 500; // records of a page that is searched for
const MOST = 200000; // rows of a search
const SNIPPET = 240; // characters of a payload that a row has
const AHEAD = 4; // pieces that are checked at a time
const OFTEN = 150; // ms between two looks at what a search has found
const SOON = 60; // ms that a list must rest before something is fetched for it

const rowOf = ({ index, timestamp, agentId, actionType, hash, delegation, inner, source }) => ({
  index, timestamp, hash, agentId, actionType, delegated: Boolean(delegation),
  text: source.slice(inner.start, Math.min(inner.end, inner.start + SNIPPET)).replace(/\s+/g, ' '), check: null,
});

// What stands where a record should be.
const brokenRow = (index, reason) => ({ index, timestamp: '', agentId: '', actionType: '', hash: '', text: '', check: { ok: false, reason } });

// How many records the log has, as the server says.
const logSize = async () => (await readLogs()).find(({ log }) => log === 'actions')?.size ?? 0;

async function check(records) {
  const { key } = session.get();
  const results = await checkRecords(records, key);
  // The key may have been rotated since the company's were asked for.
  const late = results.findLastIndex(({ hashOK, signatureOK }) => hashOK && !signatureOK);
  if (late < 0) return results;
  const newer = await refreshKey(key.companyId, records[late].index).catch(() => key);
  return newer === key ? results : checkRecords(records, newer);
}

class Rows {
  constructor(search, changed) {
    Object.assign(this, { search, changed, size: 0, read: 0, checked: 0, failed: [], busy: false, done: false, error: null, abort: new AbortController() });
  }

  stop() {
    this.abort.abort();
  }

  get stopped() { return this.abort.signal.aborted; }

  fail(error) {
    if (!this.stopped) this.error = error;
  }

  async run(work) {
    if (this.busy || this.stopped) return;
    Object.assign(this, { busy: true, error: null });
    this.changed();
    await work({ signal: this.abort.signal }).catch((err) => this.fail(err));
    this.busy = false;
    this.changed();
  }

  /** The rows of what the server gave, each {node, source}; recordAt(one, i) reads one. Their verdicts come later. */
  rowsOf(given, recordAt, index = () => null) {
    const records = [];
    const rows = given.map((one, i) => {
      try {
        const record = recordAt(one, i);
        records.push(record);
        return rowOf(record);
      } catch (err) {
        return brokenRow(index(i), err.message);
      }
    });
    return { rows, checked: this.judge(rows, records).catch((err) => this.fail(err)) };
  }

  async judge(rows, records) {
    const broken = rows.filter((row) => row.check);
    const whole = rows.filter((row) => !row.check);
    const results = records.length ? await check(records) : [];
    whole.forEach((row, i) => { row.check = results[i]; });
    this.checked += rows.length;
    const failed = [...broken, ...whole.filter((row) => !row.check.ok)];
    this.failed.push(...failed.map((row) => row.timestamp));
    for (const { index, check: { reason } } of failed) if (index !== null) failsHere(index, reason); // nowhere is the chain green then
    this.changed();
  }
}

/** The whole log. A row is known by its index, so a record that is missing or stands elsewhere is seen. */
class LogRows extends Rows {
  pieces = new Map(); // of the log; null while one is on its way
  count = 0;

  order = (i) => (this.search.order === 'newest' ? this.size - 1 - i : i);
  indexAt = this.order;
  place = (index) => (index < this.size ? this.order(index) : -1);

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

  want(first, last) {
    this.view = [first, last];
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      const [a, b] = [this.order(this.view[0]), this.order(this.view[1] - 1)].map((index) => Math.floor(index / PIECE)).sort((x, y) => x - y);
      for (let piece = a; piece <= b; piece++) this.fetch(piece);
    }, this.pieces.size ? SOON : 0);
  }

  async fetch(piece) {
    const from = piece * PIECE;
    const limit = Math.min(PIECE, this.size - from);
    if (this.stopped || from < 0 || limit < 1 || this.pieces.has(piece)) return;
    this.pieces.set(piece, null);
    try {
      const { records } = await call(having({ records: list(json, limit) }), 'GET', `/v1/chain?from=${from}&limit=${limit}`, { signal: this.abort.signal });
      let next = 0;
      const recordAt = (_, i) => {
        const record = records[next] && recordForm(records[next++].node, records[next - 1].source, 'it');
        if (record?.index === from + i) return record;
        if (record && record.index < from + i) throw new FormError(`record ${record.index} stands in its place`);
        if (record) next--; // it belongs to a place that comes
        throw new FormError('the server gave no such record');
      };
      for (const other of this.pieces.keys()) if (Math.abs(other - piece) > KEPT) this.pieces.delete(other);
      this.pieces.set(piece, this.rowsOf(Array.from({ length: limit }), recordAt, (i) => from + i).rows);
      this.error = null;
    } catch (err) {
      this.pieces.delete(piece);
      this.fail(err);
    }
    this.changed();
  }
}

class ListedRows extends Rows {
  rows = [];

  constructor(search, changed) {
    super(search, changed);
    this.newest = search.order === 'newest';
  }

  get count() { return this.rows.length; }
  at(i) { return this.rows[i]; }
  indexAt(i) { return this.rows[i].index; }
  place(index) { return this.rows.findIndex((row) => row.index === index); }
  want() {}

  // Records come in their order, each once, and only such as were asked for; of the whole log none is left out.
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
    if (this.whole ? record.index !== due : !follows) throw new FormError(before === undefined ? `it is record ${record.index}` : `record ${record.index} comes after record ${before}`);
    return record;
  }
}

/** What a search finds, as far as the list was scrolled. */
class FoundRows extends ListedRows {
  cursor = '';

  want(first, last) {
    if (!this.error && last >= this.count - 50) this.more();
  }

  async more() {
    if (!this.done) await this.run((options) => (this.search.q ? this.stream(options) : this.page(options)));
  }

  add(given, next) {
    this.rows.push(...this.rowsOf(given, (one) => this.found(() => one)).rows);
    if (next === undefined) return;
    this.cursor = next;
    this.done = !next || this.count >= MOST;
  }

  async page(options) {
    const page = await pageOf(this.search, this.cursor, PAGE, options);
    this.size = page.size;
    this.add(page.records, page.next);
  }

  async stream(options) {
    let given = [];
    let timer;
    const before = this.read;
    const show = (next) => {
      clearTimeout(timer);
      timer = undefined;
      if (!this.stopped) this.add(given, next);
      given = [];
    };
    for await (const { text, progress, end } of streamOf(this.search, this.cursor, PAGE, options)) {
      if (text !== undefined) given.push(read(json, text, 'record'));
      if (progress) this.size = progress.size;
      if (progress ?? end) this.read = before + (progress ?? end).read;
      if (end) show(end.next);
      else timer ??= setTimeout(show, OFTEN);
    }
  }
}

/**
 * Of what a search finds, what fails. A search ends at a record that is damaged on disk. So where no less than all records are asked for,
 * the log itself is read, from its beginning, and what is missing fails too.
 */
class FailedRows extends ListedRows {
  constructor(search, changed) {
    super(search, changed);
    this.whole = !narrows(search);
    this.newest = search.order === 'newest' && !this.whole;
  }

  more() {
    return this.run(async (options) => {
      Object.assign(this, { rows: [], failed: [], checked: 0, read: 0, last: undefined });
      this.size = await logSize();
      const under = []; // pieces that are being checked, in their order
      const begin = (texts) => under.push(this.piece(texts));
      const show = async () => {
        this.list(await under.shift());
      };
      let texts = [];
      for await (const text of jsonTexts(this.whole ? '/v1/chain' : pathOf(this.search, { order: this.search.order }), options)) {
        texts.push(text);
        if (texts.length < PIECE) continue;
        begin(texts);
        texts = [];
        if (under.length === AHEAD) await show();
      }
      begin(texts);
      while (under.length) await show();
      const missing = this.whole ? this.size - 1 - (this.last ?? -1) : 0;
      if (missing > 0) this.list([brokenRow(null, `the server has ${this.size} records, and gave none of the last ${missing}`)]);
      this.done = true;
    });
  }

  list(rows) {
    if (this.whole && this.search.order === 'newest') this.rows.unshift(...rows.reverse());
    else this.rows.push(...rows);
    this.changed();
  }

  async piece(texts) {
    this.read += texts.length;
    const { rows, checked } = this.rowsOf(texts, (text) => this.found(() => read(json, text, 'record')), () => (this.whole ? this.last : null));
    await checked;
    return rows.filter((row) => !row.check?.ok);
  }
}

/** The rows of a search; changed() is called whenever they are others. */
export const rowsOf = (search, changed) => new (search.failures ? FailedRows : narrows(search) ? FoundRows : LogRows)(search, changed);
