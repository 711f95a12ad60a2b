// @ts-check
// What was found to be wrong with a company, stored beyond the page. A server that shows the truth
// again has lied all the same: so what was red once stays red until a person acknowledges it, with
// a reason (journal.js).
import { FormError, exactly, integer, oneOf, string, timestamp } from '../lib/form.js';
import { member } from '../lib/json.js';
import { storedList } from './stored_list.js';

/**
 * @param {FindingKind} kind
 * @param {Forms} members
 * @param {Forms} [optional]
 */
const of = (kind, members, optional) =>
  exactly({ kind: oneOf(kind), companyId: string, found: timestamp, ...members }, optional);

/** @type {Record<string, Form<unknown>>} */
const forms = {
  // At that time the log had so many records that are not the beginning of the now records that the
  // server showed. Those before from still were.
  rewritten: of('rewritten', {
    log: oneOf('actions', 'control'),
    size: integer,
    at: timestamp,
    source: oneOf('seen', 'checked', 'checkpoint'),
    from: integer,
    now: integer,
  }),
  // The first record that failed, or "the root", of the log of actions where none is named; by says
  // whether it failed here or the server reported it.
  failure: of(
    'failure',
    { failedAt: string, reason: string, by: oneOf('here', 'server') },
    { log: oneOf('actions', 'control') },
  ),
  // A key that the server published for the company, and that nothing proves to follow from the one
  // that was known.
  key: of('key', { fingerprint: string }),
};

/**
 * The form of a finding.
 * @type {Form<Finding>}
 */
export const finding = (node, source, name) => {
  const kind = member(node, 'kind');
  if (kind?.type !== 'string' || !Object.hasOwn(forms, kind.value)) throw new FormError(`${name} is not a finding`);
  return /** @type {Finding} */ (forms[kind.value](node, source, name));
};

/** All findings of all companies, as a store of {all}. */
export const findings = storedList('attestd.findings', finding);

/**
 * The log that a finding is about.
 * @param {{log?: LogName}} finding
 */
export const logOf = ({ log = 'actions' }) => log;

/**
 * The first finding of a kind about a company, and about a log where one is named; or null.
 * @template {FindingKind} K
 * @param {K} kind
 * @param {string} companyId
 * @param {LogName} [log]
 * @param {{all: Finding[]}} [found]
 * @returns {FindingKinds[K] | null}
 */
export const findingOf = (kind, companyId, log, { all } = findings.get()) =>
  /**
   * @type {FindingKinds[K] | undefined} */ (
    all.find((one) => one.kind === kind && one.companyId === companyId && (log === undefined || logOf(one) === log))
  ) ?? null;

/**
 * A place that failed, as people read it; of the two trees the chain has the root that is meant.
 * @param {string | number} failedAt
 */
export const shownPlace = (failedAt) => (failedAt === 'the root' ? 'the chain root' : failedAt);

/**
 * @param {string | number} failedAt
 */
export const placeOf = (failedAt) => (failedAt === 'the root' ? '' : 'record ') + shownPlace(failedAt);

/** @param {{failedAt: string}} finding */
const place = ({ failedAt }) => (failedAt === 'the root' ? Infinity : Number(failedAt));

/**
 * @param {NewFinding} one
 * @returns {(known: Finding) => boolean}
 */
const isAbout = (one) => (known) =>
  known.kind === one.kind && known.companyId === one.companyId && logOf(known) === logOf(one);

/**
 * Of two failures the one with the lower index says more, and of two rewritings the one that knows
 * better where; else the first does.
 * @param {NewFinding} one
 * @param {Finding} known
 */
const saysMore = (one, known) =>
  one.kind === 'failure'
    ? known.kind === 'failure' && place(one) < place(known)
    : one.kind === 'rewritten' && known.kind === 'rewritten' && one.from > known.from;

/**
 * Keeps a finding, {kind, companyId, …} as its form says. Since when something is wrong stays as it
 * was found first.
 * @param {NewFinding} given
 */
export function addFinding(given) {
  const isKnown = isAbout(given);
  /** @param {Finding[]} all */
  const isRecorded = (all) => all.some((known) => isKnown(known) && !saysMore(given, known));
  if (isRecorded(findings.get().all)) return;
  findings.change((all) =>
    isRecorded(all)
      ? all
      : [
          ...all.filter((one) => !isKnown(one)),
          { ...given, found: all.find(isKnown)?.found ?? new Date().toISOString() },
        ],
  );
}

/**
 * Forgets the findings of a kind about a company, those about one log where it is named: for who
 * knows why.
 * @param {FindingKind} kind
 * @param {string} companyId
 * @param {LogName} [log]
 */
export const dropFinding = (kind, companyId, log) =>
  findings.change((all) =>
    all.filter((one) => one.kind !== kind || one.companyId !== companyId || (log !== undefined && logOf(one) !== log)),
  );
