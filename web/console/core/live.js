// The stream of records as it happens. Each record is checked on arrival; what a broken connection missed is fetched and
// checked after it. What was found here and what the server says of its chain are kept apart: the server may lie.
import { FormError, read } from '../lib/form.js';
import { checkRecord } from '../lib/record.js';
import { chainVerdict, streamMessage } from './answers.js';
import { call, chainLength, getCredential, records } from './api.js';
import { refreshKey, session } from './session.js';
import { store } from './store.js';
import { toneOf } from './trust.js';

const SHOWN = 400; // entries kept, the newest first
const HISTORY = 20; // records shown at first
const GAP = 1000; // most missed records that are fetched
const BACKLOG = 2000; // messages waiting beyond which records are passed on unchecked, and counted

const quiet = { connection: 'off', entries: [], checked: 0, unchecked: 0, failure: null, server: null, length: 0, missed: null, problem: '', beats: 0 };

/**
 * connection: off, connecting, open, retrying. checked: how many records were checked here; failure: the first that failed here,
 * {failedAt, reason}, or null. server: what the server said last of its whole chain, {valid, root} or {valid, failedAt, reason}, or
 * null; length: how many records it says there are.
 */
export const live = store(quiet);

/**
 * The tone of the chain as far as it is known: bad where a check failed here or the server says one did; ok or warn only for what was
 * checked here, while the connection stands. The server's word alone has no tone.
 */
export function toneOfLive({ connection, checked, failure, server, problem }, keyStanding) {
  if (failure) return 'bad';
  if (connection !== 'open' || problem) return '';
  if (server && !server.valid) return 'bad';
  return checked ? toneOf(true, keyStanding) : '';
}

let socket = null;
let epoch = 0; // counts sign-ins: work begun for an earlier one is dropped
let last = -1; // greatest index seen
let everOpen = false;
let attempts = 0;
let timer = 0;
let work = Promise.resolve();
let waiting = 0;
let fresh = []; // entries since the last flush, the newest last
let changes = {};
let flushTimer = 0;

export function start() {
  stop();
  last = -1;
  everOpen = false;
  attempts = 0;
  live.set(quiet);
  connect();
}

export function stop() {
  clearTimeout(timer);
  const old = socket;
  socket = null;
  epoch++;
  old?.close();
  fresh = [];
  changes = {};
  live.set(quiet); // nothing of a company stays behind when it signs out
}

function connect() {
  if (!getCredential()) return; // signed out before this came to run
  live.set({ connection: everOpen ? 'retrying' : 'connecting' });
  // A WebSocket cannot carry an Authorization header; the key travels as a subprotocol, never in the URL.
  const ws = new WebSocket(`${location.origin.replace(/^http/, 'ws')}/v1/ws`, ['attestd.bearer', getCredential()]);
  socket = ws;
  const mine = epoch;
  const current = () => epoch === mine;
  const queue = (job) => {
    waiting++;
    work = work.then(async () => {
      waiting--;
      if (!current()) return;
      try {
        await job(current);
      } catch (err) {
        if (!current()) return;
        change({ problem: err.message });
        if (err instanceof FormError) fail(err.index ?? last + 1, err.message);
      }
    });
  };
  ws.onopen = () => {
    if (socket !== ws) return;
    attempts = 0;
    change({ connection: 'open', problem: '' });
    queue(catchUp);
  };
  ws.onmessage = (event) => queue(() => receive(event.data, current));
  ws.onclose = () => {
    if (socket !== ws) return;
    change({ connection: 'retrying' });
    timer = setTimeout(connect, Math.min(15000, 400 * 2 ** attempts++) * (0.75 + Math.random() / 2));
  };
}

// current() is false once the company that a job belongs to has signed out: then what comes late is dropped.
async function catchUp(current) {
  if (!everOpen) {
    const length = await chainLength();
    await take(await records(Math.max(0, length - HISTORY), HISTORY), false, current);
    if (!current()) return;
    last = Math.max(last, length - 1);
    everOpen = true;
  } else {
    const found = await records(last + 1, GAP);
    const from = last + 1;
    await take(found, true, current);
    if (current() && found.length) change({ missed: { from, to: last, more: found.length === GAP } });
  }
  const said = await call(chainVerdict, 'GET', '/v1/verify');
  if (current()) serverSays(said);
}

async function receive(data, current) {
  const { record, ...said } = read(streamMessage, data, 'message');
  // An open stream carries every company's records.
  if (record.companyId !== session.get().company?.companyId || record.index <= last) return;
  if (record.index > last + 1) {
    const from = last + 1;
    await take(await records(from, Math.min(GAP, record.index - from)), true, current);
    if (!current()) return;
    change({ missed: { from, to: record.index - 1, more: record.index - from > GAP } });
  }
  await take([record], false, current);
  if (current()) serverSays(said);
}

async function take(found, late, current) {
  const { key } = session.get();
  for (const record of found) {
    if (!current()) return;
    if (!key || record.index <= last) continue;
    last = record.index;
    let check = null;
    if (waiting < BACKLOG) {
      check = await checkRecord(record, key);
      if (check.hashOK && !check.signatureOK) check = await checkRecord(record, await refreshKey(key.companyId, record.index).catch(() => key));
      if (!current()) return;
      change({ checked: (changes.checked ?? live.get().checked) + 1 });
      if (!check.ok) fail(record.index, check.reason);
    } else change({ unchecked: (changes.unchecked ?? live.get().unchecked) + 1 });
    fresh.push({ record, check, late });
  }
  if (current()) change({ length: last + 1 });
}

// The failure with the lowest index is kept. None is ever taken back: what failed was shown by the server.
function fail(failedAt, reason) {
  const known = changes.failure ?? live.get().failure;
  if (!known || failedAt < known.failedAt) change({ failure: { failedAt, reason } });
}

function serverSays({ valid, merkleRoot, failedAtIndex, error }) {
  change({ server: valid ? { valid, root: merkleRoot } : { valid, failedAt: failedAtIndex, reason: error ?? '' } });
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

export const dismissMissed = () => live.set({ missed: null });
