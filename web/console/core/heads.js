// @ts-check
// What this browser has seen of each log: lengths and roots, stored beyond the page. A chain only
// ever grows, so each of them must be the beginning of what the server shows later (growth.js).
// Where it is not, the history was rewritten, whatever the server says of itself.
import { boolean, exactly, hash, integer, list, oneOf, string, timestamp } from '../lib/form.js';
import { dropFinding, findingOf, findings, addFinding } from './findings.js';
import { storedList } from './stored_list.js';
import { store } from './store.js';

const MOST = 24; // for each log; between them the place of a change is found

// fingerprints: of all keys that the company was known by. root is of the specification's tree,
// logRoot of that of RFC 6962. proven: a longer one is stored of which it is the beginning, so that
// to prove the longer one is enough.
const head = exactly(
  {
    companyId: string,
    fingerprints: list(string),
    log: oneOf('actions', 'control'),
    size: integer,
    at: timestamp,
    source: oneOf('seen', 'checked', 'checkpoint'),
    proven: boolean,
  },
  { root: hash, logRoot: hash },
);

const pinned = storedList('attestd.heads', head);

/**
 * rewritten: null, or the finding of findings.js that a log of the company that is signed in is not
 * what it was.
 * @type {Store<{rewritten: RewrittenFinding | null}>}
 */
export const heads = store({ rewritten: null });

let shownOf = '';

function show() {
  const rewritten = findingOf('rewritten', shownOf);
  const { rewritten: shown } = heads.get();
  if (rewritten?.found !== shown?.found || rewritten?.from !== shown?.from) heads.set({ rewritten });
}

findings.subscribe(show);

/**
 * Shows what was found of a company, '' for none: it is signed in from now on.
 * @param {string} companyId
 */
export function showFindings(companyId) {
  shownOf = companyId;
  show();
}

/** @param {NamedKey} key */
const fingerprintsOf = (key) => (key.ring ?? [key]).map(({ fingerprint }) => fingerprint);

/**
 * One key in common makes it the same log: a server that leaves out the first keys of a company, or
 * puts one before them, names no other log by that.
 * @param {NamedKey} key
 * @param {LogName} log
 * @returns {(one: KeptHead) => boolean}
 */
function ofLog(key, log) {
  const own = fingerprintsOf(key);
  return (one) =>
    one.companyId === key.companyId &&
    one.log === log &&
    one.fingerprints.some((fingerprint) => own.includes(fingerprint));
}

/**
 * @param {string | undefined} own
 * @param {string | undefined} other
 */
const holdsAll = (own, other) => other === undefined || own === other;

/**
 * Whether one head says all that another one of its length says.
 * @param {Head} a
 * @param {Head} b
 */
const covers = (a, b) => a.size === b.size && holdsAll(a.root, b.root) && holdsAll(a.logRoot, b.logRoot);

/**
 * @param {string | undefined} a
 * @param {string | undefined} b
 */
const differ = (a, b) => a !== undefined && b !== undefined && a !== b;
/**
 * @param {Head} a
 * @returns {(b: Head) => boolean}
 */
const contradicts = (a) => (b) => a.size === b.size && (differ(a.root, b.root) || differ(a.logRoot, b.logRoot));

/**
 * Of too many, that one goes whose neighbours are nearest to each other: what stays is spread over
 * the whole length. What is not proven to have grown into another one stays.
 * @param {KeptHead[]} entries
 */
function thinned(entries) {
  /** @param {number} i */
  const span = (i) => entries[i + 1].size - entries[i - 1].size;
  const free = entries.length > MOST ? entries.map((_, i) => i).slice(1, -1).filter((i) => entries[i].proven) : [];
  return free.length ? entries.toSpliced(free.reduce((least, i) => (span(i) < span(least) ? i : least)), 1) : entries;
}

/**
 * Keeps a head of a company's log, {log, size, root, logRoot, source}, of which one root may be
 * missing. beginnings: heads of which it is known that this one has grown from them. An empty log
 * says nothing. Two of one length that differ are two histories, from any source.
 * @param {NamedKey} key
 * @param {NewHead} head
 * @param {Head[]} [beginnings]
 */
export function pinHead(key, { at = new Date().toISOString(), ...given }, beginnings = []) {
  if (given.size === 0) return;
  const isOwn = ofLog(key, given.log);
  const other = headsOf(key, given.log).find(contradicts(given));
  if (other) rewrittenSince(key, given.log, other, { from: 0, now: given.size });
  pinned.change((all) => {
    const own = all
      .filter(isOwn)
      .map((one) =>
        one.size < given.size && beginnings.some((begin) => covers(begin, one)) ? { ...one, proven: true } : one,
      );
    const known = own.filter((one) => covers(one, given) || covers(given, one));
    const roots = Object.assign(
      {},
      ...[given, ...known].flatMap(({ root, logRoot }) => [root && { root }, logRoot && { logRoot }]),
    );
    const one = {
      companyId: key.companyId, log: given.log, size: given.size, ...roots,
      at: [at, ...known.map((e) => e.at)].sort()[0], // the first time stays
      // What was checked, or is in a file, is more than what was seen.
      source: known.find(({ source }) => source !== 'seen')?.source ?? given.source,
      proven: known.some((e) => e.proven && covers(e, { size: given.size, ...roots })),
      fingerprints: [...new Set([...known.flatMap(({ fingerprints }) => fingerprints), ...fingerprintsOf(key)])],
    };
    return [
      ...all.filter((e) => !isOwn(e)),
      ...thinned([...own.filter((e) => !known.includes(e)), one].sort((a, b) => a.size - b.size)),
    ];
  });
}

/**
 * Keeps what was checked of a company's log, as WholeLog, and the beginnings of it, by which the
 * place of a later change is found. Resolves to its head.
 * @param {NamedKey} key
 * @param {LogName} log
 * @param {import('../lib/whole_log.js').WholeLog} whole
 */
export async function pinChecked(key, log, whole) {
  const [top, beginnings] = await Promise.all([whole.head(), whole.beginnings()]);
  const shorter = beginnings.slice(0, -1);
  for (const one of shorter) pinHead(key, { log, ...one, source: 'checked' });
  pinHead(key, { log, ...top, source: 'checked' }, shorter);
  return top;
}

/**
 * How many records a company's log is known to have, by what its keys have signed.
 * @param {NamedKey} key
 * @param {LogName} log
 */
export const provenSize = (key, log) => Math.max(0, ...headsOf(key, log).map(({ size }) => size));

/**
 * The stored heads of a company's log, the shortest first.
 * @param {NamedKey} key
 * @param {LogName} log
 */
export const headsOf = (key, log) => pinned.get().all.filter(ofLog(key, log));

/**
 * Since when this browser knows a company's log; '' where it does not.
 * @param {NamedKey} key
 * @param {LogName} log
 */
export const knownSince = (key, log) => headsOf(key, log).map(({ at }) => at).sort()[0] ?? '';

/**
 * Says that a head, {size, at, source}, is not the beginning of what is shown now. from is how many
 * records are still what they were, now how many are shown.
 * @param {{companyId: string}} key
 * @param {LogName} log
 * @param {{size: number, at: string, source: HeadSource}} head
 * @param {{from: number, now: number}} now
 */
export const rewrittenSince = (key, log, { size, at, source }, { from, now }) =>
  addFinding({ kind: 'rewritten', companyId: key.companyId, log, size, at, source, from, now });

/**
 * Forgets what was seen of a log that was rewritten: for who knows why. What is shown from now on
 * is remembered from now on.
 * @param {{companyId: string, log: LogName}} finding
 */
export function forgetHeads({ companyId, log }) {
  pinned.change((all) => all.filter((e) => e.companyId !== companyId || e.log !== log));
  dropFinding('rewritten', companyId, log);
}
