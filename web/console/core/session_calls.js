// @ts-check
// A session as its calls: what was asked and what came of it, side by side. Records come in the
// order of the log. What a payload says is the claim of its recorder; whether a record is of the
// session, and whether all are there, is decided here and not by the server.
import { CallTracker, completenessOf, disobeyedText } from '../lib/calls.js';
import { member, textIn } from '../lib/json.js';
import { Sequence } from '../lib/sequence.js';
import { readStatement } from '../lib/statement.js';
import { callWords } from './call_words.js';
import { count, plural } from './format.js';
import { hasFailed } from './pruned.js';

/**
 * What the payload of a record says of its session and call.
 * @param {LogRecord} record
 * @returns {SessionSaid}
 */
export function saidOf(record) {
  const { inner, actionType } = record;
  const duration = member(inner, 'durationMs');
  const ms = duration?.type === 'number' ? Number(duration.lexeme) : NaN;
  const isRun = /^(run\.|git\.)/.test(actionType);
  return {
    sid: textIn(inner, isRun ? 'runId' : 'sessionId'),
    source: textIn(inner, 'source'),
    tool: textIn(inner, 'tool'),
    callId: textIn(inner, 'callId') || (isRun && actionType !== 'git.commit' ? textIn(inner, 'runId') : ''),
    durationMs: ms >= 0 && ms < 1e15 ? ms : null,
  };
}

/**
 * Of which kind of session a record without a statement is; '' for none.
 * @param {string} actionType
 * @param {string} source
 * @returns {SessionName['kind'] | ''}
 */
function kindOf(actionType, source) {
  if (actionType.startsWith('otel.')) return 'telemetry';
  if (/^(run\.(started|ended)|git\.commit)$/.test(actionType)) return 'run';
  const isCall = actionType.startsWith('tool.') || actionType === 'session.ended';
  return isCall ? source === 'mcp' ? 'mcp' : 'hook' : '';
}

/**
 * The session that a record is of; null where it names none.
 * @param {LogRecord} record
 * @returns {SessionName | null}
 */
export function sessionOf(record) {
  const { agentId, actionType, statement } = record;
  try {
    const signed = statement === undefined ? null : readStatement(statement);
    if (signed?.claims.sid !== undefined)
      return { agentId, sid: signed.claims.sid, kind: 'statement', kid: signed.kid };
  } catch { /* what has not the form of a statement names no session */ }
  const { sid, source } = saidOf(record);
  const kind = kindOf(actionType, source);
  return sid && kind ? { agentId, sid, kind, kid: '' } : null;
}

/**
 * Why a record is not of a session; '' where it is.
 * @param {LogRecord} record
 * @param {SessionName} session
 */
export function strangerTo(record, { agentId, sid, kind, kid }) {
  if (record.agentId !== agentId) return `it belongs to the agent ${record.agentId}`;
  let signed;
  try {
    signed = record.statement === undefined ? null : readStatement(record.statement);
  } catch (err) {
    return kind === 'statement' ? `its statement is malformed: ${err.message}` : '';
  }
  if (kind === 'statement')
    return signed?.claims.sid === sid && signed.kid === kid ? '' : 'it has no statement of this session and key';
  if (signed?.claims.sid !== undefined) return `it belongs to the signed session ${signed.claims.sid}`;
  const { actionType } = record;
  const said = saidOf(record);
  if (kindOf(actionType, said.source) !== kind) return `a session of this kind has no ${actionType}`;
  return said.sid === sid ? '' : `it belongs to the session ${said.sid || 'without a name'}`;
}

const ASKS = /^(tool\.requested|run\.started)$/;
const ENDS = /^(tool\.(completed|failed|denied|ended)|run\.ended)$/;

/** @returns {SessionCall} */
const newCall = () => ({ asked: null, pending: null, outcome: null, event: null, broken: null, note: '' });

/** The calls of a session, while its records come. */
export class SessionCalls {
  /** @type {SessionCall[]} */
  list = [];

  /** @type {SessionEntry[]} */
  entries = [];

  /** @type {Row[]} */
  broken = []; // what is in the place of a record

  /** @type {SessionEntry[]} */
  pruned = []; // those without payload, so that whether they are of the session is the server's word

  /** @type {DisobeyedCall[]} */
  disobeyed = []; // that were refused and ran all the same

  #tracker = new CallTracker();

  /** @type {Map<string, SessionCall>} */
  #named = new Map(); // by source and ID, the newest call

  /** @type {Map<string, Set<SessionCall>>} */
  #nameless = new Map(); // open calls without an ID, by source and tool

  /** @param {Row} row */
  addBroken(row) {
    this.broken.push(row);
    this.list.push({ ...newCall(), broken: row });
  }

  /**
   * @param {Row} row
   * @param {LogRecord} record
   */
  add(row, record) {
    const said = saidOf(record);
    const words = row.words ?? callWords(record);
    const entry = { row, record, said, words, at: Date.parse(record.timestamp) };
    if (record.pruned) {
      this.pruned.push(entry);
      this.list.push({ ...newCall(), event: entry });
      return;
    }
    this.entries.push(entry);
    const disobeyed = this.#tracker.add(record.index, record);
    if (disobeyed) this.disobeyed.push(disobeyed);
    const { actionType: action } = record;
    if (ASKS.test(action)) return this.#ask(entry);
    if (!ENDS.test(action) && action !== 'tool.pending') {
      this.list.push({ ...newCall(), event: entry });
      return;
    }
    let call = this.#find(said);
    if (!call || call.outcome) {
      call = { ...newCall(), note: call ? 'a second outcome of its call'
        : this.pruned.length ? 'what was asked may have been pruned' : 'what was asked is not on record' };
      this.list.push(call);
    }
    if (action === 'tool.pending') call.pending = entry;
    else {
      call.outcome = entry;
      this.#nameless.get(this.#name(said, said.tool))?.delete(call);
    }
  }

  /**
   * @param {SessionSaid} said
   * @param {string} of
   */
  #name = ({ source }, of) => `${source.length} ${source} ${of}`;

  /** @param {SessionEntry} entry */
  #ask(entry) {
    const { said } = entry;
    const call = { ...newCall(), asked: entry };
    this.list.push(call);
    if (said.callId) {
      const name = this.#name(said, said.callId);
      if (this.#named.has(name)) call.note = 'the ID of an earlier call';
      this.#named.set(name, call);
      return;
    }
    const name = this.#name(said, said.tool);
    this.#nameless.set(name, (this.#nameless.get(name) ?? new Set()).add(call));
  }

  /**
   * The call of an outcome. Without an ID it is of the one open call of its tool; of several,
   * it is unknown which.
   * @param {SessionSaid} said
   */
  #find(said) {
    if (said.callId) return this.#named.get(this.#name(said, said.callId));
    const open = [...(this.#nameless.get(this.#name(said, said.tool)) ?? [])];
    return open.length === 1 ? open[0] : undefined;
  }

  /** Whether the last record says that it is the last. */
  get ended() {
    const last = this.entries.at(-1);
    return Boolean(last) && (/^(session|run)\.ended$/.test(last?.record.actionType ?? '')
      || last?.row.word?.session?.end === true);
  }

  /** When the first and the last record were made (ms). */
  get span() {
    let [from, to] = [Infinity, -Infinity];
    for (const one of this.list) {
      const { start, end } = timesOf(one);
      if (start === null || end === null) continue;
      [from, to] = [Math.min(from, start), Math.max(to, end)];
    }
    return from <= to ? { from, to } : { from: 0, to: 0 };
  }
}

/**
 * What an entry is called: by its tool, where that is known.
 * @param {SessionEntry} entry
 */
export const nameOf = ({ words, record }) => (record.pruned ? 'payload pruned' : words.tool);

/**
 * The entries of a call.
 * @param {SessionCall} call
 */
export const entriesOf = ({ asked, pending, outcome, event }) =>
  [asked, pending, outcome, event].filter((entry) => entry !== null);

/**
 * When a call began and ended, and for how long it ran, in ms; null where that is not known. What
 * was measured on the agent's machine comes before the times of the records.
 * @param {SessionCall} call
 * @returns {{start: number | null, end: number | null, ms: number | null}}
 */
export function timesOf({ asked, pending, outcome, event }) {
  const last = outcome ?? event;
  const measured = last?.said.durationMs ?? null;
  const end = last?.at ?? pending?.at ?? asked?.at ?? null;
  const start = asked?.at ?? (end === null ? null : end - (measured ?? 0));
  return { start, end, ms: measured ?? (asked && outcome ? outcome.at - asked.at : null) };
}

/**
 * What became of a call: completed, failed, denied, ended (unknown how), pending, none, event or
 * broken.
 * @param {SessionCall} call
 */
export function stateOf({ pending, outcome, event, broken }) {
  if (broken) return 'broken';
  if (event) return 'event';
  if (!outcome) return pending ? 'pending' : 'none';
  const action = outcome.record.actionType;
  if (action === 'run.ended') return outcome.words.outcome;
  return action.slice('tool.'.length);
}

/**
 * What the agent's own numbers say of a session of statements, all of which hold.
 * @param {SessionEntry[]} entries
 * @param {string} sid
 * @returns {SessionWhole}
 */
function numbered(entries, sid) {
  const steps = entries.flatMap(({ row, record }) =>
    (row.word?.session?.sid === sid ? [{ ...row.word.session, index: record.index }] : []));
  if (steps.length < entries.length)
    return { is: 'fails', says: 'a statement does not hold, or could not be checked' };
  const places = new Sequence();
  try {
    for (const step of steps.sort((a, b) => a.seq - b.seq)) places.add(step, step.index, step.hash);
  } catch (err) {
    return { is: 'fails', says: err.message };
  }
  const stolen = entries.filter(({ row }) => row.word?.stolen).length;
  return {
    is: places.missing ? 'missing' : places.sealed ? 'complete' : 'open',
    says: places.state(),
    absent: places.absent,
    continues: steps[0]?.continues,
    notes: [
      ...places.served().map((says) => ({ says, warns: true })),
      ...(stolen ? [{ says: `Of its records, ${stolen} are of a time when the key was in other hands, says the ` +
        'revocation of the key.', warns: true }] : []),
      { says: 'A session that goes on from this one may exist elsewhere.', warns: false },
    ],
  };
}

/**
 * The first and the last record of a session, by the agent's own numbers where it has some.
 * @param {SessionCalls} calls
 */
export function endsOf({ entries }) {
  /** @param {SessionEntry} entry */
  const place = ({ row, record }) => row.word?.session?.seq ?? record.index;
  const first = entries.reduce((a, b) => (place(b) < place(a) ? b : a));
  return [first, entries.reduce((a, b) => (place(b) < place(a) ? a : b))];
}

const MOST_SOURCE = 256; // bytes of a source that the server lists, as it is spelled

/** @param {LogRecord} record */
function sourceOf({ inner, source }) {
  const value = member(inner, 'source');
  const fits = value && new TextEncoder().encode(source.slice(value.start, value.end)).length <= MOST_SOURCE;
  return fits ? textIn(inner, 'source') : '';
}

/**
 * What the server lists of a session otherwise than its records say, one sentence each; none while
 * a record is missing or not checked, which may be the one that the server speaks of.
 * @param {SessionCalls} calls
 * @param {ListedSession} listed
 */
export function misstated(calls, listed) {
  const { entries } = calls;
  if (!entries.length || entries.length !== listed.records || entries.some(({ row }) => !row.check?.ok)) return [];
  if (listed.kind === 'statement' && entries.some(({ row }) => !row.word?.session)) return [];
  const [first, last] = endsOf(calls);
  const source = sourceOf(first.record);
  return [
    { what: 'that it began at', says: listed.firstAt, is: first },
    { what: 'that it ended at', says: listed.lastAt, is: last },
  ].filter(({ says, is }) => says !== is.record.timestamp)
    .map(({ what, says, is: { record } }) =>
      `The server lists ${what} ${says}; record ${record.index} is of ${record.timestamp}.`)
    .concat(listed.source === source ? []
      : [`The server lists the source ${listed.source || '–'}; record ${first.record.index} names ` +
        `${source || 'none'}.`]);
}

/**
 * What was found here of a session as a whole. listed: what the server says of it; done: whether it
 * has given all that it has; due: indexes of records of it that it has shown elsewhere.
 * @param {SessionCalls} calls
 * @param {ListedSession} listed
 * @param {boolean} done
 * @param {Iterable<number>} [due]
 * @returns {SessionWhole}
 */
export function wholeOf(calls, listed, done, due = []) {
  const { entries, broken, pruned, disobeyed } = calls;
  const all = [...pruned, ...entries];
  const failed = all.filter(({ row }) => row.check && hasFailed(row.check)).length + broken.length;
  if (failed) return { is: 'fails', says: failed === 1 ? 'a record fails' : `${failed} records fail` };
  const signed = listed.kind === 'statement';
  if (!done || all.some(({ row, record }) => !row.check || (signed && !record.pruned && !row.word)))
    return { is: 'checking', says: 'being checked' };
  if (all.length < listed.records)
    return {
      is: 'lacking',
      says: `the server lists ${listed.records} records of this session, and returned ${all.length}`,
    };
  const given = new Set(all.map(({ record }) => record.index));
  for (const index of due)
    if (!given.has(index)) return { is: 'lacking', says: `record ${index} came over the stream, and is left out here` };
  const found = provenOf(calls, listed);
  if (!disobeyed.length || found.is === 'fails') return found;
  return { is: 'disobeyed', says: `disobeyed: ${disobeyedText(disobeyed)}; ${found.says}` };
}

/**
 * What is proven of a session all of whose records are given. Of those that were pruned nothing is;
 * the others may still contradict one another.
 * @param {SessionCalls} calls
 * @param {ListedSession} listed
 * @returns {SessionWhole}
 */
function provenOf({ entries, pruned }, listed) {
  const signed = listed.kind === 'statement';
  const found = signed && entries.length ? numbered(entries, listed.sid) : null;
  if (found?.absent && pruned.length && found.absent > pruned.length)
    return { ...found, says: `${found.says}, and only ${plural(pruned.length, 'record')} pruned` };
  if (pruned.length && found?.is !== 'fails')
    return {
      is: 'pruned',
      says: `payloads of ${count(pruned.length)} of ${plural(pruned.length + entries.length, 'record')} pruned`,
    };
  if (!found) return signed ? { is: 'open', says: 'it has no records' }
    : { is: 'unproven', says: 'completeness cannot be proven' };
  const claims = completenessOf(listed) === 'sealed' && found.is !== 'complete';
  return claims ? { ...found, says: `${found.says}, though the server says that it is sealed` } : found;
}
