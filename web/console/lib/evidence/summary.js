// @ts-check
// The summary of a file that does not fail: who did what, on whose behalf and under which right.
// All checkers print the same lines. Names of the file are JSON strings in them, and end where they
// end.
import { canonical } from '../jcs.js';
import { member } from '../json.js';

const MOST_SHOWN = 2000; // characters of a payload, or of a delegation chain
const MOST_TYPES = 10; // action types of a session

/** @typedef {[name: string, text: string]} SummaryLine */

/** @param {number} n */
const grouped = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ',');

/** @param {string} text */
const quoted = (text) => JSON.stringify(text);

/**
 * All of a text, or its beginning and how long all of it is.
 * @param {string} text
 */
export function shown(text) {
  let length = 0;
  let end = 0;
  for (const character of text) {
    if (length < MOST_SHOWN) end += character.length;
    length++;
  }
  return length <= MOST_SHOWN ? text
    : `the first ${grouped(MOST_SHOWN)} of ${grouped(length)} characters: ${text.slice(0, end)}`;
}

/** @param {number} count */
const counted = (count) => `${count} record${count === 1 ? '' : 's'}`;

/**
 * Whose key signed, by what the person trusts.
 * @param {{policy?: Policy, fingerprint?: string}} trust
 * @param {string} key
 */
function companyKey({ policy, fingerprint }, key) {
  if (policy) return `the company's key ${key}, confirmed by the policy that you named`;
  if (!fingerprint) return `the key ${key}; that it is the company's is not confirmed`;
  return `the company's key ${key}, ${key === fingerprint ? 'which you named' : 'confirmed by the key that you named'}`;
}

/**
 * Whether the agent itself signed.
 * @param {Pick<EvidenceCheck, 'agentKeys' | 'pin'>} found
 * @param {boolean} isStolen
 */
function agentsWord({ agentKeys, pin }, isStolen) {
  if (!agentKeys) return 'none: that the agent did this is the company\'s word alone';
  const kid = agentKeys.chain[0].key.thumbprint;
  const said = pin
    ? `by the agent's own key ${kid}, ${pin === kid ? 'which you named' : 'which follows from the one that you named'}`
    : `by the key ${kid}, which the company enrolled for this agent; that it is the agent's own is not confirmed`;
  return said + (isStolen ? `; the key was in other hands since ${agentKeys.stolen?.since}` : '');
}

/**
 * For whom a record was made.
 * @param {string | null} notActor
 * @param {LogRecord} record
 */
function behalf(notActor, { delegation }) {
  if (!delegation) return 'nobody else: it has no delegation';
  const { subject, chain } = delegation;
  const all = chain[0] === subject ? chain : [subject, ...chain];
  return shown(all.map(quoted).join(' -> ')) + (notActor === null ? ''
    : '; it was given to another one than this agent');
}

/**
 * What the file shows of the right to act. Whether the action was allowed is for the reader to
 * judge: no file says that.
 * @param {Pick<EvidenceCheck, 'file' | 'subject' | 'allowed' | 'ofPassport'>} found
 * @returns {SummaryLine[]}
 */
function rights({ file: { authority, passport, status }, subject, allowed, ofPassport }) {
  const agent = quoted(subject.agentId);
  const last = authority && allowed.findLast(({ subject: of, timestamp }) =>
    of === `agent:${subject.agentId}` && timestamp <= subject.timestamp);
  const right = !authority ? `not in this file: it has no control records about the agent ${agent}`
    : !last ? `nothing here says that the agent ${agent} was registered at that time`
      : `the latest control record here about the agent ${agent} at that time is ${quoted(last.action)}, ` +
        `control record ${last.index}, ${last.timestamp}`;
  if (!passport || !status) return [['right', right]];
  const issued = ofPassport.findLast(({ action }) => action === 'passport.issued');
  const scopes = issued && member(issued.inner, 'scopes');
  const how = issued ? `issued with the scopes ${shown(scopes ? canonical(scopes) : 'null')}`
    : 'which nothing here says was ever issued';
  return [['right', right], ['passport', `${quoted(passport.jti)}, ${how}, was ${status.status} at ` +
    `${status.checkedAt}; nothing here says that this was done with it`]];
}

/**
 * Who approved what was allowed with an approval, if anything was.
 * @param {Pick<EvidenceCheck, 'approvals'>} found
 * @returns {SummaryLine[]}
 */
function approved({ approvals }) {
  const line = approvals.line();
  return line ? [['approved', line]] : [];
}

/** What the summary of a session says of its records. */
export class Tally {
  first = '';

  last = '';

  /** @type {Map<string, number>} */
  types = new Map();

  others = 0; // records of further types

  delegated = 0;

  delegate = ''; // of the first record with a delegation

  /**
   * @param {string | null} notActor
   * @param {LogRecord} record
   */
  add(notActor, record) {
    const { timestamp, index, actionType, delegation } = record;
    const before = this.types.get(actionType);
    this.first ||= timestamp;
    this.last = timestamp;
    if (before || this.types.size < MOST_TYPES) this.types.set(actionType, (before ?? 0) + 1);
    else this.others++;
    if (!delegation) return;
    this.delegated++;
    this.delegate ||= `record ${index}: ${behalf(notActor, record)}`;
  }

  actions() {
    const some = [...this.types].map(([name, count]) => `${quoted(name)} (${count})`);
    return shown([...some, ...(this.others ? [`other types (${this.others})`] : [])].join(', '));
  }
}

/**
 * The lines of a file of one record or of a session that was checked and does not fail. key says
 * whose key the signing one is, where the caller knows that from elsewhere.
 * @param {EvidenceCheck & {header?: SessionHeader, tally?: Tally, state?: () => string,
 *   sinceStolen?: number}} found
 * @param {string} [key]
 * @returns {SummaryLine[]}
 */
export function summary(found, key) {
  const { file, subject, header, tally } = found;
  const company = quoted(file.companyId);
  if (header && tally) {
    const agent = quoted(header.agentId);
    const count = counted(header.records);
    return [
      ['who', `agent ${agent} of the company ${company}, in its session ${quoted(header.sid)}`],
      ['signed by', key ?? companyKey(found, found.last.fingerprint)],
      ['agent\'s signature', agentsWord(found, Boolean(found.sinceStolen))],
      ['what', `${count}, ${found.state?.()}; from ${tally.first} to ${tally.last} by the service's clock`],
      ['actions', tally.actions()],
      ['payload', 'not shown: each record has its own, in its line of the file'],
      ['on behalf of', tally.delegated
        ? `${tally.delegated} of ${count} have a delegation, the first of them ${tally.delegate}`
        : 'nobody else: no record has a delegation'],
      ['right', `not in this file: it has no control records about the agent ${agent} but those of its key`],
      ...approved(found),
    ];
  }
  const { agentId, actionType, index, timestamp, inner, signer } = subject;
  const isAction = file.log === 'actions';
  /** @type {SummaryLine[]} */
  const lines = [
    ['who', isAction ? `agent ${quoted(agentId)} of the company ${company}`
      : `the service itself, in the control log of the company ${company}`],
    ['signed by', key ?? companyKey(found, signer.fingerprint)],
  ];
  if (isAction)
    lines.push(['agent\'s signature', agentsWord(found, Boolean(found.agentKeys?.isStolen(subject)))]);
  lines.push(
    ['what', `${quoted(actionType)}, record ${index} of the log ${file.log}, ${timestamp} by the service's clock`],
    ['payload', shown(canonical(inner))],
  );
  if (isAction) lines.push(['on behalf of', behalf(found.notActor, subject)], ...rights(found), ...approved(found));
  return lines;
}

/** Of a file that holds, while nothing says whose the keys are. */
export const UNCONFIRMED = 'holds, key not confirmed';

/**
 * The verdict, as all checkers print it.
 * @param {{verdict: string, code?: string, reason?: string}} found
 */
export const inWords = ({ verdict, code, reason }) =>
  verdict === 'fails' ? `fails: ${code}: ${reason}`
    : verdict === 'holds' ? 'holds' : `${UNCONFIRMED}: anyone can make such a file`;
