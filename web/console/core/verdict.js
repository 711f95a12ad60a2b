// @ts-check
// Where green comes from. All that is shown in a tone is judged here: by its own check, by the key
// that it was checked with, and by all that this browser has found to be wrong with the company. No
// other module names the tone of what holds.
import { findings, logOf } from './findings.js';
import { keyStateOf, trust } from './trust.js';
import { table } from '../lib/table.js';

const GREEN = 'ok';

/** @param {Tone} tone */
export const isGreen = (tone) => tone === GREEN;

/**
 * What a verdict is about where it is neither a whole log, as without about, nor a record {log,
 * index}: a token, a statement.
 * @type {About}
 */
export const PART = {};

const PRUNED = 'payload pruned';
const CHECKED = 'checked';
const SAYS = table({ rewritten: 'history rewritten', failure: 'the log fails', key: 'key replaced' });
const ORDER = Object.keys(SAYS);

/** @type {Record<string, number>} */
const WORSE = table({ bad: 3, '': 2, warn: 1 });

/**
 * The tone of a set: the worst of its members'. A set without any has none.
 * @param {Tone[]} tones
 * @returns {Tone}
 */
export const toneOfSet = (tones) =>
  (tones.length ? tones.reduce((a, b) => ((WORSE[b] ?? 0) > (WORSE[a] ?? 0) ? b : a)) : '');

/**
 * @param {Finding} finding
 * @param {About} about
 */
const isRecord = (finding, about) =>
  finding.kind === 'failure' && logOf(finding) === about.log && finding.failedAt === String(about.index);

/**
 * That one record fails says nothing of the bytes of another one. All else bears on all that is
 * shown of the company.
 * @param {About | null} about
 * @returns {(finding: Finding) => boolean}
 */
const bearsOn = (about) => (finding) => finding.kind !== 'failure' || !about || isRecord(finding, about);

/**
 * @param {boolean} ok
 * @param {KeyState} keyState
 * @returns {Tone}
 */
const ownTone = (ok, keyState) =>
  !ok || keyState === 'other' ? 'bad' : keyState === 'confirmed' ? GREEN : 'warn';

/**
 * {tone, own, is, against}: the tone of what was checked here, ok says whether it holds, with a key
 * in that state, of a company with these findings. own is its tone without them, is the verdict in
 * a word or two, and against the finding for which it is not green, or null. A whole log is red
 * then; a part that holds by itself is amber. So is a record whose payload was pruned, of which
 * about says so: only that the company has signed its hash was checked.
 * @param {{ok: boolean, keyState: KeyState, found: Finding[], about?: About | null}} of
 * @returns {Verdict}
 */
export function verdict({ ok, keyState, found, about = null }) {
  const pruned = !ok && about?.pruned && keyState !== 'other';
  const own = pruned ? 'warn' : ownTone(ok, keyState);
  const against = found.filter(bearsOn(about)).sort((a, b) => ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind))[0] ?? null;
  if (pruned && !against) return { tone: own, own, is: PRUNED, against };
  if (!ok && !pruned && !about?.pruned) return { tone: own, own, is: 'fails', against };
  if (keyState === 'other') return { tone: own, own, is: 'another key', against };
  if (!against) return { tone: own, own, is: CHECKED, against };
  if (about && isRecord(against, about)) return { tone: 'bad', own, is: 'failed before', against };
  return { tone: about ? 'warn' : 'bad', own, is: pruned ? PRUNED : SAYS[against.kind], against };
}

/**
 * A function (ok, about) that gives verdict() for what was checked with a key. trusted and all:
 * what is confirmed, and all findings.
 * @param {NamedKey} key
 * @param {TrustState} [trusted]
 * @param {{all: Finding[]}} [found]
 * @returns {Assess}
 */
export function assessWith(key, trusted = trust.get(), { all } = findings.get()) {
  const keyState = keyStateOf(key, trusted);
  const found = all.filter(({ companyId }) => companyId === key.companyId);
  return (ok, about) => verdict({ ok, keyState, found, about });
}

/**
 * Whether a verdict needs no mark where the general one stands already: what was checked holds, and
 * nothing is found against it.
 * @param {Verdict} verdict
 */
export const isPlain = ({ is }) => is === CHECKED;

/**
 * The tone of who signed a record: green is only what a confirmed key of the agent has signed, in a
 * record that is green itself. record: the verdict on that, and keyState the state of the
 * agent's key.
 * @param {Word} word
 * @param {KeyState} keyState
 * @param {Verdict} record
 * @returns {{tone: Tone, is: string}}
 */
export function wordVerdict(word, keyState, { tone }) {
  if (word.is === 'unknown') return { tone: '', is: 'signer unknown' };
  if (tone === 'bad') return { tone: '', is: 'signer unknown' }; // the record itself is worth nothing
  if (word.is === 'company') return { tone: '', is: 'recorded with a company key' };
  if (word.is === 'unsigned') return { tone: 'bad', is: 'not signed by the agent' };
  if (word.is === 'fails') return { tone: 'bad', is: 'statement fails' };
  if (keyState === 'other') return { tone: 'bad', is: 'signed by another key' };
  // Its thief may have signed it.
  if (word.stolen) return { tone: 'warn', is: 'signed while the key was in other hands' };
  return { tone: keyState === 'confirmed' && tone === GREEN ? GREEN : 'warn', is: 'signed by the agent' };
}
