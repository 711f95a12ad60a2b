// @ts-check
// The rows that the page Records shows, each with its verdict. Three sources have the same members:
// the whole log, of which any place can be shown at once; what a search finds, page after page; and
// what fails, for which all that matches is read and checked.
//
// count: rows that there are. at(i): a row, or undefined while it is on its way. indexAt(i): of
// which record, null where it is none. place(index): where a record is, or -1. want(first, last):
// these rows are shown. size: records in the log. read: how many of them the server has looked at.
// checked: records that were checked here. failed: the times of those that fail. busy, done,
// stopped, error; more() goes on. take(entries) puts records that came since, {record, check} from
// size on one after the other, where they belong, and says whether it did; those that fail are not
// followed.
import { beginningOf, callWords } from './call_words.js';
import { checkActions } from './check_actions.js';
import { fail as failsHere } from './failures.js';
import { readLogs } from './growth.js';
import { provenSize } from './heads.js';
import { hasFailed } from './pruned.js';
import { mustReach } from './search_pages.js';
import { session, signedIn } from './session.js';
import { wordsOf } from './words.js';

/** How many records are fetched or checked at a time. */
export const PIECE = 256;

/**
 * @param {LogRecord} record
 * @returns {Row}
 */
const rowOf = (record) => ({
  index: record.index,
  timestamp: record.timestamp,
  hash: record.hash,
  agentId: record.agentId,
  actionType: record.actionType,
  delegated: Boolean(record.delegation),
  pruned: record.pruned,
  words: callWords(record),
  text: record.pruned ? '' : beginningOf(record.inner, record.source),
  check: null,
});

/**
 * Whether a row was checked and fails, or is not checked.
 * @param {Row} row
 */
export const fails = ({ check }) => !check || hasFailed(check);

/**
 * What is in the place of a record.
 * @param {number | null} index
 * @param {string} reason
 * @returns {Row}
 */
export const brokenRow = (index, reason) => ({
  index,
  timestamp: '',
  agentId: '',
  actionType: '',
  hash: '',
  text: '',
  check: { ok: false, reason },
});

/** How many records the log has, as the server says, and no fewer than its keys have signed. */
export async function logSize() {
  const proven = provenSize(signedIn().key, 'actions');
  const [{ size }] = await readLogs();
  mustReach(size, proven);
  return size;
}

/**
 * What the three sources share. search is as of searchOf; changed() is called whenever the rows are
 * others.
 */
export class Rows {
  /**
   * @param {Search} search
   * @param {() => void} changed
   */
  constructor(search, changed) {
    this.search = search;
    this.changed = changed;
    this.size = 0;
    this.read = 0;
    this.checked = 0;
    /** @type {string[]} */
    this.failed = [];
    this.busy = false;
    this.done = false;
    /** @type {Error | null} */
    this.error = null;
    this.abort = new AbortController();
  }

  stop() {
    this.abort.abort();
  }

  get stopped() { return this.abort.signal.aborted; }

  /** @param {Error} error */
  fail(error) {
    if (!this.stopped) this.error = error;
  }

  /** @param {(options: CallOptions & {signal: AbortSignal}) => Promise<unknown>} work */
  async run(work) {
    if (this.busy || this.stopped) return;
    Object.assign(this, { busy: true, error: null });
    this.changed();
    await work({ signal: this.abort.signal }).catch((err) => this.fail(err));
    this.busy = false;
    this.changed();
  }

  /**
   * The row of a record that came since, and was checked then.
   * @param {CheckedEntry} entry
   * @returns {Row}
   */
  came({ record, check }) {
    this.checked++;
    const row = { ...rowOf(record), check };
    if (fails(row)) this.failed.push(record.timestamp);
    this.addWords([row], [record]);
    return row;
  }

  /**
   * Finds out who signed records, once they are checked. Those that fail count as unsigned.
   * @param {Row[]} rows
   * @param {LogRecord[]} records
   */
  async addWords(rows, records) {
    const held = rows.flatMap((row, i) => (row.check?.ok ? [{ row, record: records[i] }] : []));
    if (!held.length || this.stopped) return;
    const words = await wordsOf(held.map(({ record }) => record));
    if (this.stopped) return;
    held.forEach(({ row }, i) => { row.word = words[i]; });
    this.changed();
  }

  /**
   * @param {CheckedEntry[]} entries
   * @returns {boolean}
   */
  addNew(entries) { return false; }

  /**
   * The rows of what the server gave, each {node, source}; recordAt(one, i) reads one. Their
   * verdicts come later.
   * @template T
   * @param {T[]} given
   * @param {(one: T, i: number) => LogRecord} recordAt
   * @param {(i: number) => number | null} [index]
   */
  rowsOf(given, recordAt, index = /** @type {(i: number) => number | null} */ (() => null)) {
    /** @type {LogRecord[]} */
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
    return { rows, checked: this.verifyRows(rows, records).catch((err) => this.fail(err)) };
  }

  /**
   * @param {Row[]} rows
   * @param {LogRecord[]} records
   */
  async verifyRows(rows, records) {
    const broken = rows.filter((row) => row.check);
    const whole = rows.filter((row) => !row.check);
    const { companyId } = signedIn().company;
    const results = records.length ? await checkActions(records) : [];
    if (session.get().company?.companyId !== companyId) return;
    whole.forEach((row, i) => { row.check = results[i]; });
    this.addWords(whole, records);
    this.checked += rows.length;
    this.failed.push(...[...broken, ...whole.filter(fails)].map((row) => row.timestamp));
    for (const { index, check } of broken)
      if (index !== null && check) failsHere(index, check.reason); // nowhere is the chain green then
    this.changed();
  }
}
