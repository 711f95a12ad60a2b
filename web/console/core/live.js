// The stream of records as it happens. Each record is checked on arrival; what a broken connection missed is fetched and checked after it. What was
// found here and what the server says of its chain are kept apart: the server may lie.
import { FormError, read } from '../lib/form.js';
import { Frontier } from '../lib/merkle.js';
import { chainVerdict, company, streamMessage } from './answers.js';
import { call, records } from './api.js';
import { checkRecords } from './checker.js';
import { heads, keepChecked, keepRoot, proveSince, readLogs, rewrittenHere } from './heads.js';
import { refreshKey, session } from './session.js';
import { store } from './store.js';
import { closeStream, isConnecting, openStream } from './stream.js';
import { toneOf } from './trust.js';
import { forget } from './verification.js';

const SHOWN = 400; // entries kept, the newest first
const HISTORY = 20; // records read at first from a chain that is not read whole
const WHOLE = 1000; // records of a chain that is read whole at once, and most that are fetched of those that were missed
const BATCH = 256; // messages taken together
const BACKLOG = 2000; // messages waiting beyond which records are passed on unchecked, and counted

const quiet = {
  connection: 'off', since: '', entries: [], range: null, whole: false, root: '', agreed: false, unchecked: 0, failure: null, server: null, missed: [], problem: '', beats: 0,
};

/**
 * connection: off, connecting, open, retrying; since: when that began. range: the records [from, to) that were checked here one after the
 * other, or null; whole: it begins with the first record, and so has a root; agreed: that root is the one that the server names for that length. failure: the first that failed
 * here, {failedAt, reason}, where failedAt may be "the root", or null. server: what it said last of its whole chain, {valid, root, length, at} or
 * {valid, failedAt, reason, length, at}, or null. missed: the ranges that did not come over the stream, {from, to, fetched, away}.
 */
export const live = store(quiet);

/**
 * The tone of the chain as far as it is known: bad where a check failed here or the server says one did; ok or warn only where the whole chain was
 * checked here, up to the root that the server names, while the connection stands. The server's word alone has no tone, nor has a part.
 */
export function toneOfLive({ connection, whole, agreed, range, failure, server, problem }, keyStanding, rewritten) {
  if (failure || rewritten) return 'bad';
  if (connection !== 'open' || problem) return '';
  if (server && !server.valid) return 'bad';
  return whole && agreed && range.to > 0 ? toneOf(true, keyStanding) : '';
}

let epoch = 0; // counts sign-ins: work begun for an earlier one is dropped
let last = -1; // greatest index seen
let frontier = null; // of the range, where that is whole
let everOpen = false;
let work = Promise.resolve();
let inbox = []; // messages that nobody has taken yet
let fresh = []; // entries since the last flush, the newest last
let changes = {};
let flushTimer = 0;

const now = () => new Date().toISOString();
const state = (name) => changes[name] ?? live.get()[name];

function reset() {
  closeStream();
  epoch++;
  last = -1;
  frontier = null;
  everOpen = false;
  inbox = [];
  fresh = [];
  changes = {};
  live.set(quiet);
}

/** Begins anew, with nothing of what was shown before. */
export function start() {
  reset();
  openStream(stream);
}

/** Nothing of a company stays behind when it signs out. */
export function stop() {
  reset();
  forget();
  heads.set({ rewritten: null });
}

// A browser does not say why a stream was refused. A plain request is told; where it is that the credential is gone, that ends the session.
async function askWhy() {
  const mine = epoch;
  let problem = 'The server answers, but not on the stream: it refuses it, or something before it does.';
  try {
    await call(company, 'GET', '/v1/company');
  } catch (err) {
    problem = err.message;
  }
  if (epoch === mine && state('connection') !== 'open') change({ problem });
}

/** Tries again at once, where the next attempt would come later; what could not be read while the stream stands is read again. */
export function reconnect() {
  if (state('connection') === 'open' && state('problem')) {
    change({ problem: '' });
    queue(catchUp);
  }
  if (state('connection') === 'retrying' && !isConnecting()) openStream(stream);
}

const stream = {
  connecting() {
    if (!everOpen) change({ connection: 'connecting', since: now() });
  },
  opened() {
    change({ connection: 'open', since: now(), problem: '' });
    queue(catchUp);
  },
  message(data) {
    inbox.push(data);
    if (inbox.length === 1) queue(receive);
  },
  lost(refused) {
    if (refused) askWhy();
    if (state('connection') !== 'retrying') change({ connection: 'retrying', since: now() });
  },
};

// Jobs run one after the other. current() is false once the company that a job belongs to has signed out: then what comes late is dropped.
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
      if (err instanceof FormError) fail(err.index ?? last + 1, err.message);
    }
  });
  return work;
}

async function catchUp(current) {
  const { key } = session.get();
  const shown = await proveSince(key);
  if (!current()) return;
  const { size } = shown.find(({ log }) => log === 'actions');
  if (!everOpen) {
    const from = size <= WHOLE ? 0 : size - HISTORY;
    last = from - 1;
    begin(from);
    await take(await records(from, WHOLE), false, current);
    if (!current()) return;
    everOpen = true;
  } else {
    await stillThere(size, key, current);
    await fetchMissed(size, true, current);
  }
  const said = await call(chainVerdict, 'GET', '/v1/verify');
  if (!current()) return;
  serverSays(said, size);
  await settle(current);
}

// What this page shows must be there still, for a chain never loses or changes a record. Of a whole chain, its root says so too (settle).
async function stillThere(size, key, current) {
  const held = live.get().entries.map(({ record }) => record).toReversed();
  if (!held.length) return;
  const [{ index: first }] = held;
  const found = await records(first, Math.min(WHOLE, last + 1 - first));
  const hashes = new Map(found.map(({ index, hash }) => [index, hash]));
  const changed = held.find(({ index, hash }) => hashes.get(index) !== hash);
  if (current() && changed) rewrittenHere(key, { size: last + 1, from: changed.index, now: size, at: live.get().since });
}

async function receive(current) {
  if (!everOpen) { // what came first failed, and these are read with the rest
    inbox = [];
    return catchUp(current);
  }
  const taken = inbox.splice(0, BATCH);
  if (inbox.length) queue(receive);
  let said;
  let length; // of the chain, by what was said
  let fitting = []; // records that follow one another
  for (const data of taken) {
    const { record, ...verdict } = read(streamMessage, data, 'message');
    // An open stream carries every company's records.
    if (record.companyId !== session.get().company?.companyId) continue;
    said = verdict;
    length = record.index + 1;
    const next = last + 1 + fitting.length;
    if (record.index < next) continue;
    if (record.index > next) {
      await take(fitting, false, current);
      fitting = [];
      await fetchMissed(record.index, false, current);
      if (!current()) return;
    }
    fitting.push(record);
  }
  await take(fitting, false, current);
  if (!current() || !said) return;
  serverSays(said, length);
  if (!inbox.length) await settle(current);
}

// Fetches the records before to that did not come over the stream, WHOLE at most, and says which they were and how many of them were fetched. away is
// whether the connection was; else the stream left them out.
async function fetchMissed(to, away, current) {
  const from = last + 1;
  if (from >= to) return;
  const found = await records(from, Math.min(WHOLE, to - from));
  await take(found, true, current);
  if (current()) change({ missed: [...state('missed'), { from, to, fetched: found.length, away }] });
}

const begin = (from) => {
  frontier = from === 0 ? new Frontier() : null;
  change({ range: { from, to: from }, whole: from === 0, agreed: false });
};

// Checks records that come after the last one, shows them, and extends the range with those that hold.
async function take(found, late, current) {
  const { key } = session.get();
  const due = found.filter(({ index }) => index > last);
  if (!current() || !key || !due.length) return;
  const skipped = inbox.length >= BACKLOG;
  const checks = skipped ? [] : await checkRecords(due, key);
  if (checks.some(({ hashOK, signatureOK }) => hashOK && !signatureOK)) {
    const renewed = await refreshKey(key.companyId, due.at(-1).index).catch(() => key);
    if (renewed !== key) checks.splice(0, checks.length, ...(await checkRecords(due, renewed)));
  }
  if (!current()) return;
  for (const [i, record] of due.entries()) {
    if (!current()) return;
    const check = checks[i] ?? null;
    fresh.push({ record, check, late });
    if (check && !check.ok) fail(record.index, check.reason);
    await extend(record, check?.ok);
    last = record.index;
  }
  if (skipped) change({ unchecked: state('unchecked') + due.length });
}

async function extend({ index, hash }, ok) {
  const range = state('range');
  if (index < range.to) return; // the range was taken over from a run over the whole chain
  if (!ok) return begin(index + 1);
  if (index !== range.to) begin(index);
  await frontier?.push(hash);
  change({ range: { from: state('range').from, to: index + 1 }, agreed: false });
}

// Holds the root of all that was checked against the one that the server names. What it named may be of a longer chain, whose records are under way.
async function settle(current) {
  if (!frontier || state('failure') || heads.get().rewritten) return;
  const root = await frontier.root();
  const { length } = frontier;
  if (!current()) return;
  if (root !== state('server').root) {
    const { size, merkleRoot } = (await readLogs()).find(({ log }) => log === 'actions');
    if (!current() || size > length) return; // the next message settles it
    if (size < length) return rewrittenHere(session.get().key, { size: length, from: size, now: size, at: now() });
    if (merkleRoot !== root) return fail('the root', `the server names another root for ${length} records`);
  }
  // The beginnings of the chain are kept once; after that it only grows.
  const { key } = session.get();
  if (state('root')) keepRoot(key, 'actions', length, root, 'checked');
  else await keepChecked(key, 'actions', frontier);
  change({ agreed: true, root });
}

/** Takes over what a run over the whole chain has checked, {count, peaks}, to extend it record by record. */
export const adopt = ({ count, peaks, failures, server }) => queue(async (current) => {
  if (failures.first || !server.valid) return fail(failures.first?.index ?? server.failedAtIndex, failures.first?.reason ?? server.error);
  frontier = new Frontier(peaks);
  change({ range: { from: 0, to: count }, whole: true, agreed: false });
  for (let from = count; from <= last; from += WHOLE) {
    const found = await records(from, Math.min(WHOLE, last + 1 - from));
    const checks = await checkRecords(found, session.get().key);
    if (!current()) return;
    for (const [i, record] of found.entries()) await extend(record, checks[i].ok);
  }
  last = Math.max(last, count - 1);
  if (state('server')) await settle(current);
});

// The failure with the lowest index is kept. None is ever taken back: what failed was shown by the server.
export function fail(failedAt, reason) {
  const known = changes.failure ?? live.get().failure;
  if (!known || known.failedAt === 'the root' || failedAt < known.failedAt) change({ failure: { failedAt, reason } });
}

function serverSays({ valid, merkleRoot, failedAtIndex, error }, length) {
  const said = { valid, length, at: now() };
  change({ server: valid ? { ...said, root: merkleRoot } : { ...said, failedAt: failedAtIndex, reason: error ?? '' } });
}

// Collects changes, so that a thousand records a second are ten renderings and not a thousand.
function change(patch) {
  Object.assign(changes, patch);
  flushTimer ||= setTimeout(() => {
    flushTimer = 0;
    const entries = fresh.length ? [...fresh.reverse(), ...live.get().entries].slice(0, SHOWN) : live.get().entries;
    live.set({ ...changes, entries, beats: live.get().beats + fresh.length });
    fresh = [];
    changes = {};
  }, 80);
}

export const dismissMissed = () => live.set({ missed: [] });
