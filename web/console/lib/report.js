// @ts-check
// Checks a report of a period (attestd-report/v1) as it comes: package evidence is its
// specification, and gives the codes.
import { concat, hex, text as utf8Text, unbase64, unbase64url } from './bytes.js';
import { CallTracker, disobeyedText } from './calls.js';
import { bounded } from './evidence/bounds.js';
import { Check, PrunedError, sameList, signerOf } from './evidence/checkpoints.js';
import { eventOf } from './evidence/control.js';
import { companyId, keys, log, notProven, policies, witnesses } from './evidence/file.js';
import { checkKeys } from './evidence/keys.js';
import { Policies, isOfPolicies } from './evidence/policies.js';
import { exactly, list, oneOf, read, string, timestamp } from './form.js';
import { lossless } from './jcs.js';
import { member, parse, textOf } from './json.js';
import { LogTree } from './log_tree.js';
import { LOG, leafHash, must, noteKey, readCheckpoint, signedBy } from './note.js';
import { PRUNED, controlRecordForm, preimageBytes, recordForm } from './record.js';
import { sha256 } from './sha256.js';

const AT_ONCE = 64; // lines that are hashed together; between such batches the caller may do other work
const LONGEST = 64 << 20; // of a line, in bytes
const DISOBEYED = 100; // calls that are listed

const NOT_PROVEN = [
  'That the period holds all records of its time: the sizes at its start and its end do, when the report before ' +
    'ended where this one starts, and the next one starts where this one ends.',
  'That what payloads say is true: only that the service was given them, and when by the service\'s clock.',
  'That the service\'s clock was right: every time in this report that is not a witness\'s is the operator\'s word.',
  'That nobody else had the company\'s key, nor that a key was not declared compromised after this report was made.',
  'That there is no other history: only witnesses whom you chose, or a checkpoint that you kept, show that. Two ' +
    'appliances of one owner are not independent.',
  'What is not recorded: SVIDs, delegation tokens and access tokens.',
];

const headerForm = exactly({
  format: oneOf('attestd-report/v1'), companyId, from: timestamp, to: timestamp,
  logs: list(exactly({ ...log, start: string, frontier: list(string, 60), end: string }), 2),
  keys, witnesses, notProven,
}, { policies });
const lineForms = {
  control: exactly({ log: oneOf('control'), record: controlRecordForm }),
  actions: exactly({ log: oneOf('actions'), record: recordForm }),
};

/**
 * A report while it is checked.
 * @extends {Check<ReportHeader>}
 */
export class ReportCheck extends Check {
  /** @type {Record<string, LogTree>} */
  trees = {};

  /** @type {Record<LogName, ReportEnd>} */
  ends; // of each log, by its name

  #calls = new CallTracker();

  /** @type {DisobeyedCall[]} */
  disobeyed = []; // calls that were refused and ran all the same, the first ones

  disobeyedCount = 0;

  policies = new Policies();

  /** @param {Bytes} bytes */
  header(bytes) {
    const line = textOfLine(bytes);
    bounded(line);
    const node = parse(line);
    lossless(node);
    const file = headerForm(node, line, 'header');
    must(file.keys.length > 0, 'header.keys is empty');
    must(sameList(file.notProven, NOT_PROVEN), 'notProven is not the list for a report');
    must(file.from <= file.to, 'the period ends before it begins');
    const logs = file.logs.map((one) => ({ ...one, roots: one.frontier.map(unbase64) }));
    for (const { roots } of logs)
      must(roots.every(({ length }) => length === 32), 'a frontier has hashes that are none');
    this.file = { ...file, logs };
  }

  async keys() {
    const { keys: all, logs } = await checkKeys(this.file, ['actions', 'control']);
    Object.assign(this, { all, logs, last: all.at(-1) });
    this.say(
      all.length > 1
        ? `The company’s ${all.length} keys follow from one another, up to ${this.last.fingerprint}.`
        : `The company’s key is ${this.last.fingerprint}.`,
    );
  }

  // Both checkpoints of each log, and that the frontier at the start is of the first.
  async periods() {
    /** @type {Partial<Record<LogName, ReportEnd>>} */
    const ends = {};
    for (const { log: name, origin, start, roots, end } of this.file.logs) {
      const last = await this.checkpoint({ log: name, origin }, end);
      const first = readCheckpoint(start);
      const mine =
        first.lines.length === 1 &&
        (await signedBy(first.lines[0], first.text, await noteKey(origin, LOG, this.last.raw)));
      must(
        mine && first.origin === origin && first.size <= last.size && last.size <= Number.MAX_SAFE_INTEGER,
        `the log ${name} does not start with a checkpoint of its own, with one signature, from before its end`,
      );
      const tree = LogTree.from(Number(first.size), roots);
      must(
        hex(await tree.root()) === hex(first.root),
        `the frontier of the log ${name} does not give the log root at its start`,
      );
      Object.assign(this.trees, { [name]: tree });
      ends[name] = { start: tree.size, size: Number(last.size), root: hex(last.root), signed: end };
      this.say(`The log ${name}: from ${first.size} records to ${last.size}, both signed by the company’s last key.`);
    }
    this.ends = /** @type {Record<LogName, ReportEnd>} */ (ends);
  }

  // The policies that were in force at the start.
  async inForce() {
    if (!this.file.policies) return;
    this.policies.begun = true;
    for (const event of await this.events(this.file.policies.records, isOfPolicies)) await this.policies.add(event);
  }

  /**
   * A line of a log: its leaf, and what it says.
   * @param {Bytes} bytes
   * @param {LogName} name
   * @param {number} index
   */
  async line(bytes, name, index) {
    const text = textOfLine(bytes);
    bounded(text);
    const { record } = lineForms[name](parse(text), text, 'it');
    if (record.pruned) throw new PrunedError(PRUNED);
    must(hex(await sha256(preimageBytes(record))) === record.hash, 'its hash does not match its content');
    must(record.companyId === this.file.companyId, `it is of the company ${record.companyId}`);
    must(record.index === index, `record ${record.index} is in its place`);
    const said =
      name === 'control'
        ? { ...eventOf(record), ...witnessesOf(record.inner), inner: record.inner, source: record.source }
        : { delegated: Boolean(record.delegation), record };
    const leaf = await leafHash(record.hash, unbase64url(record.signature), signerOf(this.log(name), index).raw);
    return {
      leaf,
      record,
      event: {
        ...said,
        log: name,
        index,
        timestamp: record.timestamp,
        agentId: record.agentId,
        action: record.actionType,
      },
    };
  }

  /**
   * The records of a log, which lead from one of its checkpoints to the other.
   * @param {LogName} name
   * @param {() => Promise<Bytes | null>} next
   * @param {(events: ReportEvent[]) => unknown} visit
   */
  async period(name, next, visit) {
    const tree = this.trees[name];
    const { start, size, root } = this.ends[name];
    let last = this.file.from;
    while (tree.size < size) {
      const lines = [];
      for (let line; lines.length < Math.min(AT_ONCE, size - tree.size) && (line = await next()) !== null; )
        lines.push(line);
      const read = await Promise.all(
        lines.map((line, i) => this.line(line, name, tree.size + i).then(
          (found) => ({ found, why: '', pruned: false }),
          (error) => ({ found: null, why: error.message, pruned: error instanceof PrunedError }),
        )),
      );
      /** @type {Bytes[]} */
      const leaves = [];
      /** @type {ReportEvent[]} */
      const events = [];
      for (const [i, { found, why, pruned }] of read.entries()) {
        const at = `the log ${name}, record ${tree.size + i}`;
        if (pruned) throw Object.assign(new Error(`${at}: ${why}`), { code: 'PRUNED' });
        must(found, `${at}: ${why}`);
        const { leaf, event, record } = found;
        must(
          last <= event.timestamp && event.timestamp < this.file.to,
          `${at}: its time ${event.timestamp} is not of the period, or before that of the one before`,
        );
        last = event.timestamp;
        leaves.push(leaf);
        events.push(event);
        try {
          if (name === 'actions') await this.policies.hold(record);
          else await this.policies.addLine(/** @type {ControlEvent} */ (event));
        } catch (err) {
          throw Object.assign(err, { code: 'DECISION' });
        }
        const disobeyed = name === 'actions' && this.#calls.add(event.index, record);
        if (disobeyed && ++this.disobeyedCount <= DISOBEYED) this.disobeyed.push(disobeyed);
      }
      must(lines.length > 0, `the log ${name}: record ${tree.size} is missing`);
      await tree.append(leaves);
      await visit(events);
    }
    if (hex(await tree.root()) !== root) {
      throw Object.assign(
        new Error(`the log ${name}: the records do not lead from the checkpoint at the start to the one at the end`),
        { code: 'LOG_PROOF' },
      );
    }
    this.say(
      `The log ${name}: ${size - start} records, which lead from one checkpoint to the other: none is missing ` +
        `or changed.`,
    );
  }
}

/**
 * Says which calls disobeyed, if any.
 * @param {ReportCheck} check
 */
function sayDisobeyed({ checked, disobeyed, disobeyedCount: count }) {
  const which = disobeyedText(disobeyed, count);
  if (count === 1) checked.push(`A call that was refused ran all the same: ${which}.`);
  else if (count > 1) checked.push(`${count} calls that were refused ran all the same: ${which}.`);
}

/**
 * Which witnesses were asked before a control record and from it on; '' is none, and null that it
 * does not say.
 * @param {JSONNode} inner
 */
function witnessesOf(inner) {
  const changed = member(member(inner, 'changed'), 'witnesses');
  return {
    before: textOf(member(changed, 'from')) ?? null,
    witnesses: textOf(member(member(inner, 'settings'), 'witnesses') ?? member(changed, 'to')) ?? null,
  };
}

/**
 * Checks the lines of a report, an iterable that may be asynchronous. header(check) is called once
 * the header is known to be sound, visit(events) with the events of some records at a time; what
 * they were called with counts only when the verdict says so. trust is {fingerprint} or {policy} or
 * {}. Returns {verdict, code, reason, checked, …} as check of an evidence file does, with ends:
 * {start, size, root, signed} of each log. What is thrown comes of lines, header or visit.
 * @param {AsyncIterable<Bytes> | Iterable<Bytes>} lines
 * @param {Trust} trust
 * @param {(check: ReportCheck) => unknown} [header]
 * @param {(events: ReportEvent[]) => unknown} [visit]
 */
export async function checkReport(
  lines,
  trust,
  header = () => {},
  visit = () => {},
) {
  const check = new ReportCheck(trust);
  const source = Symbol.asyncIterator in lines ? lines[Symbol.asyncIterator]() : lines[Symbol.iterator]();
  /**
   * @template T
   * @param {() => T | Promise<T>} work
   */
  const outside = async (work) => {
    try {
      return await work();
    } catch (err) {
      throw err.code === 'MALFORMED' ? err : Object.assign(err, { outside: true });
    }
  };
  const next = () => outside(async () => {
    const { done, value } = await source.next();
    return done ? null : value;
  });
  /** @param {ReportEvent[]} events */
  const seen = (events) => outside(() => visit(events));
  /** @type {[string, () => unknown][]} */
  const steps = [
    [
      'MALFORMED',
      async () => {
        const line = await next();
        must(line !== null, 'the report is empty');
        check.header(line);
      },
    ],
    ['KEYS', () => check.keys()],
    ['WITNESSES', () => check.witnesses()],
    ['LOG_PROOF', () => check.periods()],
    ['DECISION', () => check.inForce()],
    ['WITNESSES', () => check.cosigned()],
    ['KEY', () => check.trustedKey()],
    ['POLICY', () => check.trustedPolicy()],
    ['', () => outside(() => header(check))],
    ['RECORD', () => check.period('control', next, seen)],
    ['RECORD', () => check.period('actions', next, seen)],
    ['MALFORMED', async () => must((await next()) === null, 'there are more lines than the checkpoints have records')],
    ['', () => check.policies.sentences().forEach((sentence) => check.say(sentence))],
    ['', () => sayDisobeyed(check)],
  ];
  try {
    for (const [code, step] of steps) {
      try {
        await step();
      } catch (err) {
        if (err.outside) throw err;
        return Object.assign(check, { verdict: 'fails', code: err.code ?? code, reason: err.message });
      }
    }
  } finally {
    await source.return?.();
  }
  return Object.assign(check, {
    verdict: trust.fingerprint || trust.policy ? 'holds' : 'self-consistent',
    code: '',
    reason: '',
  });
}

/**
 * The lines of a stream as bufio.Scanner splits them: without their ends, and with those that are
 * empty. A line that is longer than one may be ends them with an error that has a code.
 * @param {ReadableStream<Bytes>} stream
 * @returns {AsyncGenerator<Bytes>}
 */
export async function* linesOf(stream) {
  /** @type {Bytes[]} */
  let parts = []; // of the line that has not ended
  let held = 0;
  for await (const chunk of chunksOf(stream)) {
    let from = 0;
    for (let end; chunk && (end = chunk.indexOf(0x0a, from)) >= 0; from = end + 1) {
      yield concat(...parts, chunk.subarray(from, end));
      [parts, held] = [[], 0];
    }
    if (chunk && from < chunk.length) parts.push(chunk.subarray(from));
    held += chunk ? chunk.length - from : 0;
    if (held > LONGEST) throw Object.assign(new Error('a line is longer than 64 MiB'), { code: 'MALFORMED' });
  }
  if (held) yield concat(...parts);
}

/**
 * The text of a line; what is no UTF-8 is none.
 * @param {Bytes} line
 */
function textOfLine(line) {
  try {
    return utf8Text(line);
  } catch {
    throw new Error('it is not UTF-8');
  }
}

/**
 * Not every browser iterates over a stream. The last chunk is none.
 * @param {ReadableStream<Bytes>} stream
 */
async function* chunksOf(stream) {
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      yield value;
      if (done) return;
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}
