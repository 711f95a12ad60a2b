// @ts-check
// The stream of records as it happens. Each record is checked on arrival; what a broken connection
// missed is fetched and checked after it. What was found here and what the server says of its chain
// are separate: the server may lie.
import { FormError, read } from '../lib/form.js';
import { chainVerdict, streamMessage } from './answers.js';
import { call, records } from './api.js';
import { NOTHING } from './asked.js';
import { CheckedRange } from './checked_range.js';
import { checkActions } from './check_actions.js';
import { fail, failureNow } from './failures.js';
import { findings } from './findings.js';
import { changedOf, proveSince } from './growth.js';
import { heads, rewrittenSince, showFindings } from './heads.js';
import { add, addCheck, change, clear, live, state } from './live_state.js';
import { session, signedIn } from './session.js';
import { closeStream, isConnecting, openStream, whyRefused } from './stream.js';
import { forget } from './verification.js';

const HISTORY = 20; // records read at first from a chain that is not read whole
// Records of a chain that is read whole at once, and most that are fetched of those that were
// missed.
const WHOLE = 1000;
const BATCH = 256; // messages taken together
// Messages waiting beyond which records are passed on unchecked; they are fetched and checked after
// it.
const BACKLOG = 2000;
const POLL = 30_000; // ms after which the server is asked what it has, though the stream is silent
const PATIENCE = 10_000; // ms until a server that does not answer then is taken for gone

let epoch = 0; // counts sign-ins: work begun for an earlier one is dropped
let last = -1; // greatest index seen
let range = new CheckedRange(0); // what was checked, as CheckedRange
let everOpen = false;
let work = Promise.resolve();
/** @type {string[]} */
let inbox = []; // messages that are not handled yet
let lookTimer = 0;
let filling = false; // whether records behind the newest are to be fetched
let red = false; // whether a finding is not acknowledged

const isRed = () => Boolean(failureNow() || heads.get().rewritten);

const now = () => new Date().toISOString();

function reset() {
  closeStream();
  epoch++;
  last = -1;
  range = new CheckedRange(0);
  filling = false;
  clearInterval(lookTimer);
  everOpen = false;
  inbox = [];
  clear();
}

/** Starts again, with nothing of what was shown before. */
export function start() {
  reset();
  showFindings(signedIn().company.companyId);
  clear({ failure: failureNow() });
  red = isRed();
  openStream(stream);
  lookTimer = setInterval(pollServer, POLL);
}

/** Nothing of a company stays behind when it signs out. */
export function stop() {
  reset();
  forget();
  showFindings('');
}

// Another tab may have found what this one has not, and a person may have acknowledged it there:
// then everything is read again.
function found() {
  if (state('connection') === 'off') return;
  const was = red;
  red = isRed();
  if (was && !red) start();
  else change({ failure: failureNow() });
}
heads.subscribe(found);
findings.subscribe(found);

// A stream may be silent because nothing happens, because the network is gone and no one has
// noticed, or because the server withholds what it shows elsewhere.
function pollServer() {
  if (state('connection') === 'open' && everOpen) queue(compare);
}
for (const name of ['online', 'pageshow']) globalThis.addEventListener?.(name, pollServer);
globalThis.document?.addEventListener('visibilitychange', pollServer);

/** @param {Current} current */
async function compare(current) {
  let shown;
  try {
    shown = await proveSince(signedIn().key, { signal: AbortSignal.timeout(PATIENCE) });
  } catch (err) {
    if (current() && err.status === 0 && state('connection') === 'open') {
      closeStream();
      stream.lost(false);
      openStream(stream);
    }
    throw err;
  }
  if (!current()) return;
  const [{ size }] = shown;
  if (size > last
    + 1) await checkAndShow(await given(last + 1, Math.min(WHOLE, size - last - 1), current), true, current);
  if (!current()) return;
  change({ problem: '' });
  fillSoon();
  if (state('agreed')) return;
  if (!state('server')) await askVerdict(size, current); // what was asked for at first may have failed
  await compareRoots(current);
}

async function askWhy() {
  const mine = epoch;
  const problem = await whyRefused();
  if (epoch === mine && state('connection') !== 'open') change({ problem });
}

/**
 * Tries again at once, where the next attempt would come later; what could not be read while the
 * stream is open is read again.
 */
export function reconnect() {
  if (state('connection') === 'open' && state('problem')) {
    range.invalidate();
    change({ problem: '', agreed: false });
    queue(catchUp);
  }
  if (state('connection') === 'retrying' && !isConnecting()) openStream(stream);
}

const stream = {
  connecting() {
    if (!everOpen) change({ connection: 'connecting', since: now() });
  },
  opened() {
    range.invalidate(); // until it is proven that the server still shows it
    change({ connection: 'open', since: now(), problem: '', agreed: false });
    queue(catchUp);
  },
  /** @param {string} data */
  message(data) {
    inbox.push(data);
    if (inbox.length === 1) queue(receive);
  },
  /** @param {boolean} refused */
  lost(refused) {
    if (refused) askWhy();
    if (state('connection') !== 'retrying') change({ connection: 'retrying', since: now() });
  },
};

/**
 * Jobs run one after the other. current() is false once the company that a job belongs to has
 * signed out: then what comes late is dropped.
 * @param {(current: Current) => unknown} job
 */
function queue(job) {
  const mine = epoch;
  const current = () => epoch === mine;
  work = work.then(async () => {
    if (!current()) return;
    try {
      await job(current);
    } catch (err) {
      if (!current()) return;
      change({ problem: err.message });
      if (err instanceof FormError) fail('index' in err ? Number(err.index) : last + 1, err.message);
    }
  });
  return work;
}

/** @param {Current} current */
async function catchUp(current) {
  const { key } = signedIn();
  const shown = await proveSince(key);
  if (!current()) return;
  const [{ size }] = shown;
  if (!everOpen) {
    const from = size <= WHOLE ? 0 : size - HISTORY;
    last = from - 1;
    show(new CheckedRange(from));
    if (size > from) await checkAndShow(await given(from, size - from, current), false, current);
    if (!current()) return;
    everOpen = true;
  } else {
    await stillThere(size, key, current);
    await fetchMissed(size, true, current);
  }
  await askVerdict(size, current);
  await compareRoots(current);
}

/**
 * Asks the server for its verdict on the chain, which has so many records or more.
 * @param {number} size
 * @param {Current} current
 */
async function askVerdict(size, current) {
  const said = await call(chainVerdict, 'GET', '/v1/verify', { asked: NOTHING });
  if (current()) serverSays(said, size);
}

/**
 * The records [from, from + count), which the server says that it has.
 * @param {number} from
 * @param {number} count
 * @param {Current} current
 */
async function given(from, count, current) {
  const found = await records(from, count);
  if (current() && found.length < count) fail(from + found.length, 'the server claims more records, but returns none');
  return found;
}

/**
 * What this page shows must be there still, for a chain never loses or changes a record. Of a whole
 * chain, its root says so too (settle).
 * @param {number} size
 * @param {ServiceKey} key
 * @param {Current} current
 */
async function stillThere(size, key, current) {
  const from = Math.max(0, last + 1 - WHOLE);
  const held = live.get().entries.map(({ record }) => record).toReversed().filter(({ index }) => index >= from);
  const changed = held.length > 0 && (await changedOf(held));
  if (current() && changed)
    rewrittenSince(
      key,
      'actions',
      { size: last + 1, at: live.get().since, source: 'checked' },
      { from: changed.index, now: size },
    );
}

/** @param {Current} current */
async function receive(current) {
  if (!everOpen) { // what came first failed, and these are read with the rest
    inbox = [];
    return catchUp(current);
  }
  const batch = inbox.splice(0, BATCH);
  if (inbox.length) queue(receive);
  let said;
  let length = 0; // of the chain, by what was said
  let fitting = []; // records that follow one another
  const repeated = []; // records that were here already
  for (const data of batch) {
    const { record, ...verdict } = read(streamMessage, data, 'message');
    // An open stream carries every company's records.
    if (record.companyId !== session.get().company?.companyId) continue;
    said = verdict;
    length = record.index + 1;
    const next = last + 1 + fitting.length;
    if (record.index < next) {
      repeated.push(record);
      continue;
    }
    if (record.index > next) {
      await checkAndShow(fitting, false, current);
      fitting = [];
      await fetchMissed(record.index, false, current);
      if (!current()) return;
    }
    fitting.push(record);
  }
  await checkAndShow(fitting, false, current);
  if (current() && repeated.length) await checkActions(repeated);
  if (!current() || !said) return;
  serverSays(said, length);
  if (!inbox.length) await compareRoots(current);
}

/**
 * Fetches the records before to that did not come over the stream, WHOLE at most, and says which
 * they were and how many of them were fetched. away is whether the connection was; else the stream
 * left them out.
 * @param {number} to
 * @param {boolean} away
 * @param {Current} current
 */
async function fetchMissed(to, away, current) {
  const from = last + 1;
  if (from >= to) return;
  const found = await given(from, Math.min(WHOLE, to - from), current);
  await checkAndShow(found, true, current);
  if (current()) change({ missed: [...state('missed'), { from, to, fetched: found.length, away }] });
}

/** @param {CheckedRange} next */
function show(next) {
  range = next;
  change(range.shown);
}

/**
 * Checks records that come after the last one, shows them, and extends the range with those that
 * hold.
 * @param {LogRecord[]} found
 * @param {boolean} late
 * @param {Current} current
 */
async function checkAndShow(found, late, current) {
  const due = found.filter(({ index }) => index > last);
  if (!current() || !due.length) return;
  const skipped = inbox.length >= BACKLOG;
  const checks = skipped ? [] : await checkActions(due);
  for (const [i, record] of due.entries()) {
    if (!current()) return;
    const check = checks[i] ?? null;
    add({ record, check, late });
    await extend(record, check);
    last = record.index;
  }
  if (skipped && !range.isWhole) change({ unchecked: state('unchecked') + due.length });
  fillSoon();
}

/**
 * Of a chain that was checked whole, a record that comes too fast, or after some that are missing,
 * leaves the range as it is: it is filled in.
 * @param {LogRecord} record
 * @param {WorkerResult | null} check
 */
async function extend({ index, hash }, check) {
  if (index < range.to) return; // it is in the range already
  if (check && !check.ok) return show(new CheckedRange(index + 1));
  if (range.isWhole && (!check || index !== range.to)) return;
  if (!check) return show(new CheckedRange(index + 1));
  if (index !== range.to) range = new CheckedRange(index);
  await range.add({ hash, leaf: check.leaf }, signedIn().key);
  change(range.shown);
}

// Records after a range that is whole are fetched and checked one part after the other, between the
// messages that come meanwhile.
function fillSoon() {
  change({ behind: range.isWhole ? Math.max(0, last + 1 - range.to) : 0 });
  if (filling || !range.isWhole || range.to > last) return;
  filling = true;
  queue(async (current) => {
    try {
      await fill(current);
    } finally {
      if (current()) filling = false;
    }
    if (current()) fillSoon();
  });
}

/** @param {Current} current */
async function fill(current) {
  const held = range;
  const found = await given(held.to, Math.min(WHOLE, last + 1 - held.to), current);
  const checks = current() && found.length ? await checkActions(found) : [];
  for (const [i, record] of found.entries()) {
    if (!current() || range !== held) return;
    addCheck(record.index, checks[i]);
    await extend(record, checks[i]);
  }
  if (!current() || range !== held) return;
  if (!found.length) throw new Error('The server no longer returns records that it has sent before.');
  change({ missed: state('missed').map((one) => (one.to <= range.to ? { ...one, fetched: one.to - one.from } : one)) });
  if (range.to > last && state('server')) await compareRoots(current);
}

/**
 * Holds all that was checked against the root that the server has named.
 * @param {Current} current
 */
async function compareRoots(current) {
  const said = state('server');
  if (!current() || !said || state('failure') || heads.get().rewritten) return;
  const held = range;
  const wrong = await held.compareRoots(said, signedIn().key);
  if (!current() || held !== range) return;
  if (wrong) fail('the root', wrong);
  change(range.shown);
}

/**
 * Takes over what a run over the whole chain has checked, {count, state}, to extend it record by
 * record.
 * @param {VerifyAnswer} run
 */
export const adopt = ({ count, state: read, failures, server }) =>
  queue(async (current) => {
    if (failures.first) return fail(failures.first.index, failures.first.reason);
    if (!server.valid) return fail(server.failedAtIndex, server.error ?? '');
    show(new CheckedRange(0, read));
    change({ unchecked: 0 });
    last = Math.max(last, count - 1);
    if (range.to > last && state('server')) await compareRoots(current);
    fillSoon();
  });

/**
 * @param {ChainVerdict} verdict
 * @param {number} length
 */
function serverSays(verdict, length) {
  const said = { valid: verdict.valid, length, at: now() };
  if (verdict.valid) return change({ server: { ...said, root: verdict.merkleRoot } });
  const { failedAtIndex: failedAt, error: reason = '' } = verdict;
  change({ server: { ...said, failedAt, reason } });
  fail(failedAt, reason, 'server');
}

