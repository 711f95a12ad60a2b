// @ts-check
// Whether a list of the server has what the control log says that there is: all that was created
// and not deleted since, and nothing else. The server finds the control records, and each is
// checked here; that it left none of them out, only a report shows.
import { FormError } from '../lib/form.js';
import { canonical, canonicalize } from '../lib/jcs.js';
import { member, parse, textOf } from '../lib/json.js';
import { table } from '../lib/table.js';
import { allChanges } from './control_log.js';
import { proveSince } from './growth.js';
import { signedIn } from './session.js';

const NEAR = 60_000; // ms between the time of a change and that of its record

/**
 * A list or an object of a record, as text in its RFC 8785 form: it is compared, and never built.
 */
class Compound {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
  }
}

const SHOWN = ['agentId', 'match', 'person', 'register', 'ttl']; // of a rule, in canonical order

/**
 * What the list has of the rules of a federation.
 * @param {unknown} rules
 */
function shownRules(rules) {
  const list = rules instanceof Compound ? parse(rules.text) : null;
  if (list?.type !== 'array') return undefined;
  const shown = list.items.map((rule) => SHOWN.flatMap((name) => {
    const value = member(rule, name);
    return value ? [`"${name}":${canonical(value)}`] : [];
  }));
  return new Compound(`[${shown.map((members) => `{${members.join()}}`).join()}]`);
}

/**
 * What is compared, by the kind in the subject of its control records: its name, the actions that
 * begin, change and end it, and what a record says of it, by the members of the list. A member that
 * it leaves undefined is as it was before. {near} is a time that the list has to the minute.
 * @type {Record<string, ListedKind>}
 */
export const LISTED = table({
  'api-key': {
    what: 'API key',
    created: 'api-key.created',
    ended: 'api-key.deleted',
    says: ({ role, label, expiresAt, by }) => ({ role, label, expiresAt, madeBy: by }),
  },
  'oauth-client': {
    what: 'OAuth client',
    created: 'oauth-client.created',
    ended: 'oauth-client.deleted',
    says: ({ fingerprint, role, expiresAt, by }) => ({ fingerprint, role, expiresAt, madeBy: by }),
  },
  webhook: {
    what: 'webhook',
    created: 'webhook.created',
    changed: ['webhook.enabled', 'webhook.disabled', 'webhook.secret-rotated'],
    ended: 'webhook.deleted',
    says({ urlHash, agents, actions, fingerprint, reason }, { actionType, timestamp }) {
      const delivers = actionType === 'webhook.created' || actionType === 'webhook.enabled';
      const disabledAt = actionType === 'webhook.disabled' ? { near: timestamp } : undefined;
      return {
        url: urlHash, agents, actions, fingerprint, disabledReason: delivers ? null : reason,
        disabledAt: delivers || reason === null ? null : disabledAt,
      };
    },
  },
  person: {
    what: 'person',
    created: 'person.created',
    changed: ['person.changed'],
    ended: 'person.deleted',
    says: ({ name, email, roles, groups, disabledAt = null }) => ({ name, email, roles, groups, disabledAt }),
  },
  federation: {
    what: 'federation',
    created: 'federation.created',
    ended: 'federation.deleted',
    says: ({ issuer, audience, rules, jwks, jwksUri }) => ({
      issuer, audience, jwks, jwksUri, rules: shownRules(rules),
    }),
  },
});

/** @param {unknown} seconds */
const timeOf = (seconds) => (typeof seconds === 'number' ? new Date(seconds * 1000).toISOString() : undefined);

/**
 * What is compared item by item, because there may be a million and a page lists some of them.
 * @type {Record<string, ListedKind>}
 */
const PAGED = table({
  agent: {
    what: 'agent',
    created: 'agent.registered',
    changed: ['agent.disabled', 'agent.enabled'],
    ended: '',
    says: ({ registeredAt, disabledAt }, { actionType }) =>
      ({ registeredAt, disabledAt: actionType === 'agent.enabled' ? null : disabledAt }),
  },
  passport: {
    what: 'passport',
    created: 'passport.issued',
    changed: ['passport.revoked'],
    ended: '',
    says: ({ agentId, scopes, issuedAt, expiresAt, revokedAt, reason }, { actionType }) => (
      actionType === 'passport.revoked' ? { agentId, revokedAt, reason }
        : { agentId, scopes, issuedAt: timeOf(issuedAt), expiresAt: timeOf(expiresAt), revokedAt: revokedAt ?? null,
          reason: reason instanceof Compound ? textOf(member(parse(reason.text), 'value')) ?? null : null }),
  },
});
const MOST = 5000; // records that are read to compare a page

/** @param {string} subject */
function named(subject) {
  const [kind] = subject.split(':', 1);
  return { kind, what: kindOf(kind).what, name: subject.slice(kind.length + 1) };
}

/** @param {string} kind */
const kindOf = (kind) => LISTED[kind] ?? PAGED[kind];

/** @param {JSONNode} node */
function valueOf(node) {
  switch (node.type) {
    case 'string': return node.value;
    case 'number': return Number(node.lexeme);
    case 'true': return true;
    case 'false': return false;
    case 'null': return null;
    default: return new Compound(canonical(node));
  }
}

/**
 * @param {JSONNode} node
 * @returns {Record<string, any>}
 */
const membersOf = (node) =>
  (node.type === 'object' ? Object.fromEntries(node.members.map(({ key, value }) => [key, valueOf(value)])) : {});

/**
 * The members of a row that an operator adopted or accepted, as another record names them: '' is
 * none there, and a list is a text.
 * @param {Record<string, any>} row
 */
function ofRow(row) {
  const members = Object.fromEntries(Object.entries(row).map(([name, value]) =>
    [name, value === '' ? null : /^[[{]/.test(value) ? new Compound(canonicalize(value)) : value]));
  const { madeBy, disabled } = members;
  return { ...members, by: madeBy, reason: disabled };
}

/**
 * What a record says of what it is about, by the members of its list.
 * @param {string} kind
 * @param {LogRecord} record
 * @returns {Record<string, unknown>}
 */
function saidBy(kind, record) {
  const row = member(record.inner, 'row');
  if (row?.type === 'null') return {};
  const said = kindOf(kind).says(row ? ofRow(membersOf(row)) : membersOf(record.inner), record);
  return Object.fromEntries(Object.entries(said).filter(([, value]) => value !== undefined));
}

/**
 * What some changes, in any order, say of each subject of a kind: {first, last, ended, said}, of
 * which first has created it and last is the newest. said has, by the members of its list, the
 * newest record that says something of it, and what. Rows that were adopted or accepted by an
 * operator have a record that says what the row was, or null where there was none.
 * @param {Pick<ControlChange, 'record' | 'subject'>[]} changes
 * @param {string} kind
 * @returns {ListedLives}
 */
export function lives(changes, kind) {
  /** @type {ListedLives} */
  const found = new Map();
  for (const { subject, record } of changes.toSorted((a, b) => a.record.index - b.record.index)) {
    if (!subject.startsWith(`${kind}:`)) continue;
    const known = found.get(subject);
    const before = known?.ended ? undefined : known; // a name may be given again
    const ended = record.actionType === kindOf(kind).ended || member(record.inner, 'row')?.type === 'null';
    const said = new Map(before?.said ?? []);
    if (!before && record.actionType === kindOf(kind).created)
      said.set('createdAt', { value: { near: record.timestamp }, record });
    if (!ended) for (const [name, value] of Object.entries(saidBy(kind, record))) said.set(name, { value, record });
    found.set(subject, { first: before?.first ?? record, last: record, ended, said });
  }
  return found;
}

/** @param {unknown} value */
const spelled = (value) =>
  (value instanceof Compound ? value.text : canonical(parse(JSON.stringify(value ?? null))));

/**
 * @param {any} says
 * @param {any} lists
 */
const agrees = (says, lists) => (says?.near
  ? Math.abs(Date.parse(says.near) - Date.parse(lists)) < NEAR
  : spelled(says) === spelled(lists));

/**
 * Where the list has something of its item otherwise than the records say.
 * @param {string} subject
 * @param {Record<string, unknown>} lists
 * @param {Map<string, {value: any, record: LogRecord}>} said
 * @returns {ListedDifference[]}
 */
const altered = (subject, lists, said) => [...said]
  .filter(([name, { value }]) => Object.hasOwn(lists, name) && !agrees(value, lists[name]))
  .map(([name, { value, record }]) => ({ ...named(subject), is: 'altered', record,
    altered: { member: name, lists: spelled(lists[name]), says: spelled(value?.near ?? value) } }));

/**
 * @param {ListedLives} known
 * @param {ListedItem[]} items that the server lists
 * @returns {ListedCheck}
 */
export function compare(known, items) {
  const listed = new Set(items.map(({ subject }) => subject));
  /** @type {ListedDifference[]} */
  const differences = [];
  for (const [subject, { first, ended }] of known)
    if (!ended && !listed.has(subject)) differences.push({ ...named(subject), is: 'lacking', record: first });
  for (const { subject, lists } of items) {
    const one = known.get(subject);
    if (!one) differences.push({ ...named(subject), is: 'unknown', record: null });
    else if (one.ended) differences.push({ ...named(subject), is: 'ended', record: one.last });
    else differences.push(...altered(subject, lists, one.said));
  }
  if (listed.size < items.length) throw new FormError('The server lists one thing twice.');
  const ended = [...known.values()].filter((one) => one.ended).length;
  return { differences, created: known.size, ended };
}

/**
 * Has the disabling of agents in what is said of their passports, which it has revoked. One that
 * had expired by then may be listed either way.
 * @param {ListedLives} known
 * @param {ListedItem[]} items
 * @param {ControlChange[]} disablings the oldest first
 */
function disable(known, items, disablings) {
  for (const { subject, lists } of items) {
    const { first, said } = known.get(subject) ?? {};
    if (!first || said?.get('revokedAt')?.value !== null) continue;
    const by = disablings.find(({ subject: agent, record }) =>
      agent === `agent:${said?.get('agentId')?.value}` && record.index > first.index);
    if (!by) continue;
    const { record } = by;
    const at = membersOf(record.inner).disabledAt;
    if (said.get('expiresAt')?.value <= at && lists.revokedAt === undefined) continue;
    said.set('revokedAt', { value: at, record });
    said.set('reason', { value: 'the agent was disabled', record });
  }
}

/**
 * Compares a page of agents or passports with the control log: what it lists otherwise, and what no
 * record knows.
 * @param {'agent' | 'passport'} kind
 * @param {ListedItem[]} items
 * @param {{q?: string, since?: string}} asked which records are of all of them
 * @returns {Promise<ListedCheck>}
 */
export async function comparePage(kind, items, asked) {
  await proveSince(signedIn().key);
  const rows = await allChanges({ action: 'row.*', q: `${kind}:` }, MOST);
  const known = lives([...(await allChanges({ ...asked, action: `${kind}.*` }, MOST)), ...rows], kind);
  if (kind === 'passport')
    disable(known, items, (await allChanges({ ...asked, action: 'agent.disabled' }, MOST)).reverse());
  for (const { said } of known.values()) {
    const revoked = said.get('revokedAt');
    if (revoked) said.set('revoked', { ...revoked, value: revoked.value !== null });
  }
  const shown = new Set(items.map(({ subject }) => subject));
  return compare(new Map([...known].filter(([subject]) => shown.has(subject))), items);
}

/**
 * Compares what the server lists, of some kinds, with the control log.
 * @param {string[]} kinds
 * @param {ListedItem[]} items
 */
export async function compareWithLog(kinds, items) {
  await proveSince(signedIn().key); // how long the log is, by a checkpoint that the company has signed
  /** @type {ListedLives} */
  const known = new Map();
  for (const kind of kinds) {
    const { created, changed = [], ended } = LISTED[kind];
    const changes = [];
    for (const asked of [...[created, ...changed, ended].map((action) => ({ action })),
      { action: 'row.*', q: `${kind}:` }])
      changes.push(...(await allChanges(asked)));
    for (const [subject, life] of lives(changes, kind)) known.set(subject, life);
  }
  return compare(known, items);
}
