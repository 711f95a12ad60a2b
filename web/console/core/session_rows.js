// @ts-check
// The records of a session as they are read, checked and put together to calls, while it runs too.
import { FormError } from '../lib/form.js';
import { recordForm } from '../lib/record.js';
import { PIECE, Rows } from './rows.js';
import { searchOf } from './search.js';
import { SessionCalls, strangerTo } from './session_calls.js';
import { findSession, recordsOf } from './sessions.js';

export class SessionRows extends Rows {
  calls = new SessionCalls();

  /** @type {ListedSession | null} */
  listed = null; // what the server says of the session

  from = 0; // index after the last record

  /** @type {Set<number>} */
  due = new Set(); // indexes of its records that the stream has shown

  /** @type {Promise<unknown>} */
  loaded = Promise.resolve(); // once all pages are here that there are

  again = false; // whether something has come meanwhile

  /**
   * @param {SessionQuery} name
   * @param {() => void} changed
   */
  constructor(name, changed) {
    super(searchOf({ agent: name.agentId, order: 'oldest' }, 0), changed);
    this.name = name;
  }

  get count() { return this.calls.list.length; }

  /** Reads on from the last record. */
  async more() {
    if (this.busy) {
      this.again = true;
      return;
    }
    do {
      this.again = false;
      await this.run((options) => this.readOn(options));
    } while (this.again && !this.error && !this.stopped);
  }

  /** @param {CallOptions} options */
  async readOn(options) {
    // Before its records: those are then no fewer, unless the server leaves some out.
    const listed = await findSession(this.listed ?? this.name, options);
    this.listed = listed;
    // What is in view first is checked at once, and the rest once all is here: a long session opens
    // sooner.
    /** @type {() => void} */
    let open = () => {};
    this.loaded = new Promise((done) => { open = () => done(undefined); });
    try {
      await this.readPages(listed, options);
    } finally {
      open();
    }
  }

  /**
   * @param {ListedSession} listed
   * @param {CallOptions} options
   */
  async readPages(listed, options) {
    for (;;) {
      const page = await recordsOf(listed, this.from, options);
      if (this.stopped) return;
      for (let i = 0; i < page.records.length; i += PIECE) this.addPiece(page.records.slice(i, i + PIECE), listed);
      this.read += page.records.length;
      if (page.next === undefined) break;
      this.from = Math.max(this.from, page.next);
      this.changed();
    }
    this.done = true;
  }

  /**
   * @param {Row[]} rows
   * @param {LogRecord[]} records
   */
  async verifyRows(rows, records) {
    if (this.calls.entries.length > 0) await this.loaded;
    if (!this.stopped) await super.verifyRows(rows, records);
  }

  /**
   * @param {JSONText[]} given
   * @param {ListedSession} listed
   */
  addPiece(given, listed) {
    /** @type {Map<number, LogRecord>} */
    const records = new Map();
    const { rows } = this.rowsOf(given, ({ node, source }, i) => {
      const record = recordForm(node, source, 'it');
      if (record.index < this.from) throw new FormError(`record ${record.index} is out of order`);
      const strange = record.pruned ? '' : strangerTo(record, listed);
      if (strange) throw new FormError(`record ${record.index} is not of this session: ${strange}`);
      this.from = record.index + 1;
      records.set(i, record);
      return record;
    });
    rows.forEach((row, i) => {
      const record = records.get(i);
      if (record) this.calls.add(row, record);
      else this.calls.addBroken(row);
    });
  }
}
